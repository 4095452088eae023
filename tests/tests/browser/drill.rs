//! The drill of docs/tutorial/drill.md, using only the pages: each problem is visible there, and is solved there.

use std::time::UNIX_EPOCH;

use serde_json::{Value, json};
use triad_runtime::Clock;
use triad_runtime::system::SystemClock;
use triad_tests::browser::Browser;
use triad_tests::dev::Dev;
use triad_tests::orders::{lines, order, orders};
use triad_tests::poll::until;
use triad_tests::topics::{Raw, write};

use super::{beginning, figure, picture};

/// A browser of an operator, and the running installation.
struct Desk {
    ann: Browser,
    dev: Dev,
}

impl Desk {
    async fn submit(&self, orders: &[Value]) {
        let text = lines(orders);
        let ran = self.dev.triad_reading(&["submit", "-"], text.as_bytes());
        let _ = ran.await.good();
    }

    async fn go(&mut self, path: &str) {
        let address = format!("{}{path}", self.dev.console);
        self.ann.go(&address).await;
    }

    /// Waits until a part of the page shows this text, after refreshes or reloads.
    async fn says(&mut self, path: &str, selector: &str, part: &str) {
        let address = format!("{}{path}", self.dev.console);
        let ann = &mut self.ann;
        until(&format!("{path} says {part}"), async || {
            ann.go(&address).await;
            ann.text(selector).await.contains(part).then_some(())
        })
        .await;
    }

    /// Compares the figures on the overview with the list of all orders; `under_way` orders must be under way.
    async fn figures(&mut self, under_way: u64) {
        until("the overview tells what is listed", async || {
            self.go("").await;
            let all = self.dev.orders().await;
            let count = |is: &dyn Fn(&Value) -> bool| all.iter().filter(|one| is(one)).count();
            let tile = async |ann: &mut Browser, label: &str| {
                let tile = format!(
                    "[...document.querySelectorAll('.tiles li')].find(one => one.textContent.includes('{label}')).querySelector('.figure').textContent"
                );
                ann.value(&tile).await.as_str().unwrap_or_default().to_owned()
            };
            let ann = &mut self.ann;
            let mut agree = tile(ann, "under way").await == under_way.to_string();
            let finished = count(&|order| is_within_a_minute(&order["finished_at"]));
            agree &= tile(ann, "finished in the last minute").await == finished.to_string();
            let closed = count(&|order| !order["closed"].is_null());
            agree &= tile(ann, "closed by an operator").await == closed.to_string();
            for state in ["Pending", "Compensating", "Processed", "Compensated", "Error", "CompensationFailed"] {
                let figures = format!("a[href='/console/orders?state={state}'] .figure");
                let orders = count(&|order| order["state"] == state && order["closed"].is_null());
                let told = ann.texts(&figures).await;
                agree &= !told.is_empty() && told.iter().all(|one| *one == orders.to_string());
            }
            agree.then_some(())
        })
        .await;
    }

    /// Fills in the operator's name and the reason.
    async fn sign(&mut self, why: &str) {
        self.ann.write("input[name=by]", "ann").await;
        self.ann.write("input[name=why]", why).await;
    }

    /// Makes the dry run of a form and then the act; each must report `count` orders or letters.
    async fn tried_and_done(&mut self, count: usize) {
        self.ann.click("button[value=try]", true).await;
        let tried = self.ann.text("#tally").await;
        assert!(
            tried.starts_with(&format!("{count} would be done")),
            "{tried}"
        );
        self.ann.click("button.do", true).await;
        let done = self.ann.text("#tally").await;
        assert!(done.starts_with(&format!("{count} done")), "{done}");
    }

    /// The rows of the list of causes: number of orders, state, cause.
    async fn causes(&mut self) -> Vec<(String, String, String)> {
        self.go("causes").await;
        let cells = self.ann.texts("[aria-label='Causes'] tbody td").await;
        let rows = cells.chunks(6);
        rows.map(|row| (row[0].clone(), row[1].clone(), row[2].clone()))
            .collect()
    }
}

