//! The console in a real browser, with a `triad dev` that has faults. The pages show the same as the command line; a
//! cause is repaired from a page, and a second browser shows that.
//!
//! If `TRIAD_SCREENSHOTS` names a directory, screenshots of the main pages are saved there, as used in docs/console.

mod accessibility;
mod alert;
mod campaign;
mod drill;
mod session;
mod workflows;

use std::path::PathBuf;

use serde_json::{Value, json};
use triad_tests::browser::Browser;
use triad_tests::dev::Dev;
use triad_tests::orders::{lines, orders};
use triad_tests::poll::until;

const FAILED: usize = 6;

#[expect(
    clippy::disallowed_methods,
    reason = "where to save pictures is a setting of the test run alone"
)]
async fn saved(browser: &mut Browser, name: &str, most: u64) {
    if let Ok(folder) = std::env::var("TRIAD_SCREENSHOTS") {
        let file = PathBuf::from(folder).join(format!("{name}.png"));
        browser.save(&file, most).await;
    }
}

/// Saves a screenshot of a whole page.
async fn picture(browser: &mut Browser, name: &str) {
    saved(browser, name, 1_400).await;
}

/// Saves a screenshot of the upper part of a page.
async fn beginning(browser: &mut Browser, name: &str) {
    saved(browser, name, 840).await;
}

/// A running installation with processed orders, and with orders in Error that have the same cause.
async fn world() -> Dev {
    let dev = Dev::start(&[]).await;
    let text = lines(&orders("good", 3));
    let _ = dev.triad_reading(&["submit", "-"], text.as_bytes()).await;
    dev.all_finished(3).await;
    dev.services(json!({"notification": {"permanent": 1.0}}))
        .await;
    let text = lines(&orders("bad", FAILED));
    let _ = dev.triad_reading(&["submit", "-"], text.as_bytes()).await;
    dev.all_finished(3 + FAILED).await;
    dev
}

/// Compares an order's page with `triad get`.
async fn same_as_get(browser: &mut Browser, dev: &Dev, id: &str) -> Value {
    browser.go(&format!("{}orders/{id}", dev.console)).await;
    let said = dev.triad(&["get", id, "--json"]).await.good();
    let order: Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(
        browser.text("#state").await,
        order["state"].as_str().unwrap()
    );
    let seen = browser
        .texts("[aria-label='Timeline'] tbody td:nth-child(2)")
        .await;
    let entries = order["timeline"].as_array().expect("a timeline");
    let told: Vec<&str> = entries.iter().filter_map(|e| e["what"].as_str()).collect();
    assert_eq!(seen, told);
    let moments = browser
        .value("[...document.querySelectorAll(\"[aria-label='Timeline'] time\")].map(t => t.title)")
        .await;
    let exact: Vec<&Value> = entries.iter().map(|e| &e["at"]).collect();
    assert_eq!(moments, json!(exact), "the exact moments are in the titles");
    let steps = browser
        .texts("[aria-label='Steps'] tbody td:first-child")
        .await;
    let names = order["steps"].as_array().expect("steps").iter();
    let names: Vec<&str> = names.filter_map(|s| s["step"].as_str()).collect();
    assert_eq!(steps, names);
    let drawn = "[...document.querySelectorAll('svg a')].map(a => a.getAttribute('aria-label').split(':')[0])";
    assert_eq!(browser.value(drawn).await, json!(names));
    order
}

async fn figure(browser: &mut Browser, state: &str) -> String {
    browser
        .text(&format!("a[href='/console/orders?state={state}'] .figure"))
        .await
}

#[tokio::test]
async fn a_cause_is_found_and_redriven_from_the_page_and_another_browser_sees_it() {
    let Some(mut ann) = Browser::start().await else {
        return;
    };
    let Some(mut bob) = Browser::start().await else {
        return;
    };
    let dev = world().await;
    bob.go(&dev.console).await;
    assert_eq!(figure(&mut bob, "Error").await, FAILED.to_string());
    picture(&mut bob, "overview").await;

    ann.go(&format!("{}causes", dev.console)).await;
    let listed = dev.triad(&["list", "--by-cause", "--json"]).await.good();
    let cause = &listed.json_lines()[0];
    let row = ann
        .texts("[aria-label='Causes'] tbody tr:first-child td")
        .await;
    assert_eq!(row[0], cause["orders"].to_string());
    assert_eq!(row[2], cause["cause"].as_str().unwrap());
    picture(&mut ann, "causes").await;
    let before = same_as_get(&mut ann, &dev, "bad-0").await;
    assert_eq!(before["state"], "Error");
    picture(&mut ann, "order").await;
    same_as_get(&mut ann, &dev, "good-0").await;
    // Times are shown in the reader's time zone.
    let shown = ann.text("[aria-label='Timeline'] time").await;
    let exact = ann
        .value("document.querySelector(\"[aria-label='Timeline'] time\").title")
        .await;
    assert_ne!(shown, exact.as_str().unwrap());

    dev.services(json!({})).await;
    ann.go(&format!("{}causes", dev.console)).await;
    ann.click("[aria-label='Causes'] tbody a", true).await;
    assert_eq!(ann.texts("input[name=orders]").await.len(), FAILED);
    ann.click("input[data-all=orders]", false).await;
    ann.write("input[name=by]", "ann").await;
    ann.write("input[name=why]", "mail is back").await;
    picture(&mut ann, "orders").await;
    ann.click("button[value=try]", true).await;
    assert_eq!(ann.text("h1").await, "Dry run: resubmit");
    let tried = format!("{FAILED} would be done, 0 refused, 0 failed");
    assert_eq!(ann.text("#tally").await, tried);
    assert_eq!(
        figure(&mut bob, "Error").await,
        FAILED.to_string(),
        "nothing was done"
    );
    ann.click("button.do", true).await;
    assert_eq!(
        ann.text("#tally").await,
        format!("{FAILED} done, 0 refused, 0 failed")
    );

    let orders = until("all are processed", async || {
        let orders = dev.orders().await;
        let all = orders.iter().all(|order| order["state"] == "Processed");
        all.then_some(orders)
    });
    assert_eq!(orders.await.len(), 3 + FAILED);
    until(
        "the other browser sees it, and nobody has loaded its page again",
        async || (figure(&mut bob, "Error").await == "0").then_some(()),
    )
    .await;
    let after = same_as_get(&mut ann, &dev, "bad-0").await;
    let acts = after["incidents"].as_array().expect("incidents").iter();
    let act = acts
        .filter_map(|line| line["act"].as_object())
        .next()
        .expect("an act");
    assert_eq!(
        (&act["by"], &act["why"]),
        (&json!("ann"), &json!("mail is back"))
    );
    other_pages(&mut ann, &dev).await;
}

/// Checks the other pages, also narrow and dark.
async fn other_pages(browser: &mut Browser, dev: &Dev) {
    for path in [
        "workflows/order-fulfilment/present",
        "downstreams",
        "dead-letters",
    ] {
        browser.go(&format!("{}{path}", dev.console)).await;
        assert!(!browser.text("h1").await.is_empty(), "{path}");
    }
    browser.look(420, "dark").await;
    browser.go(&format!("{}orders/bad-0", dev.console)).await;
    let wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    assert_eq!(
        browser.value(wide).await,
        true,
        "nothing is wider than the page"
    );
    let back = browser
        .value("getComputedStyle(document.documentElement).backgroundColor")
        .await;
    assert_eq!(back, "rgb(13, 17, 23)");
    picture(browser, "narrow-dark").await;
}
