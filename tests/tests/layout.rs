//! The folders say what depends on what: what is deployed links nothing that serves one machine,
//! development or tests alone; and within a crate no modules depend on each other in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
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

/// Crates in whose modules there are circles yet. None is to be added.
const CIRCLES: [&str; 5] = [
    "shared/kafka",
    "testkit/model",
    "testkit/reference-service",
    "engines/broker",
    "cli",
];

/// The modules of a crate, each with those of the same crate that its production code names.
fn modules(source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut open = vec![source.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let inside = path.strip_prefix(source).expect("it is inside");
            let first = inside.components().next().expect("a name");
            let first = first.as_os_str().to_string_lossy();
            let module = first.trim_end_matches(".rs").to_owned();
            if path.extension().is_none_or(|e| e != "rs") || ["lib", "main"].contains(&&*module) {
                continue;
            }
            let text = fs::read_to_string(&path).expect("a source");
            let production = text.split("#[cfg(test)]\nmod tests").next();
            let code = production.expect("a first part").lines();
            let code = code.filter(|line| !line.trim_start().starts_with("//"));
            let names = found.entry(module.clone()).or_default();
            for part in code.flat_map(|line| line.split("crate::").skip(1)) {
                let end = part.find(|c: char| !c.is_alphanumeric() && c != '_');
                names.insert(part[..end.unwrap_or(part.len())].to_owned());
            }
            names.remove(&module);
        }
    }
    found
}

/// What is left when every module is taken away that names none of those that are left.
fn circle(mut modules: BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    loop {
        let left: BTreeSet<String> = modules.keys().cloned().collect();
        modules.retain(|_, names| names.iter().any(|name| left.contains(name)));
        if modules.len() == left.len() {
            return left;
        }
    }
}

#[test]
fn no_module_depends_on_itself_by_way_of_others() {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut looked_at = 0;
    for folder in ["shared", "engines", "testkit", "functions", "."] {
        for entry in fs::read_dir(root.join(folder)).expect("a folder of crates") {
            let name = entry.expect("an entry").file_name();
            let name = format!("{folder}/{}", name.to_string_lossy());
            let name = name.trim_start_matches("./");
            let source = root.join(name).join("src");
            if !source.is_dir() || name == "tests" {
                continue;
            }
            let modules = modules(&source);
            looked_at += modules.len();
            let left = circle(modules);
            assert_eq!(
                left.is_empty(),
                !CIRCLES.contains(&name),
                "{name}: a circle, and what leads to it: {left:?}"
            );
        }
    }
    assert!(looked_at > 150, "modules are seen: {looked_at}");
}
