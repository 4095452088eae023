//! From an alert in a mail to the repair in five clicks: the order, its trace, its cause, and the act on all orders
//! that failed for that cause.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Html;
use axum::routing::get;
use serde_json::{Value, json};
use triad_core::message::Alert;
use triad_operator::address::{ConsoleUrl, PageAddress};
use triad_tests::browser::Browser;
use triad_tests::dev::Dev;
use triad_tests::orders::{Files, orders};
use triad_tests::poll::until;
use triad_tests::process::{Process, command};
use triad_tests::topics::{Raw, read_until, write};

use super::{beginning, picture};

const FAILED: usize = 4;
/// Most clicks from the alert until the act is done.
const MOST_CLICKS: usize = 5;

/// Another web site than the console, with the mail and the traces.
#[derive(Clone, Default)]
struct Elsewhere {
    mail: Arc<Mutex<String>>,
    traces: Arc<Mutex<Vec<String>>>,
}

async fn mail(State(this): State<Elsewhere>) -> Html<String> {
    let link = this.mail.lock().unwrap_or_else(PoisonError::into_inner);
    Html(format!(
        "<h1>An order is in Error</h1><p><a href=\"{link}\">{link}</a>"
    ))
}

async fn trace(State(this): State<Elsewhere>, Path(id): Path<String>) -> Html<&'static str> {
    let mut traces = this.traces.lock().unwrap_or_else(PoisonError::into_inner);
    traces.push(id);
    Html("<h1>A trace</h1>")
}

impl Elsewhere {
    async fn start() -> (Self, String) {
        let this = Self::default();
        let routes = Router::new()
            .route("/mail", get(mail))
            .route("/trace/{id}", get(trace))
            .with_state(this.clone());
        let port = triad_tests::http::serve(routes).await.port();
        (this, format!("http://localhost:{port}"))
    }
}

/// Starts a console for `triad dev`, with tokens and the address of a trace viewer; returns its address and a token.
async fn console(dev: &Dev, files: &Files, traces: &str) -> (Process, String, String) {
    let made = dev
        .triad(&["token", "ann", "--role", "operate"])
        .await
        .good();
    let tokens = files.write("tokens", &made.out);
    let mut beside = command("triad");
    beside.args([
        "console", "--json", "--data", &dev.data, "--tokens", &tokens,
    ]);
    beside.args(["--trace-url", &format!("{traces}/trace/{{trace}}")]);
    let mut beside = Process::start(beside);
    let line: Value = serde_json::from_str(&beside.first_line().await).expect("JSON");
    let address = line["console"].as_str().expect("an address").to_owned();
    (beside, address, made.err.trim().to_owned())
}

/// Submits orders whose last step is refused, each in a trace of its submitter.
async fn planted(dev: &Dev) {
    dev.services(json!({"notification": {"permanent": 1.0}}))
        .await;
    let record = |(n, order): (usize, Value)| Raw {
        topic: "orders".to_owned(),
        key: order["order_id"].as_str().map(|id| id.as_bytes().to_vec()),
        value: Some(order.to_string().into_bytes()),
        headers: vec![("traceparent".to_owned(), Some(context(n).into_bytes()))],
    };
    let all: Vec<Raw> = orders("shop:2026", FAILED)
        .into_iter()
        .enumerate()
        .map(record)
        .collect();
    write(&dev.kafka, &all).await;
    dev.all_finished(FAILED).await;
}

fn trace_of(n: usize) -> String {
    format!("0af7651916cd43dd8448eb211c8031{n:02x}")
}

fn context(n: usize) -> String {
    format!("00-{}-b7ad6b7169203331-01", trace_of(n))
}

#[tokio::test]
async fn from_an_alert_the_order_its_trace_its_cause_and_the_act_on_all_are_five_clicks() {
    let Some(mut ann) = Browser::start().await else {
        return;
    };
    let dev = Dev::start(&[]).await;
    let (elsewhere, site) = Elsewhere::start().await;
    let files = Files::new();
    let (_console, address, token) = console(&dev, &files, &site).await;
    planted(&dev).await;
    let told = read_until(&dev.kafka, &["alerts"], |told| told.len() >= FAILED).await;
    let value = told[0].value.as_deref().expect("an alert has a value");
    let alert: Alert = serde_json::from_slice(value).expect("an alert");
    let order = alert.order_id.clone().expect("it is about an order");
    let at: ConsoleUrl = address.parse().expect("the address of a console");
    let place = PageAddress::of_alert(&alert).expect("a page shows it");
    *elsewhere
        .mail
        .lock()
        .unwrap_or_else(PoisonError::into_inner) = at.of(&place);

    // The operator is logged in before the clicks are counted.
    ann.go(&address).await;
    ann.write("input[name=token]", &token).await;
    ann.click("button.do", true).await;
    assert_eq!(ann.text("h1").await, "Overview");
    ann.go(&format!("{site}/mail")).await;
    let before = ann.clicks();

    ann.click("a", true).await;
    assert_eq!(ann.text("h1").await, format!("Order {order}"));
    assert_eq!(ann.text("#state").await, "Error");
    beginning(&mut ann, "alert").await;

    ann.click("#trace a", false).await;
    let number = order
        .rsplit('-')
        .next()
        .and_then(|n| n.parse().ok())
        .expect("a number");
    until("the trace of this order is looked at", async || {
        let seen = elsewhere
            .traces
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        (*seen == [trace_of(number)]).then_some(())
    })
    .await;

    ann.click(".facts a[href*='cause=']", true).await;
    assert_eq!(ann.texts("input[name=orders]").await.len(), FAILED);
    dev.services(json!({})).await;
    ann.write("input[name=why]", "mail is back").await;
    ann.click("button[value=try]", true).await;
    let tried = format!("{FAILED} would be done, 0 refused, 0 failed");
    assert_eq!(ann.text("#tally").await, tried);
    picture(&mut ann, "dry-run").await;
    ann.click("button.do", true).await;
    let done = format!("{FAILED} done, 0 refused, 0 failed");
    assert_eq!(ann.text("#tally").await, done);

    let clicks = ann.clicks() - before;
    assert!(clicks <= MOST_CLICKS, "{clicks} clicks");
    until("all are processed", async || {
        let orders = dev.orders().await;
        orders
            .iter()
            .all(|order| order["state"] == "Processed")
            .then_some(())
    })
    .await;
    let acted = dev
        .triad(&["get", &order, "--json"])
        .await
        .good()
        .json_lines();
    let acts = acted[0]["incidents"].as_array().expect("incidents").iter();
    let by: Vec<&Value> = acts.filter_map(|line| line["act"].get("by")).collect();
    assert_eq!(by, ["ann"], "whose token it was");
}
