//! From the list of workflow versions to the changes of one version, and to those of another.

use triad_tests::browser::Browser;
use triad_tests::dev::Dev;
use triad_tests::orders::{FULFILMENT, Files, lines, orders};

use super::{beginning, saved};

/// Selector of the changes that the page of a version shows.
const CHANGES: &str = "h2 + ul li code";

/// Publishes the built-in workflow with a text replaced; returns the version's hash.
async fn published(dev: &Dev, files: &Files, (from, to): (&str, &str)) -> String {
    assert!(FULFILMENT.contains(from), "{from}");
    let file = files.write("changed.yaml", &FULFILMENT.replace(from, to));
    let _ = dev.triad(&["publish", &file]).await.good();
    let listed = dev.triad(&["workflows", "--json"]).await.good();
    let lines = listed.json_lines();
    let present = lines.iter().find(|line| line["present"] == true);
    let hash = present.and_then(|line| line["version"].as_str());
    hash.expect("it is published").to_owned()
}

#[tokio::test]
async fn two_versions_are_compared_from_the_list_of_versions() {
    let Some(mut ann) = Browser::start().await else {
        return;
    };
    let dev = Dev::start(&[]).await;
    let text = lines(&orders("good", 2));
    let submitted = dev.triad_reading(&["submit", "-"], text.as_bytes());
    let _ = submitted.await.good();
    dev.all_finished(2).await;
    let files = Files::new();
    let second = published(
        &dev,
        &files,
        ("failure_threshold: 3", "failure_threshold: 5"),
    )
    .await;
    let third = published(&dev, &files, ("action: pack", "action: wrap")).await;

    ann.go(&format!("{}workflows", dev.console)).await;
    let links = ann.texts("[aria-label='Versions'] td:nth-child(5)").await;
    assert_eq!(links.len(), 3);
    let compared = links.iter().filter(|text| !text.is_empty()).count();
    assert_eq!(compared, 2, "nothing was before the first one: {links:?}");
    saved(&mut ann, "workflows", 280).await;

    let link = format!("a[href*='/{third}?against={second}']");
    ann.click(&link, true).await;
    assert_eq!(ann.text("h1").await, "Workflow order-fulfilment");
    let changed = ann.texts(CHANGES).await;
    let is_there = changed
        .iter()
        .any(|line| line.contains("step pack: action"));
    assert!(is_there, "{changed:?}");
    let others = ann.texts("select[name=against] option").await;
    assert_eq!(others.len(), 2, "{others:?}");
    beginning(&mut ann, "versions").await;

    let other = "[...document.querySelectorAll('select[name=against] option')]\
                 .find(option => !option.selected).value";
    let first = ann.value(other).await;
    let first = first.as_str().expect("another version").to_owned();
    ann.choose("select[name=against]", &first).await;
    ann.click("form button[type=submit]", true).await;
    let since = ann.text("h2:has(+ ul)").await;
    assert!(since.ends_with(&first[..12]), "{since}");
    let since_the_first = ann.texts(CHANGES).await;
    assert_eq!(since_the_first, ["changed step pack: action"]);
    ann.look(400, "dark").await;
    let fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    assert_eq!(
        ann.value(fits).await,
        true,
        "nothing is wider than the page"
    );
}
