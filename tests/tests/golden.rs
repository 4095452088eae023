//! Messages and stored items of every form that was ever written stay readable: their golden files are
//! kept as they are. `tests/golden.sha256` lists them (`sha256sum -c` reads it), and only grows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

/// Where golden files of messages and stored items are.
const FOLDERS: [&str; 5] = [
    "shared/core/tests/golden",
    "shared/dynamodb/tests/golden",
    "shared/runtime/tests/golden",
    "engines/sqlite/tests/golden",
    "shared/operator/tests/golden",
];
const LIST: &str = "tests/golden.sha256";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The lines of a list: digest and file.
fn lines(list: &str) -> BTreeSet<(String, String)> {
    let line = |line: &str| {
        let (digest, file) = line.split_once("  ").expect("digest and file");
        (digest.to_owned(), file.to_owned())
    };
    list.lines().map(line).collect()
}

/// What there is, in the form of the list.
fn found() -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for folder in FOLDERS {
        for file in fs::read_dir(root().join(folder)).expect("the folder is there") {
            let file = file.expect("it can be read");
            let digest = Sha256::digest(fs::read(file.path()).expect("it can be read"));
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            let name = file.file_name().into_string().expect("a name in text");
            found.insert((hex, format!("{folder}/{name}")));
        }
    }
    found
}

#[test]
fn every_golden_file_is_listed_and_as_it_was_when_it_was_listed() {
    let list = fs::read_to_string(root().join(LIST)).expect("the list is there");
    let (listed, found) = (lines(&list), found());
    assert!(found.len() > 30, "they are found: {}", found.len());
    let changed: Vec<_> = listed.difference(&found).collect();
    assert!(
        changed.is_empty(),
        "a form that was written once must stay readable, its file as it is; give the new form a file \
         of its own: {changed:?}"
    );
    let new: Vec<_> = found.difference(&listed).collect();
    assert!(
        new.is_empty(),
        "append these to {LIST} (`sha256sum FILE >> {LIST}`): {new:?}"
    );
    let files: BTreeMap<_, _> = listed.iter().map(|(digest, file)| (file, digest)).collect();
    assert_eq!(files.len(), listed.len(), "each file once");
}

/// Every list that was ever committed is part of the present one. (Where there is no history, as in a
/// source archive, there is nothing to hold it against.)
#[test]
fn no_golden_file_was_ever_taken_off_the_list() {
    let git = |words: &[&str]| {
        let told = Command::new("git").args(words).current_dir(root()).output();
        told.ok().filter(|told| told.status.success())
    };
    let present = fs::read_to_string(root().join(LIST)).expect("the list is there");
    let present = lines(&present);
    // From the top level, wherever this copy of it lies.
    let Some(commits) = git(&["log", "--format=%H", "--", &format!(":/{LIST}")]) else {
        return;
    };
    let commits = String::from_utf8(commits.stdout).expect("text");
    for commit in commits.lines() {
        let Some(then) = git(&["show", &format!("{commit}:{LIST}")]) else {
            continue;
        };
        let then = String::from_utf8(then.stdout).expect("text");
        let gone: Vec<_> = lines(&then).difference(&present).cloned().collect();
        assert!(gone.is_empty(), "listed in {commit}, and now not: {gone:?}");
    }
}
