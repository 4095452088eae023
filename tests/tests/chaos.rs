//! The chaos program in a small size: one fault of each kind, in a run that takes every check.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use triad_tests::process::command;

/// A bound against hanging. The program has bounds of its own, and says which one was met.
const LONGEST: Duration = Duration::from_secs(900);

#[tokio::test]
async fn every_guarantee_holds_over_a_fault_of_each_kind() {
    let mut command = command("triad-chaos");
    command
        .args(["--orders", "300", "--seed", "23", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let child = command.spawn().expect("the program starts");
    let pid = child.id();
    let mut ended = std::pin::pin!(child.wait_with_output());
    let ended = match tokio::time::timeout(LONGEST, &mut ended).await {
        Ok(ended) => ended,
        // It ends its processes itself when it is asked to.
        Err(_) => {
            interrupt(pid);
            ended.await
        }
    };
    let ended = ended.expect("a child can be waited for");
    let out = String::from_utf8_lossy(&ended.stdout);
    let err = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{out}\n{err}");
    let report: Value = serde_json::from_str(&out).expect("the report is JSON");
    let faults = report["faults"].as_object().expect("faults by kind");
    assert_eq!(faults.len(), 5, "{faults:?}");
    for (kind, times) in faults {
        assert!(times.as_u64() >= Some(1), "{kind}: {report}");
    }
    let checks = report["checks"].as_array().expect("checks");
    let guarantees = (1..=10).map(|n| format!("G{n}"));
    for guarantee in guarantees {
        let of_it = checks.iter().filter(|c| c["guarantee"] == guarantee);
        let checked: u64 = of_it.filter_map(|c| c["checked"].as_u64()).sum();
        assert!(checked > 0, "{guarantee} was not looked at: {report}");
    }
    for end in ["Processed", "Compensated", "Error"] {
        assert!(report["ends"][end].as_u64() >= Some(1), "{end}: {report}");
    }
}

fn interrupt(pid: Option<u32>) {
    let pid = pid.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let asked = pid.map(|pid| kill_process(pid, Signal::TERM));
    assert!(asked.is_some_and(|a| a.is_ok()), "the program is there");
}

#[tokio::test]
async fn wrong_arguments_are_told_and_nothing_is_started() {
    for args in [
        ["--orders", "0"],
        ["--template", "no-such-file.jsonl"],
        ["--bin-dir", "/nowhere"],
    ] {
        let ended = command("triad-chaos").args(args).output().await;
        let ended = ended.expect("the program starts");
        assert_eq!(ended.status.code(), Some(2), "{ended:?}");
        assert!(!ended.stderr.is_empty());
    }
}
