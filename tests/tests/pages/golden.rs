//! What a release has written must stay readable: its golden files still exist, unchanged.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders with golden files of messages and stored items.
const FOLDERS: [&str; 4] = [
    "shared/kernel/core/tests/golden",
    "shared/adapters/dynamodb/tests/golden",
    "shared/kernel/runtime/tests/golden",
    "shared/operations/operator/tests/golden",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The lines that git prints; empty without a history, as in a source archive.
fn git(words: &[&str]) -> Vec<String> {
    let told = Command::new("git").args(words).current_dir(root()).output();
    let told = told.ok().filter(|told| told.status.success());
    let text = told.map(|told| String::from_utf8(told.stdout).expect("text"));
    let text = text.unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_golden_files_of_every_release_are_as_they_were() {
    for folder in FOLDERS {
        assert!(root().join(folder).is_dir(), "{folder} is there");
    }
    for release in git(&["tag", "--list", "v*"]) {
        let changed = ["diff", "--name-only", "--diff-filter=a", &release, "--"];
        let changed = git(&[&changed[..], &FOLDERS].concat());
        assert!(
            changed.is_empty(),
            "{release} wrote these forms, which must stay readable: a new one gets a file of its own: {changed:?}"
        );
    }
}
