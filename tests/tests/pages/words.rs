//! One term for each concept: words that the glossary excludes do not occur, and comments are in plain words.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Limit on the lines of documentation comments that contain one of [`RIDDLES`].
const MOST_RIDDLES: usize = 20;

/// Words that often hide the actor of a sentence.
const RIDDLES: [&str; 5] = ["told", "somebody", "nobody", "what one", "by itself"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace is there")
        .to_owned()
}

/// The tracked text files, except those that tools write and those that describe a past state.
fn texts() -> Vec<(String, String)> {
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root())
        .output()
        .expect("git lists the files");
    let names = String::from_utf8(listed.stdout).expect("names are text");
    let is_ours = |name: &&str| {
        !["docs/proof/", "docs/benchmarks/"]
            .iter()
            .any(|dir| name.starts_with(dir))
            && ![".lock", ".svg", "package-lock.json"]
                .iter()
                .any(|end| name.ends_with(end))
            && *name != "docs/reference/glossary.md"
    };
    names
        .split_terminator('\0')
        .filter(is_ours)
        .filter_map(|name| {
            let text = std::fs::read_to_string(root().join(name)).ok()?;
            Some((name.to_owned(), text))
        })
        .collect()
}

/// The rows of the glossary's last table: the excluded words, and the texts in which they may occur.
fn ruled_out() -> Vec<(Vec<String>, Vec<String>)> {
    let page = root().join("docs/reference/glossary.md");
    let page = std::fs::read_to_string(page).expect("the glossary");
    let (_, table) = page
        .split_once("## Words that are not used")
        .expect("the table");
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let words = cells[1]
            .split(", ")
            .map(|word| word.trim_matches('`').to_lowercase());
        let but = cells[2].split('`').skip(1).step_by(2).map(str::to_owned);
        (words.collect(), but.collect())
    })
    .collect()
}

/// Whether `line` contains `word` as a whole word.
fn has_word(line: &str, word: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    line.match_indices(word).any(|(at, _)| {
        !is_letter(line[..at].chars().next_back())
            && !is_letter(line[at + word.len()..].chars().next())
    })
}

#[test]
fn a_word_is_found_only_as_a_whole() {
    assert!(has_word("an order_request", "order"));
    assert!(!has_word("foundorders", "order"));
}

#[test]
fn words_that_the_glossary_rules_out_stand_nowhere() {
    let rules = ruled_out();
    assert!(rules.len() > 5, "the table is read");
    let mut found = Vec::new();
    for (name, text) in texts() {
        for (number, line) in text.lines().enumerate() {
            for (words, but) in &rules {
                let rest = but
                    .iter()
                    .fold(line.to_owned(), |line, text| line.replace(text, ""));
                let rest = rest.to_lowercase();
                if let Some(word) = words.iter().find(|word| has_word(&rest, word)) {
                    found.push(format!("{name}:{}: {word}: {}", number + 1, line.trim()));
                }
            }
        }
    }
    assert!(
        found.is_empty(),
        "{} lines:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn comments_name_who_acts() {
    let mut found = Vec::new();
    for (name, text) in texts()
        .into_iter()
        .filter(|(name, _)| name.ends_with(".rs"))
    {
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_start();
            let is_doc = line.starts_with("///") || line.starts_with("//!");
            if is_doc && RIDDLES.iter().any(|word| has_word(line, word)) {
                found.push(format!("{name}:{}: {line}", number + 1));
            }
        }
    }
    let many = found.len();
    assert!(
        many <= MOST_RIDDLES,
        "{many}, at most {MOST_RIDDLES}:\n{}",
        found.join("\n")
    );
}
