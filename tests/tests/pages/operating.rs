//! What alarms and pages of documentation lead to is there: sections, pages of the console, pictures.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use triad_tests::dev::Dev;
use triad_tests::http::client;

/// The texts of alarms that operators read.
const ALARMS: [&str; 2] = [
    include_str!("../../../dashboards/alerts.yaml"),
    include_str!("../../../infra/alarms.tf"),
];

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn headings(page: &str) -> BTreeSet<&str> {
    let headings = page.lines().filter_map(|line| line.split_once("# "));
    let headings = headings.filter(|(before, _)| before.chars().all(|c| c == '#'));
    headings.map(|(_, heading)| heading).collect()
}

/// What stands behind a name in a text, up to the end of the part of a sentence.
fn behind<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let parts = text.split(name).skip(1);
    let ends = |c: char| "\"),.;:\n".contains(c);
    parts.filter_map(|part| part.split(ends).next()).collect()
}

#[test]
fn the_sections_that_alarms_name_are_there() {
    let page = page("docs/OPERATING.md");
    let headings = headings(&page);
    for alarms in ALARMS {
        let named = behind(alarms, "docs/OPERATING.md, ");
        assert!(named.len() > 3, "they are found: {named:?}");
        for section in named {
            assert!(headings.contains(section), "no section {section:?}");
        }
    }
}

#[test]
fn the_sections_that_other_pages_of_operators_name_are_there() {
    let pages = ["OPERATING.md", "REFERENCE.md", "CONSOLE.md"];
    let mut found = 0;
    for of in pages {
        let text = page(&format!("docs/{of}"));
        let headings = headings(&text);
        for by in pages {
            let by = page(&format!("docs/{by}"));
            // The name of a section may have a comma in it.
            for rest in by.split(&format!("[{of}]({of}), ")).skip(1) {
                let is_there = headings.iter().any(|heading| rest.starts_with(heading));
                assert!(is_there, "{of} has no section {:?}", rest.lines().next());
                found += 1;
            }
        }
    }
    assert!(found > 5, "they are found: {found}");
}

#[test]
fn the_sections_that_the_page_of_operators_leads_to_are_there() {
    let page = page("docs/OPERATING.md");
    let anchor = |heading: &&str| {
        let plain = |c: &char| c.is_alphanumeric() || *c == ' ' || *c == '-';
        let text: String = heading.chars().filter(plain).collect();
        text.to_lowercase().replace(' ', "-")
    };
    let anchors: BTreeSet<String> = headings(&page).iter().map(anchor).collect();
    let led = page.split("](#").skip(1);
    let led: Vec<&str> = led.filter_map(|rest| rest.split(')').next()).collect();
    assert!(led.len() > 10, "they are found: {led:?}");
    for anchor in led {
        assert!(anchors.contains(anchor), "no section {anchor:?}");
    }
}

#[test]
fn every_picture_of_the_console_is_shown_and_every_one_that_is_shown_is_there() {
    let folder = fs::read_dir(root().join("docs/console")).expect("the folder");
    let file = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let there: BTreeSet<String> = folder.map(|e| file(e.expect("an entry"))).collect();
    let mut shown = BTreeSet::new();
    for entry in fs::read_dir(root().join("docs")).expect("the pages") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|kind| kind == "md") {
            let text = fs::read_to_string(&path).expect("a page");
            shown.extend(behind_pictures(&text));
        }
    }
    assert_eq!(there, shown);
}

fn behind_pictures(page: &str) -> Vec<String> {
    let parts = page.split("](console/").skip(1);
    let names = parts.filter_map(|part| part.split(')').next());
    let names = names.filter(|name| Path::new(name).extension().is_some_and(|e| e == "png"));
    names.map(str::to_owned).collect()
}

#[tokio::test]
async fn the_pages_of_the_console_that_alarms_name_are_answered() {
    let dev = Dev::start(&[]).await;
    let host = dev.console.trim_end_matches("/console/");
    let mut asked = BTreeSet::new();
    for alarms in ALARMS {
        for rest in alarms.split("/console/").skip(1) {
            let path = rest.split([' ', ',', '"', '`']).next().unwrap_or_default();
            asked.insert(format!("{host}/console/{path}"));
        }
    }
    assert!(asked.len() > 3, "they are found: {asked:?}");
    for address in asked {
        let answer = client().get(&address).send().await.expect("it answers");
        assert_eq!(answer.status(), 200, "{address}");
    }
}
