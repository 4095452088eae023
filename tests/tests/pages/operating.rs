//! The links from alarms and documentation pages have targets: sections, pages of the console, and pictures.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use triad_tests::dev::Dev;
use triad_tests::http::client;

use super::tree::{headings, page, pages, root};

/// The alarm texts that operators read.
const ALARMS: [&str; 2] = [
    include_str!("../../../infra/dashboards/alerts.yaml"),
    include_str!("../../../infra/tests/alarms.json"),
];

/// For each occurrence of a name, the text after it up to the end of the clause.
fn behind<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let parts = text.split(name).skip(1);
    let ends = |c: char| "\"),.;:\n".contains(c);
    parts.filter_map(|part| part.split(ends).next()).collect()
}

#[test]
fn the_sections_that_alarms_name_are_there() {
    let page = page("docs/how-to/handle-alerts.md");
    let headings: BTreeSet<String> = headings(&page).into_iter().collect();
    for alarms in ALARMS {
        let named = behind(alarms, "docs/how-to/handle-alerts.md, ");
        assert!(named.len() > 3, "they are found: {named:?}");
        for section in named {
            assert!(headings.contains(section), "no section {section:?}");
        }
    }
}

#[test]
fn every_picture_of_the_console_is_shown_and_every_one_that_is_shown_is_there() {
    let folder = fs::read_dir(root().join("docs/console")).expect("the folder");
    let file = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let there: BTreeSet<String> = folder.map(|e| file(e.expect("an entry"))).collect();
    let mut shown = BTreeSet::new();
    for name in pages() {
        shown.extend(behind_pictures(&page(&name)));
    }
    assert_eq!(there, shown);
}

fn behind_pictures(page: &str) -> Vec<String> {
    let parts = page.split("console/").skip(1);
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
