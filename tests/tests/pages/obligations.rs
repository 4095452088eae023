//! The code, tests and mutants that the table in docs/reference/obligations.md names must exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The texts between backticks in a cell.
fn quoted(cell: &str) -> Vec<String> {
    let parts = cell.split('`').skip(1).step_by(2);
    parts.map(str::to_owned).collect()
}

/// The cells of the rows of the table with this header.
fn rows(page: &str, head: &str) -> Vec<Vec<String>> {
    let from = page.find(head).expect("the table is there");
    let lines = page[from..].lines().skip(2);
    let rows = lines.take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| {
        let row = row.trim_matches('|').split('|');
        row.map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
    });
    cells.filter(|row| !row[0].starts_with("**")).collect()
}

/// Checks that a file named in backticks exists, and contains the text beside it.
fn is_there(cell: &str) -> Result<(), String> {
    let named = quoted(cell);
    let [file, names @ ..] = &named[..] else {
        return Err(format!("no file in {cell:?}"));
    };
    let text = std::fs::read_to_string(root().join(file)).map_err(|e| format!("{file}: {e}"))?;
    match names.iter().find(|name| !text.contains(name.as_str())) {
        Some(missing) => Err(format!("{missing} is not in {file}")),
        None => Ok(()),
    }
}

/// Names of the mutants, from the patches' file names.
fn mutants() -> BTreeSet<String> {
    let folders = ["patches", "adapters", "infra"];
    let folders = folders.map(|folder| root().join("tests/testkit/mutants").join(folder));
    let files = folders.iter().flat_map(|folder| {
        let files = std::fs::read_dir(folder).expect("the folder is there");
        files.map(|file| file.expect("it can be read").path())
    });
    let name = |path: PathBuf| {
        let stem = Path::file_stem(&path)?.to_str()?.to_owned();
        Some(stem.split_once('-')?.1.to_owned())
    };
    files.filter_map(name).collect()
}

#[test]
fn each_obligation_has_its_code_its_test_and_wrong_copies() {
    let page = std::fs::read_to_string(root().join("docs/reference/obligations.md"))
        .expect("the page is there");
    let rows = rows(&page, "| obligation | code | shown by | wrong copies |");
    let mutants = mutants();
    let mut wrong = Vec::new();
    for row in &rows {
        let [obligation, code, test, copies] = &row[..] else {
            panic!("{row:?}");
        };
        let mut say = |why: String| wrong.push(format!("{obligation}: {why}"));
        is_there(code).unwrap_or_else(&mut say);
        is_there(test).unwrap_or_else(&mut say);
        let copies = quoted(copies);
        let unknown = copies.iter().filter(|name| !mutants.contains(*name));
        unknown.for_each(|name| say(format!("there is no mutant {name}")));
    }
    assert!(rows.len() >= 30, "{} rows were read", rows.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The packages of the workspace, each with its path.
fn packages() -> Vec<(String, PathBuf)> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("it is there");
    let members = manifest
        .split("members = [")
        .nth(1)
        .expect("it has members");
    let members = members.split(']').next().expect("the list ends");
    let named = members.split('"').skip(1).step_by(2).map(|member| {
        let at = root().join(member);
        let own = std::fs::read_to_string(at.join("Cargo.toml")).expect("a member has one");
        let name = own.split("name = \"").nth(1).expect("it has a name");
        let name = name.split('"').next().expect("the name ends");
        (name.to_owned(), at)
    });
    named.collect()
}

/// The Rust files of a package, recursively.
fn sources(at: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(at).expect("a folder of sources") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Whether a test is in one of these files: as a function in a file with the name of its module.
fn is_test(files: &[PathBuf], test: &str) -> bool {
    let mut names: Vec<&str> = test.split("::").collect();
    let function = names.pop().map(|name| format!("fn {name}("));
    names.retain(|name| *name != "tests");
    let mut files = files.iter().filter(|file| {
        let mut parts: Vec<_> = file.iter().filter_map(|part| part.to_str()).collect();
        let stem = parts.pop().map(|last| last.trim_end_matches(".rs"));
        parts.extend(stem.filter(|stem| !["mod", "main", "lib", "tests"].contains(stem)));
        parts.ends_with(&names)
    });
    files.any(|file| {
        let text = std::fs::read_to_string(file).expect("it can be read");
        function.as_ref().is_some_and(|name| text.contains(name))
    })
}

#[test]
fn each_mutant_around_the_rules_names_tests_that_are_there() {
    let packages = packages();
    let (mut seen, mut missing) = (0, Vec::new());
    for folder in ["adapters", "infra"] {
        let folder = root().join("tests/testkit/mutants").join(folder);
        for patch in std::fs::read_dir(folder).expect("the folder is there") {
            let patch = patch.expect("it can be read").path();
            let text = std::fs::read_to_string(&patch).expect("it can be read");
            let caught = text.lines().find_map(|l| l.strip_prefix("Caught by: "));
            let Some(caught) = caught else { continue };
            // Mutants of the Terraform module name files instead of tests.
            let package = caught
                .split_once("package(")
                .and_then(|(_, rest)| rest.split_once(')'));
            let Some((package, _)) = package else {
                continue;
            };
            let at = packages.iter().find(|(name, _)| name == package);
            let mut files = Vec::new();
            sources(&at.expect("the package is there").1, &mut files);
            for test in caught.split("test(").skip(1) {
                let test = test.split(')').next().unwrap_or_default();
                let test = test.trim_matches(['=', '/', '^', '$']);
                seen += 1;
                if !is_test(&files, test) {
                    missing.push(format!("{}: {test}", patch.display()));
                }
            }
        }
    }
    assert!(seen >= 10, "{seen} tests are named");
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Each of these patches must still apply; CI checks the mutants in the code with `tests/mutants.sh`.
#[test]
fn each_mutant_of_a_file_still_applies() {
    for folder in ["infra"] {
        let folder = root().join("tests/testkit/mutants").join(folder);
        for patch in std::fs::read_dir(folder).expect("the folder is there") {
            let patch = patch.expect("it can be read").path();
            let git = Command::new("git")
                .args(["apply", "--check"])
                .arg(&patch)
                .current_dir(root())
                .output()
                .expect("git is there");
            let said = String::from_utf8_lossy(&git.stderr);
            assert!(git.status.success(), "{}: {said}", patch.display());
        }
    }
}