/// Whether a time in a list is less than a minute ago.
fn is_within_a_minute(moment: &Value) -> bool {
    let at = moment
        .as_str()
        .and_then(|text| humantime::parse_rfc3339(text).ok());
    let at = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    at.is_some_and(|at| u128::from(SystemClock.now().0) < at.as_millis() + 60_000)
}

fn group(orders: usize, state: &str, cause: &str) -> (String, String, String) {
    (orders.to_string(), state.to_owned(), cause.to_owned())
}

#[tokio::test]
async fn the_drill_is_done_from_the_pages() {
    let Some(ann) = Browser::start().await else {
        return;
    };
    let dev = Dev::start(&[]).await;
    let mut desk = Desk { ann, dev };
    a_service_is_down(&mut desk).await;
    orders_are_refused_and_others_half_compensated(&mut desk).await;
    what_is_half_compensated_is_resolved(&mut desk).await;
    a_poison_record_is_mended(&mut desk).await;
    all_of_a_cause_are_done_again(&mut desk).await;
}

/// A service is unavailable for a while: its orders wait, and none has failed.
async fn a_service_is_down(desk: &mut Desk) {
    desk.dev.services(json!({"payment": {"down": true}})).await;
    desk.submit(&orders("down", 4)).await;
    let row = "#downstream-payment";
    desk.says("downstreams", row, "not called").await;
    picture(&mut desk.ann, "downstreams").await;
    desk.says("orders/down-0", "#main", "payment is down").await;
    assert_eq!(desk.ann.text("#state").await, "Processing");
    let waits = desk.ann.titles("svg .bar.deferred title").await;
    assert!(waits[0].starts_with("deferred after attempt"), "{waits:?}");
    assert!(desk.causes().await.is_empty(), "nothing counts as failed");
    desk.says("", "h1 + .box.bad", "4 orders wait for it").await;
    beginning(&mut desk.ann, "outage").await;
    desk.figures(4).await;
    desk.dev.services(json!({})).await;
    let ann = &mut desk.ann;
    until(
        "the overview shows by itself that none is under way",
        async || (figure(ann, "Processing").await == "0").then_some(()),
    )
    .await;
    let waits = desk.ann.texts("[aria-label='Downstreams'] .soft").await;
    assert!(waits.is_empty(), "{waits:?}");
    desk.figures(0).await;
    assert!(desk.causes().await.is_empty());
}

/// Some orders are refused after their point of no return; others could not be compensated.
async fn orders_are_refused_and_others_half_compensated(desk: &mut Desk) {
    desk.dev
        .services(json!({"notification": {"permanent": 1.0}}))
        .await;
    desk.submit(&orders("refused", 4)).await;
    desk.dev.all_finished(4 + 4).await;
    let plans = json!({"notification": {"permanent": 1.0}, "carrier": {"permanent": 1.0},
        "payment": {"compensation_permanent": 1.0}});
    desk.dev.services(plans).await;
    desk.submit(&orders("half", 3)).await;
    desk.dev.all_finished(4 + 4 + 3).await;
    let causes = desk.causes().await;
    let refused = group(4, "Error", "permanent/notify/declined");
    let half = group(3, "CompensationFailed", "permanent/charge-payment/declined");
    assert_eq!(causes, [refused, half]);
    // The problem is shown at the top of the page.
    desk.says("", "#main", "11 orders are stored").await;
    assert_eq!(figure(&mut desk.ann, "CompensationFailed").await, "3");
    desk.figures(0).await;
    picture(&mut desk.ann, "overview-wrong").await;
    desk.go("orders/half-0").await;
    assert_eq!(desk.ann.text("#state").await, "CompensationFailed");
    let steps = desk.ann.text("[aria-label='Steps']").await;
    assert!(steps.contains("not compensated"), "{steps}");
    let back = desk.ann.titles("svg .edge.back title").await;
    let begins = |say: &&String| say.starts_with("compensation begins with ");
    assert_eq!(back.iter().filter(begins).count(), 1, "{back:?}");
    beginning(&mut desk.ann, "half-compensated").await;
}

