//! Every figure of the pages has a mark, and the command that makes it is in the list of `tests/figures.sh`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).expect("the page is there")
}

/// Names and pages of the marks of all pages.
fn marked() -> Vec<(String, String)> {
    let docs = std::fs::read_dir(root().join("docs")).expect("the folder is there");
    let docs = docs.map(|file| file.expect("it can be read").file_name());
    let docs = docs.filter_map(|name| Some(format!("docs/{}", name.to_str()?)));
    let pages = docs.filter(|name| name.ends_with(".md"));
    let pages = pages.chain(["README.md".to_owned()]);
    let of_page = |name: String| {
        let text = page(&name);
        let marks = text.split("<!-- figure: ").skip(1);
        let marks = marks.filter_map(|rest| Some(rest.split_once(" -->")?.0.to_owned()));
        marks.map(|mark| (mark, name.clone())).collect::<Vec<_>>()
    };
    pages.flat_map(of_page).collect()
}

#[test]
fn every_mark_is_in_the_list_and_every_figure_of_the_list_is_marked() {
    let told = Command::new(root().join("tests/figures.sh"))
        .arg("--list")
        .output()
        .expect("it can be started");
    assert!(told.status.success(), "{told:?}");
    let text = String::from_utf8(told.stdout).expect("text");
    let listed: BTreeSet<(String, String)> = text
        .lines()
        .map(|line| {
            let [name, page, command, ..] = &line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            assert!(!command.is_empty(), "{name} has a command");
            ((*name).to_owned(), (*page).to_owned())
        })
        .collect();
    let marked = marked();
    let once: BTreeSet<(String, String)> = marked.iter().cloned().collect();
    assert_eq!(once, listed);
    assert_eq!(once.len(), marked.len(), "each mark once: {marked:?}");
    assert!(listed.len() >= 20, "{} figures", listed.len());
}

/// Of docs/PROOF.md each paragraph of the figures that begins with its subject is about figures; but for
/// what was found by them.
#[test]
fn no_paragraph_of_figures_is_without_a_mark() {
    let page = page("docs/PROOF.md");
    let (_, figures) = page.split_once("\n## Figures\n").expect("the section");
    let (figures, _) = figures.split_once("\n## ").expect("its end");
    let lines: Vec<&str> = figures.lines().collect();
    let subjects = (0..lines.len()).filter(|at| lines[*at].starts_with("**"));
    let subjects: Vec<usize> = subjects
        .filter(|at| !lines[*at].starts_with("**Found so far**"))
        .collect();
    assert!(subjects.len() >= 8, "{} paragraphs", subjects.len());
    let bare = subjects
        .iter()
        .filter(|at| !lines[**at - 1].starts_with("<!-- figure: "));
    let bare: Vec<&str> = bare.map(|at| lines[*at]).collect();
    assert!(bare.is_empty(), "these have no mark: {bare:?}");
}
