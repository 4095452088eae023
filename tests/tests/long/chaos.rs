//! The chaos program with few orders: one fault of each kind with every check, and runs of an installation that
//! breaks its guarantees.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use triad_tests::cli::Ran;
use triad_tests::orders::Files;
use triad_tests::process::{binary, command};

/// Time limit against hanging. The program has its own limits, and reports which one was exceeded.
const LONGEST: Duration = Duration::from_secs(900);

#[tokio::test]
async fn every_guarantee_holds_over_a_fault_of_each_kind() {
    let files = Files::new();
    let history = files.arg("history.jsonl");
    let ended = chaos(&["--orders", "300", "--seed", "23", "--history", &history]).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = &ended.json_lines()[0];
    let faults = report["faults"].as_object().expect("faults by kind");
    assert_eq!(faults.len(), 5, "{faults:?}");
    for (kind, times) in faults {
        assert!(times.as_u64() >= Some(1), "{kind}: {report}");
    }
    for guarantee in (1..=10).map(|n| format!("G{n}")) {
        let looked_at = sum(report, &guarantee, "checked");
        assert!(looked_at > 0, "{guarantee} was not looked at: {report}");
    }
    for end in ["Processed", "Compensated", "Error"] {
        assert!(report["ends"][end].as_u64() >= Some(1), "{end}: {report}");
    }
    let judged = &report["judged"];
    assert!(judged["objects"].as_u64() >= Some(300), "{judged}");
    assert!(judged["writes"].as_u64() >= Some(2_000), "{judged}");
    assert!(judged["seen"].as_u64() >= Some(2_000), "{judged}");
    assert!(files.path("history.jsonl").exists(), "it is exported");
}

/// Runs these outages with few orders: orders that do not need the failed part must continue, and none may end
/// wrongly.
async fn stops_nothing_that_does_not_need_it(outages: &[&str]) {
    let mut args = vec!["--outages", "5s", "--orders", "120"];
    args.extend(outages.iter().flat_map(|outage| ["--only", outage]));
    let ended = chaos(&args).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = &ended.json_lines()[0];
    let shown = report["outages"].as_array().expect("outages");
    assert_eq!(shown.len(), outages.len(), "{report}");
    for outage in shown {
        assert!(outage["held"].as_u64() > Some(0), "{outage}");
    }
    assert!(sum(report, "G11", "checked") > 200, "{report}");
    let judged = &report["judged"];
    assert!(judged["operations"].as_u64() > Some(300), "{report}");
}

#[tokio::test]
async fn a_service_that_hangs_and_a_store_that_denies_stop_nothing_that_does_not_need_them() {
    stops_nothing_that_does_not_need_it(&["service", "store"]).await;
}

#[tokio::test]
async fn a_topic_that_refuses_stops_nothing_that_does_not_need_it() {
    stops_nothing_that_does_not_need_it(&["alerts", "requests"]).await;
}

/// The store acknowledges one write of a record in ten without carrying it out. The judge must find that.
#[tokio::test]
async fn a_store_that_lies_is_convicted() {
    let ended = chaos(&[
        "--orders",
        "60",
        "--faults",
        "0",
        "--store-lies",
        "dropped-write",
        "--patience",
        "30s",
        "--quiet-within",
        "20s",
    ])
    .await;
    assert_eq!(ended.code, 1, "{ended:?}");
    let report = &ended.json_lines()[0];
    assert!(
        report["judged"]["unexplained"]["objects"].as_u64() > Some(0),
        "{report}"
    );
}

/// The broker keeps nothing on disk, so a kill loses acknowledged records. The checks must find that.
#[tokio::test]
async fn a_broker_that_forgets_is_found_out() {
    let files = Files::new();
    for program in [
        "triad",
        "triad-worker",
        "triad-store",
        "triad-reference-service",
    ] {
        symlink(binary(program), files.path(program)).expect("a link can be made");
    }
    let broker = binary("triad-broker");
    // The chaos program starts it with --listen ADDRESS --data DIRECTORY.
    let script = format!("#!/bin/sh\nexec '{}' --listen \"$2\"\n", broker.display());
    let forgetful = files.write("triad-broker", &script);
    std::fs::set_permissions(&forgetful, Permissions::from_mode(0o755)).expect("it can be run");
    let (bin, data) = (files.arg(""), files.arg("data"));
    let ended = chaos(&[
        "--bin-dir",
        &bin,
        "--data",
        &data,
        "--orders",
        "40",
        // One fault, of the broker, after two orders have ended, so that the test is short on a slow machine too.
        "--faults",
        "1",
        "--seed",
        "182",
        "--patience",
        "20s",
        "--quiet-within",
        "5s",
    ])
    .await;
    assert_eq!(ended.code, 1, "{ended:?}");
    let report = &ended.json_lines()[0];
    assert_eq!(report["faults"]["kill-broker"], 1, "{ended:?}");
    assert!(sum(report, "G1", "breaches") > 0, "{ended:?}");
    assert!(files.path("data/ledger.jsonl").exists(), "it is kept");
}

/// The sum of this number over all checks of a guarantee.
fn sum(report: &Value, guarantee: &str, number: &str) -> u64 {
    let checks = report["checks"].as_array().expect("checks");
    let of_it = checks.iter().filter(|c| c["guarantee"] == guarantee);
    of_it.filter_map(|c| c[number].as_u64()).sum()
}

/// Runs the program to its end.
async fn chaos(args: &[&str]) -> Ran {
    let mut command = command("triad-chaos");
    command
        .args(args)
        .arg("--json")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let child = command.spawn().expect("the program starts");
    let pid = child.id();
    let mut ended = std::pin::pin!(child.wait_with_output());
    let ended = match tokio::time::timeout(LONGEST, &mut ended).await {
        Ok(ended) => ended,
        // On SIGTERM the program ends its child processes.
        Err(_) => {
            interrupt(pid);
            ended.await
        }
    };
    let ended = ended.expect("a child can be waited for");
    Ran {
        code: ended.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&ended.stdout).into_owned(),
        err: String::from_utf8_lossy(&ended.stderr).into_owned(),
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
