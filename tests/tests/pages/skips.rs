//! A run lists its skipped tests at the end, and fails if one of them must not be skipped.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use triad_tests::orders::Files;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace is there")
        .to_owned()
}

/// Runs shell lines with the functions of `tests/skips.sh` and a file for the skips.
fn run(files: &Files, lines: &str) -> Output {
    let script = format!("set -euo pipefail\n. tests/skips.sh\n: >> \"$TRIAD_SKIPS\"\n{lines}");
    Command::new("bash")
        .args(["-c", &script])
        .current_dir(root())
        .env("TRIAD_SKIPS", files.path("skips"))
        .output()
        .expect("bash runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const REPORT: &str = "skips_allowed \"$TRIAD_SKIPS\"";

#[test]
fn a_run_that_left_nothing_out_lists_nothing() {
    let ended = run(&Files::new(), REPORT);
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(said(&ended), "");
}

#[test]
fn what_may_be_left_out_is_listed_with_the_reason() {
    let files = Files::new();
    let ended = run(
        &files,
        &format!("skipped licence-texts 'no tool'; {REPORT}"),
    );
    assert!(ended.status.success(), "{ended:?}");
    let said = said(&ended);
    assert!(said.contains("NOT CHECKED"), "{said}");
    assert!(
        said.contains("licence-texts: no tool (may be left out: "),
        "{said}"
    );
}

#[test]
fn what_must_be_checked_fails_the_run_that_left_it_out() {
    let files = Files::new();
    let lines = "skipped licences 'no tool'; skipped kafkajs 'no npm'; skipped kafkajs 'no npm'";
    let ended = run(&files, &format!("{lines}; {REPORT}"));
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let said = said(&ended);
    assert_eq!(
        said.matches("kafkajs: no npm. CI MUST CHECK IT.").count(),
        1,
        "{said}"
    );
}

#[test]
fn a_part_may_leave_something_out_only_if_it_says_what() {
    let files = Files::new();
    for (part, code) in [
        ("true", 0),
        ("bash -c 'exit 2'", 2),
        ("bash -c 'exit 3'", 1),
        (
            "bash -c '. tests/skips.sh; skipped advisories none; exit 3'",
            0,
        ),
    ] {
        let ended = run(&files, &format!("may_skip {part}"));
        assert_eq!(ended.status.code(), Some(code), "{part}: {ended:?}");
    }
}

#[test]
fn the_run_of_everything_reports_what_was_left_out() {
    let text = std::fs::read_to_string(root().join("tests/verify.sh")).expect("it is there");
    for part in ["infra.sh", "deployed.sh --quick", "supply.sh"] {
        assert!(text.contains(&format!("may_skip tests/{part}\n")), "{part}");
    }
    assert!(text.contains(REPORT), "{text}");
    assert!(!text.contains("SKIPPED"), "it is said by the one function");
}

/// The Rust files in the repository that git tracks or would add.
fn sources() -> Vec<String> {
    let listed = Command::new("git")
        .args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "*.rs",
        ])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(listed.status.success(), "{listed:?}");
    let names = String::from_utf8(listed.stdout).expect("names are text");
    names.lines().map(str::to_owned).collect()
}

/// Reasons of ignored tests that check nothing by themselves, or that another test runs.
const NO_TESTS: [&str; 7] = [
    "it writes docs/tutorial",
    "writes the golden file anew",
    "writes the golden file of a new form",
    "writes the golden file",
    "writes the golden files",
    "needs credentials in its environment: the test above runs it",
    "run by a_proxy_of_the_environment_is_not_asked",
];

#[test]
fn no_test_is_left_out_in_a_way_of_its_own() {
    let own = "tests/tests/pages/skips.rs";
    let (mut reasons, mut tellers) = (BTreeSet::new(), BTreeSet::new());
    for name in sources().into_iter().filter(|n| n != own) {
        // Git still lists the file although it is deleted.
        let Ok(text) = std::fs::read_to_string(root().join(&name)) else {
            continue;
        };
        for ignored in text.split("#[ignore").skip(1) {
            reasons.insert(ignored.split('"').nth(1).unwrap_or("none").to_owned());
        }
        if text.contains("SKIPPED") {
            tellers.insert(name);
        }
    }
    assert!(!reasons.is_empty(), "the sources are seen");
    let known = BTreeSet::from(NO_TESTS.map(str::to_owned));
    assert!(reasons.is_subset(&known), "{reasons:?}");
    assert_eq!(tellers, BTreeSet::from(["tests/src/skipped.rs".to_owned()]));
}
