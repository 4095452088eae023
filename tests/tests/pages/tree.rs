//! The pages form a tree: each page is in the index exactly once, no page is too long, and every link has a target.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Most lines of a page, and of the README.
const LONGEST: [usize; 2] = [300, 180];

pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

pub fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The README and the pages below `docs` with their paths, except decisions and outputs of runs.
pub fn pages() -> Vec<String> {
    let files = files().into_iter();
    let is_page = |name: &String| {
        let is_record = ["docs/decisions/", "docs/proof/"];
        name == "README.md"
            || name.starts_with("docs/") && !is_record.iter().any(|of| name.starts_with(of))
    };
    files.filter(is_page).collect()
}

/// Every Markdown file that git tracks or would add.
fn files() -> Vec<String> {
    let listed = Command::new("git")
        .args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "*.md",
        ])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(listed.status.success(), "{listed:?}");
    let names = String::from_utf8(listed.stdout).expect("names are text");
    // Git still lists files that are deleted.
    let there = names.lines().filter(|name| root().join(name).exists());
    let there: BTreeSet<String> = there.map(str::to_owned).collect();
    there.into_iter().collect()
}

/// The lines outside of fenced blocks.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut is_fenced = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    })
}

/// The texts of the headings, in order.
pub fn headings(page: &str) -> Vec<String> {
    let headings = prose(page).filter_map(|line| line.split_once("# "));
    let headings = headings.filter(|(before, _)| before.chars().all(|c| c == '#'));
    headings.map(|(_, heading)| heading.to_owned()).collect()
}

/// The anchors of the headings, as GitHub builds them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut seen = BTreeMap::<String, usize>::new();
    let anchor = |heading: String| {
        let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
        let text: String = heading.chars().filter(kept).collect();
        let text = text.to_lowercase().replace(' ', "-");
        let before = seen.entry(text.clone()).or_default();
        *before += 1;
        match *before {
            1 => text,
            n => format!("{text}-{}", n - 1),
        }
    };
    headings(page).into_iter().map(anchor).collect()
}

/// The targets of a page's links and pictures, except those on other hosts.
fn links(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let text: Vec<&str> = prose(page).collect();
    let text = text.join("\n");
    // Only the text outside of backticks, because code contains no links.
    let plain: Vec<&str> = text.split('`').step_by(2).collect();
    for rest in plain.join("`").split("](").skip(1) {
        let target = rest.split(')').next().unwrap_or_default();
        if !target.contains("://") {
            found.push(target.to_owned());
        }
    }
    found
}

/// The problem of a link, if any.
fn wrong(of: &str, text: &str, link: &str) -> Option<String> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let folder = Path::new(of).parent().unwrap_or(Path::new(""));
    let path = root().join(folder).join(file);
    if !file.is_empty() && !path.exists() {
        return Some(format!("{of}: {link}: there is no such file"));
    }
    if anchor.is_empty() {
        return None;
    }
    let target = match file {
        "" => text.to_owned(),
        _ => fs::read_to_string(&path).unwrap_or_default(),
    };
    let is_there = anchors(&target).contains(anchor);
    (!is_there).then(|| format!("{of}: {link}: there is no such section"))
}

#[test]
fn every_link_of_every_page_leads_to_a_file_and_a_section_that_are_there() {
    let (mut seen, mut all) = (0, Vec::new());
    for name in files() {
        let text = page(&name);
        let links = links(&text);
        seen += links.len();
        all.extend(links.iter().filter_map(|link| wrong(&name, &text, link)));
    }
    assert!(seen > 200, "{seen} links are seen");
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn links_in_code_are_none_and_anchors_are_those_of_github() {
    let text = "# A `b-c`, d\n[a](x.md#y) `[b](z.md)` [c](https://h/)\n```\n# no\n[d](w)\n```\n## A b-c d\n";
    assert_eq!(links(text), ["x.md#y"]);
    let anchors: Vec<String> = anchors(text).into_iter().collect();
    assert_eq!(anchors, ["a-b-c-d", "a-b-c-d-1"]);
}

#[test]
fn no_page_is_long_and_names_are_in_lower_case() {
    let pages = pages();
    assert!(pages.len() > 30, "{pages:?}");
    for name in pages {
        let [longest, of_readme] = LONGEST;
        let most = if name == "README.md" {
            of_readme
        } else {
            longest
        };
        let lines = page(&name).lines().count();
        assert!(lines <= most, "{name} has {lines} lines");
        let is_plain = |c: char| c.is_ascii_lowercase() || "/-.".contains(c);
        // Names that people and programs look for in capitals.
        let capitals = ["README", "ARCHITECTURE", "CONTRIBUTING", "SECURITY"];
        let is_known = capitals
            .iter()
            .any(|known| name.ends_with(&format!("{known}.md")));
        assert!(is_known || name.chars().all(is_plain), "{name}");
    }
}

#[test]
fn the_index_names_every_page_once() {
    let mut listed = links(&page("docs/README.md"));
    listed.retain(|link| link.ends_with(".md") && !link.starts_with(".."));
    listed.sort();
    let below = pages().into_iter();
    let below = below.filter_map(|name| Some(name.strip_prefix("docs/")?.to_owned()));
    let mut below: Vec<String> = below.filter(|name| name != "README.md").collect();
    below.sort();
    assert_eq!(listed, below);
}
