//! A campaign on the page: a dry run, the start, and its progress to the end without a reload; then a stop and a
//! resumption.

use serde_json::json;
use triad_tests::browser::Browser;
use triad_tests::dev::Dev;
use triad_tests::orders::{lines, orders};
use triad_tests::poll::until;

use super::{figure, picture};

const FAILED: usize = 12;

/// Waits until the refreshed page shows this state of the campaign.
async fn stands(browser: &mut Browser, how: &str) {
    until(&format!("the page says {how}"), async || {
        let said = browser.text("#standing").await;
        said.starts_with(how).then_some(())
    })
    .await;
    assert_eq!(
        browser.value("window.kept").await,
        true,
        "the page is the same"
    );
}

/// Stops or resumes the campaign on the page.
async fn change(browser: &mut Browser, what: &str) {
    browser.write("input[name=by]", "ann").await;
    browser.write("input[name=why]", "the service").await;
    let button = format!("form[action$='/{what}'] button");
    browser.click(&button, true).await;
    browser.value("window.kept = true").await;
}

#[tokio::test]
async fn a_campaign_is_tried_started_watched_stopped_and_gone_on_with_from_the_page() {
    let Some(mut ann) = Browser::start().await else {
        return;
    };
    let dev = Dev::start(&[]).await;
    dev.services(json!({"notification": {"permanent": 1.0}}))
        .await;
    let text = lines(&orders("bad", FAILED));
    let _ = dev
        .triad_reading(&["submit", "-"], text.as_bytes())
        .await
        .good();
    dev.all_finished(FAILED).await;
    ann.go(&format!("{}causes", dev.console)).await;
    ann.click("[aria-label='Causes'] tbody a", true).await;
    ann.write("input[name=by]", "ann").await;
    ann.write("input[name=why]", "mail is back").await;
    // The cause is not repaired yet, so the campaign must stop by itself.
    ann.click("button[value=try]", true).await;
    let tried = format!("{FAILED} would be done, 0 refused, 0 failed");
    assert_eq!(ann.text("#tally").await, tried);
    ann.click("button[value=campaign]", true).await;
    ann.value("window.kept = true").await;
    stands(&mut ann, "stopped: still failing").await;
    let acted = ann.text("#done").await;
    assert_eq!(acted, "3", "an uncured cause costs three orders");
    picture(&mut ann, "campaign-stopped").await;

    // While the service is unavailable, orders wait and do not end, so the campaign can be stopped in the middle.
    dev.services(json!({"notification": {"down": true}})).await;
    change(&mut ann, "resume").await;
    until("it has acted on one more", async || {
        (ann.text("#done").await == "4").then_some(())
    })
    .await;
    change(&mut ann, "stop").await;
    stands(&mut ann, "stopped").await;

    dev.services(json!({})).await;
    change(&mut ann, "resume").await;
    stands(&mut ann, "finished").await;
    let path = ann.value("location.pathname").await;
    let id = path
        .as_str()
        .and_then(|path| path.rsplit('/').next())
        .expect("an id")
        .to_owned();
    let shown = dev
        .triad(&["campaign", "show", &id, "--json"])
        .await
        .good()
        .json_lines();
    assert_eq!(
        ann.text("#done").await,
        shown[0]["orders"]["done"].to_string()
    );
    // A campaign acts on each order once, so the orders that failed again before the repair are still in Error.
    let orders = dev.orders().await;
    let well = orders.iter().filter(|order| order["state"] == "Processed");
    assert_eq!(well.count(), FAILED - 3);
    ann.go(&format!("{}campaigns", dev.console)).await;
    let row = ann
        .texts("[aria-label='Campaigns'] tbody tr:first-child td")
        .await;
    assert_eq!((&*row[0], &*row[5]), (&*id, "finished"));
    ann.go(&dev.console).await;
    assert_eq!(figure(&mut ann, "Error").await, "3");
}
