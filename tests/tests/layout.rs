//! The folders say what depends on what: what is deployed links nothing that serves one machine,
//! development or tests alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Folders, and of which others crates in them may link crates.
const MAY_LINK: [(&str, &[&str]); 8] = [
    // Every deployment links these.
    ("shared", &["shared"]),
    ("functions", &["shared"]),
    ("worker", &["shared"]),
    // The engines for one machine.
    ("engines", &["shared", "engines"]),
    // What serves development and tests alone.
    ("testkit", &["shared", "testkit"]),
    ("examples", &["shared"]),
    // The command line runs all of it on one machine.
    ("cli", &["shared", "engines", "worker", "testkit"]),
    ("tests", &["shared", "engines", "testkit", "tests"]),
];
/// Of the testkit the command line links the remote service that answers in `triad dev`, and no more.
const CLI_LINKS: &str = "triad-reference-service";

fn folder(of: &Path) -> String {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let root = root.canonicalize().expect("the workspace is there");
    let inside = of.strip_prefix(&root).expect("it is in the workspace");
    let first = inside.components().next().expect("it has a folder");
    first.as_os_str().to_string_lossy().into_owned()
}

#[test]
fn crates_link_only_what_their_folder_may() {
    let told = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .output()
        .expect("cargo runs");
    assert!(told.status.success(), "cargo metadata");
    let told: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    let packages = told["packages"].as_array().expect("packages");
    let mut links = 0;
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
        let own = folder(manifest);
        let (_, allowed) = MAY_LINK
            .iter()
            .find(|(folder, _)| **folder == own)
            .unwrap_or_else(|| panic!("{name} is in {own}, of which nothing is said"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let (Some(path), true) = (dependency["path"].as_str(), dependency["kind"].is_null())
            else {
                continue;
            };
            let linked = dependency["name"].as_str().expect("a name");
            let other = folder(Path::new(path));
            assert!(
                allowed.contains(&other.as_str()),
                "{name} in {own} links {linked} in {other}"
            );
            let is_told = own != "cli" || other != "testkit" || linked == CLI_LINKS;
            assert!(is_told, "{name} links {linked}");
            links += 1;
        }
    }
    assert!(links > 50, "the links are seen: {links}");
}