/// Refunds work again: one refund was made by hand, and its order is closed; the other orders are retried.
async fn what_is_half_compensated_is_resolved(desk: &mut Desk) {
    desk.dev
        .services(json!({"notification": {"permanent": 1.0}}))
        .await;
    desk.go("orders/half-2").await;
    desk.ann.choose("select[name=act]", "close").await;
    desk.sign("refunded by hand, ticket 4711").await;
    desk.ann.click("button[value=act]", true).await;
    assert!(desk.ann.text("#tally").await.starts_with("1 done"));
    desk.go("orders?state=CompensationFailed").await;
    desk.ann.choose("select[name=scope]", "all").await;
    desk.sign("refunds work again").await;
    // For such orders the page preselects the usual act.
    desk.tried_and_done(2).await;
    for id in ["half-0", "half-1"] {
        desk.says(&format!("orders/{id}"), "#state", "Compensated")
            .await;
    }
    assert_eq!(
        desk.causes().await.len(),
        1,
        "the one that is closed is not there"
    );
}

/// An incomplete record is corrected and replayed to its topic.
async fn a_poison_record_is_mended(desk: &mut Desk) {
    let half = Raw {
        topic: "orders".to_owned(),
        key: None,
        value: Some(b"{\"order_id\": \"mended\", \"workflow\":".to_vec()),
        headers: Vec::new(),
    };
    let (topic, partition, offset) = write(&desk.dev.kafka, &[half]).await.remove(0);
    let letter = format!("{topic}/{partition}/{offset}");
    desk.says("dead-letters", "[aria-label='Letters']", &letter)
        .await;
    desk.ann.click("[aria-label='Letters'] tbody a", true).await;
    assert!(desk.ann.text(".facts").await.contains("not-json"));
    let mended = order("mended", 1).to_string();
    desk.ann.write("textarea[name=value]", &mended).await;
    desk.ann.click("input[name=corrected]", false).await;
    desk.sign("the sender has mended it").await;
    picture(&mut desk.ann, "dead-letter").await;
    desk.tried_and_done(1).await;
    desk.dev.all_finished(4 + 4 + 3 + 1).await;
    desk.go(&format!("dead-letters/{letter}")).await;
    let facts = desk.ann.text(".facts").await;
    assert!(
        facts.contains("by ann: the sender has mended it"),
        "{facts}"
    );
}

/// The notification service works again: all orders that it refused are resubmitted.
async fn all_of_a_cause_are_done_again(desk: &mut Desk) {
    desk.dev.services(json!({})).await;
    let causes = desk.causes().await;
    assert_eq!(causes, [group(5, "Error", "permanent/notify/declined")]);
    desk.ann.click("[aria-label='Causes'] tbody a", true).await;
    desk.sign("the mail service is back").await;
    desk.tried_and_done(5).await;
    let all = until("nothing needs an operator", async || {
        let orders = desk.dev.orders().await;
        let is_well = |order: &Value| {
            let is_closed = !order["closed"].is_null();
            let state = order["state"].as_str().unwrap_or_default();
            is_closed || state == "Processed" || state == "Compensated"
        };
        orders.iter().all(is_well).then_some(orders)
    })
    .await;
    let count = |state: &str| all.iter().filter(|order| order["state"] == state).count();
    let states = ["Processed", "Compensated", "CompensationFailed"].map(count);
    assert_eq!(states, [9, 2, 1]);
    assert!(desk.causes().await.is_empty());
    desk.figures(0).await;
    assert!(desk.ann.text("#main").await.contains("No order does."));
}
