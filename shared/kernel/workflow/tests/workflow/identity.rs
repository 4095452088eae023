//! The content hash of a definition, and the published schema.
#![cfg(feature = "load")]

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;
use triad_workflow::{Limits, Workflow, hash, load};

const FILE: &str = "workflow: w
steps:
  - id: a
    agent: shop
    action: go
    attempt_timeout: 90s
    retry: {calls_per_attempt: 2}
    compensation: none
";

fn load(text: &str) -> Workflow {
    load::from_yaml("w.yaml", text, &Limits::published()).expect("a sound file")
}

fn hash_of(text: &str) -> String {
    load(text).hash.to_string()
}

#[test]
fn the_hash_of_a_stored_definition_never_changes() {
    assert_eq!(hash_of(FILE), "e36a844f18c9a6aa");
}

#[test]
fn comments_order_and_spelling_do_not_change_the_hash() {
    let respelt = "# A comment.
steps: [{compensation: 'none', retry: {calls_per_attempt: 2}, attempt_timeout: 1m 30s, action: go, agent: shop, id: a}]
workflow: \"w\"
";
    assert_eq!(hash_of(respelt), hash_of(FILE));
}

#[test]
fn every_meaning_changes_the_hash() {
    let changes = [
        ("workflow: w", "workflow: v"),
        ("workflow: w", "workflow: w\ndescription: what for"),
        ("workflow: w", "workflow: w\nsearch: {k: '${details.a}'}"),
        ("workflow: w", "workflow: w\nsearch: {k: '${details.b}'}"),
        ("id: a", "id: b"),
        ("agent: shop", "agent: bank"),
        ("action: go", "action: stay"),
        ("90s", "91s"),
        ("attempt: 2", "attempt: 3"),
        ("attempt: 2", "attempt: 2, initial: 1s"),
        ("compensation: none", "compensation: {action: compensate}"),
        ("compensation: none", "point_of_no_return: true"),
        ("compensation: none", "compensation: none\n    when: 'true'"),
        ("compensation: none", "compensation: none\n    after: []"),
        (
            "compensation: none",
            "compensation: none\n    input: {n: 1}",
        ),
        (
            "compensation: none",
            "compensation: none\n    supervisor: {failure_threshold: 3}",
        ),
        (
            "workflow: w",
            "workflow: w\ndefaults: {attempt_timeout: 5s}",
        ),
    ];
    let mut seen = BTreeSet::from([hash_of(FILE)]);
    for (from, to) in changes {
        assert!(
            seen.insert(hash_of(&FILE.replace(from, to))),
            "{from} -> {to}"
        );
    }
}

#[test]
fn a_published_definition_compiles_to_the_same_identity() {
    let workflow = load(FILE);
    let json = hash::canonical_json(&workflow.definition);
    let again = Workflow::from_published(&json).expect("it was checked");
    assert_eq!((again.name, again.hash), (workflow.name, workflow.hash));
}

#[test]
fn a_published_definition_is_known_by_the_bytes_that_are_stored() {
    let workflow = load(FILE);
    // The same JSON with other spaces, as another version of a library might write it.
    let json = hash::canonical_json(&workflow.definition).replace("\":", "\": ");
    let stored = Workflow::from_published(&json).expect("it was checked");
    assert_eq!(stored.definition, workflow.definition);
    assert_eq!(stored.hash, hash::DefinitionHash::of_stored(&json));
    assert_ne!(stored.hash, workflow.hash);
}

#[test]
fn a_damaged_definition_is_refused() {
    assert!(Workflow::from_published("{").is_err());
    assert!(Workflow::from_published(r#"{"workflow": "w", "steps": []}"#).is_err());
}

fn schema_file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/workflow.schema.json")
}

#[test]
fn the_schema_is_the_published_one() {
    let text = std::fs::read_to_string(schema_file()).unwrap_or_default();
    let golden: Value = serde_json::from_str(&text).unwrap_or_default();
    assert_eq!(
        load::json_schema(),
        golden,
        "run `cargo test -p triad-workflow --features load -- --ignored` if this is meant"
    );
}

#[test]
#[ignore = "writes the golden file anew"]
fn write_golden_files() {
    let text = serde_json::to_string_pretty(&load::json_schema()).unwrap() + "\n";
    std::fs::write(schema_file(), text).unwrap();
}
