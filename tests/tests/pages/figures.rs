//! Every figure in the pages has a mark, and `tests/figures.sh` has the command that computes it.

use std::collections::BTreeSet;
use std::process::Command;

use super::tree::{page, pages, root};

/// The name and the page of every mark.
fn marked() -> Vec<(String, String)> {
    let of_page = |name: String| {
        let text = page(&name);
        let marks = text.split("<!-- figure: ").skip(1);
        let marks = marks.filter_map(|rest| Some(rest.split_once(" -->")?.0.to_owned()));
        marks.map(|mark| (mark, name.clone())).collect::<Vec<_>>()
    };
    pages().into_iter().flat_map(of_page).collect()
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

/// Each paragraph of the page of figures that begins with a subject must have a mark.
#[test]
fn no_paragraph_of_figures_is_without_a_mark() {
    let page = page("docs/reference/figures.md");
    let lines: Vec<&str> = page.lines().collect();
    let subjects = (0..lines.len()).filter(|at| lines[*at].starts_with("**"));
    let subjects: Vec<usize> = subjects.collect();
    assert!(subjects.len() >= 8, "{} paragraphs", subjects.len());
    let bare = subjects
        .iter()
        .filter(|at| !lines[**at - 1].starts_with("<!-- figure: "));
    let bare: Vec<&str> = bare.map(|at| lines[*at]).collect();
    assert!(bare.is_empty(), "these have no mark: {bare:?}");
}

/// The speeds in the README must equal those in the page that it links to.
#[test]
fn the_figures_of_the_readme_are_those_of_the_benchmarks() {
    let readme = page("README.md");
    let (_, figures) = readme.split_once("\n## Figures\n").expect("the section");
    let (figures, _) = figures.split_once("\n## ").expect("its end");
    let measured = page("docs/reference/benchmarks.md");
    let digits = |c: char| !(c.is_ascii_digit() || c == '.' || c == ',');
    let numbers = figures.split(digits).map(|n| n.trim_matches(['.', ',']));
    let numbers: Vec<&str> = numbers.filter(|n| n.len() > 2).collect();
    assert_eq!(numbers.len(), 4, "{numbers:?}");
    for (number, engine) in numbers.iter().zip(["Triad", "Restate"].iter().cycle()) {
        let line = measured
            .lines()
            .find(|l| l.starts_with(&format!("| {engine} | {number} (")));
        assert!(line.is_some(), "{number} is no figure of the benchmarks");
    }
}
