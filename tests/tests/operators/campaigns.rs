//! A campaign on a running `triad serve`: it stops early if the cause is not repaired, and a kill in the middle loses
//! and repeats nothing.
//!
//! `TRIAD_CAMPAIGN_ORDERS=100000` sets the number of failed orders.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use triad_tests::cli::triad;
use triad_tests::http::client;
use triad_tests::orders::lines;
use triad_tests::poll::{PATIENCE, until, until_within};

use crate::one_machine::serve::{Place, Serve};

/// A service that refuses every call until the test repairs it, and counts the calls.
#[derive(Clone, Default)]
struct Bank {
    is_mended: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
    applied: Arc<Mutex<HashSet<String>>>,
}

async fn pay(State(bank): State<Bank>, headers: HeaderMap) -> (StatusCode, String) {
    bank.calls.fetch_add(1, Ordering::SeqCst);
    if !bank.is_mended.load(Ordering::SeqCst) {
        let why = json!({"code": "closed", "message": "the bank is closed"});
        return (StatusCode::UNPROCESSABLE_ENTITY, why.to_string());
    }
    let key = headers["idempotency-key"]
        .to_str()
        .expect("a key")
        .to_owned();
    bank.applied
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(key);
    (StatusCode::OK, "{}".to_owned())
}

impl Bank {
    async fn start() -> (Self, String) {
        let bank = Self::default();
        let routes = Router::new().fallback(pay).with_state(bank.clone());
        let address = triad_tests::http::serve(routes).await;
        (bank, format!("http://{address}"))
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn applied(&self) -> usize {
        self.applied
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }
}

const FLOW: &str = "
workflow: one
steps:
  - id: pay
    agent: bank
    action: pay
    input: {}
    supervisor: { failure_threshold: 0, then: error }
    compensation: none
";

/// The number of orders in this test.
#[expect(
    clippy::disallowed_methods,
    reason = "the size of a test's run is no configuration of a process"
)]
fn count() -> usize {
    let said = std::env::var("TRIAD_CAMPAIGN_ORDERS").ok();
    said.map_or(300, |text| text.parse().expect("a number of orders"))
}

async fn submit_all(serve: &Serve, count: usize) {
    let all: Vec<Value> = (0..count)
        .map(|n| json!({"order_id": format!("o-{n}"), "workflow": "one", "details": {"n": n}}))
        .collect();
    // If orders of a part are refused for lack of room, the whole part is submitted again; the other orders are then
    // repetitions.
    for part in all.chunks(500) {
        until("a part is accepted", async || {
            let (status, body) = serve
                .post("/v1/orders", "application/x-ndjson", lines(part))
                .await;
            let results = body
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let good = results
                .filter(|r| r["result"] == "accepted" || r["result"] == "again")
                .count();
            (status == 200 && good >= part.len()).then_some(())
        })
        .await;
    }
}

/// Starts a campaign on all orders in Error; returns it.
async fn start(place: &Place, further: &[&str]) -> Value {
    let data = place.data();
    let mut words = vec![
        "campaign",
        "start",
        "resubmit",
        "--cause",
        "permanent/pay/*",
        "--why",
        "mended",
    ];
    words.extend([
        "--by", "ann", "--yes", "--json", "--rate", "10000", "--data", &data,
    ]);
    words.extend(further);
    let ran = triad(&words, &[], b"").await;
    let last = ran.out.lines().last().unwrap_or_else(|| panic!("{ran:?}"));
    serde_json::from_str(last).expect("JSON")
}

async fn shown(place: &Place, id: &str) -> Option<Value> {
    let ran = triad(
        &["campaign", "show", id, "--json", "--data", &place.data()],
        &[],
        b"",
    )
    .await;
    let first = ran.out.lines().next()?;
    serde_json::from_str(first).ok()
}

/// Asserts that the size of a page does not depend on the number of orders. With `--nocapture`, its time is printed.
async fn look_at_pages(serve: &Serve) {
    for page in [
        "/console/",
        "/console/orders?state=Error",
        "/console/orders?state=Error&cause=permanent/pay/*",
        "/console/causes",
        "/console/campaigns",
    ] {
        let began = Instant::now();
        let answer = client().get(serve.url(page)).send().await;
        let answer = answer.expect("it answers");
        assert_eq!(answer.status(), 200, "{page}");
        let bytes = answer.text().await.expect("a page").len();
        println!("{page}: {bytes} bytes in {:?}", began.elapsed());
        assert!(bytes < 128 * 1024, "{page} has {bytes} bytes");
    }
}

#[tokio::test]
async fn an_uncured_cause_stops_it_and_a_kill_in_the_middle_of_the_next_changes_nothing() {
    let count = count();
    let (bank, address) = Bank::start().await;
    let place = Place::new().await;
    std::fs::remove_file(place.files.path("flows/order-fulfilment.yaml")).expect("it is there");
    place.files.write("flows/one.yaml", FLOW);
    place.configure(&json!({"agents": {"bank": {"base_url": address}}}));
    let mut serve = place.serve().await;
    submit_all(&serve, count).await;
    // This assumes at least a hundred orders per second on any machine.
    let patience = PATIENCE + Duration::from_millis(10) * count as u32;
    until_within(patience, "every order has failed", async || {
        let status = triad(&["status", "--json", "--data", &place.data()], &[], b"").await;
        let status: Value = serde_json::from_str(&status.out).ok()?;
        let is_so = status["needing"] == count && status["under_way"]["orders"] == 0;
        is_so.then_some(())
    })
    .await;

    look_at_pages(&serve).await;

    let before = bank.calls();
    let over = start(&place, &["--wait"]).await;
    assert_eq!(over["end"], "fails-again", "{over}");
    let tried = bank.calls() - before;
    assert!(
        (2..=20).contains(&tried),
        "{tried} orders were tried though the cause was not cured"
    );
    // The campaign may have ended before the last of these orders had failed.
    let again = over["orders"]["again"].as_u64().expect("a number");
    assert!((2..=tried as u64).contains(&again), "{over}");

    bank.is_mended.store(true, Ordering::SeqCst);
    let started = start(&place, &[]).await;
    let id = started["id"].as_str().expect("an id").to_owned();
    until_within(patience, "it is under way", async || {
        let shown = shown(&place, &id).await?;
        (shown["orders"]["done"].as_u64()? as usize >= count / 4).then_some(())
    })
    .await;
    serve.process.kill().await;
    let serve = place.serve().await;
    let over = until_within(patience, "the campaign is over", async || {
        let shown = shown(&place, &id).await?;
        (!shown["end"].is_null()).then_some(shown)
    })
    .await;
    assert_eq!(over["end"], "finished", "{over}");
    let orders = &over["orders"];
    assert_eq!(orders["chosen"], count, "{over}");
    assert_eq!(
        (&orders["done"], &orders["well"]),
        (&json!(count), &json!(count)),
        "{over}"
    );
    assert_eq!(
        bank.applied(),
        count,
        "each effect once, under a key of its own"
    );
    let listed = triad(
        &[
            "campaign",
            "show",
            &id,
            "--all",
            "--json",
            "--data",
            &place.data(),
        ],
        &[],
        b"",
    )
    .await;
    let listed = listed.good();
    let listed: HashSet<String> = listed.json_lines()[1..]
        .iter()
        .map(|line| line["order_id"].as_str().expect("an order").to_owned())
        .collect();
    assert_eq!(listed.len(), count, "every order is listed, once");
    serve.stop().await;
}
