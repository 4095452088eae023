//! The table of obligations in docs/PROOF.md names code, tests and mutants that are there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// What stands between backticks in a cell.
fn quoted(cell: &str) -> Vec<String> {
    let parts = cell.split('`').skip(1).step_by(2);
    parts.map(str::to_owned).collect()
}

/// The rows of the table that has this head: their cells, without headings in between.
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

/// A file that is named in backticks, and beside it what must stand in it.
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
    let folders = ["patches", "adapters", "files", "infra"];
    let folders = folders.map(|folder| root().join("testkit/mutants").join(folder));
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
    let page = std::fs::read_to_string(root().join("docs/PROOF.md")).expect("the page is there");
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
