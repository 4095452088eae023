//! Incidents that the test causes, one at a time. A client of `triad mcp` must find each cause by the same strategy,
//! in at most eight tool calls; in a healthy system it must find none.

use serde_json::{Value, json};
use triad_tests::dev::Dev;
use triad_tests::mcp::Mcp;
use triad_tests::mcp_client::{Culprit, find};
use triad_tests::orders::{FULFILMENT, Files, lines, order, orders};
use triad_tests::poll::until;
use triad_tests::topics::{Raw, read_until, write};

/// Most tool calls until the cause is found.
const MOST_CALLS: usize = 8;

async fn submit(dev: &Dev, orders: &[Value]) {
    let text = lines(orders);
    let ran = dev.triad_reading(&["submit", "-"], text.as_bytes()).await;
    let _ = ran.good();
}

/// Waits until an order, or one of its steps, is in this state.
async fn is(dev: &Dev, id: &str, state: &str) {
    until(&format!("{id} is {state}"), async || {
        let ran = dev.triad(&["get", id, "--json"]).await;
        let order = (ran.code == 0).then(|| ran.json_lines()[0].clone())?;
        let steps = order["steps"].as_array()?;
        let is = order["state"] == state || steps.iter().any(|step| step["state"] == state);
        is.then_some(())
    })
    .await;
}

async fn breaker_is_open(dev: &Dev, downstream: &str) {
    until(
        &format!("the breaker of {downstream} is open"),
        async || {
            let ran = dev.triad(&["downstreams", "--json"]).await.good();
            let mut all = ran.json_lines().into_iter();
            let found = all.find(|one| one["downstream"] == downstream)?;
            (found["record"]["breaker"]["state"] != "closed").then_some(())
        },
    )
    .await;
}

async fn hold(dev: &Dev, what: &[&str]) {
    let who = ["--by", "ann", "--why", "a new release"];
    let _ = dev.triad(&[what, &who].concat()).await.good();
}

/// The cause that the client finds.
async fn found(dev: &Dev) -> Option<Culprit> {
    let mut talk = Mcp::start(dev, &[]).await;
    let found = find(&mut talk).await;
    assert!(
        talk.calls <= MOST_CALLS,
        "{} calls for {found:?}",
        talk.calls
    );
    found
}

fn service(downstream: &str, code: &str) -> Option<Culprit> {
    Some(Culprit::Service {
        downstream: downstream.to_owned(),
        code: code.to_owned(),
    })
}

/// A running system with processed orders and a further workflow.
async fn healthy_with(files: &Files, workflow: &str) -> Dev {
    let usual = files.write("usual.yaml", FULFILMENT);
    let further = files.write("further.yaml", workflow);
    healthy(&["--workflow", &usual, "--workflow", &further]).await
}

/// A running system with processed orders.
async fn healthy(args: &[&str]) -> Dev {
    let dev = Dev::start(args).await;
    submit(&dev, &orders("good", 2)).await;
    dev.all_finished(2).await;
    dev
}

#[tokio::test]
async fn where_nothing_is_wrong_nothing_is_found() {
    let dev = healthy(&[]).await;
    assert_eq!(found(&dev).await, None);
}

#[tokio::test]
async fn a_service_that_declines() {
    let dev = healthy(&[]).await;
    dev.services(json!({"notification": {"permanent": 1.0}}))
        .await;
    submit(&dev, &orders("bad", 3)).await;
    is(&dev, "bad-2", "Error").await;
    assert_eq!(found(&dev).await, service("notification", "declined"));
}

#[tokio::test]
async fn a_service_that_is_down() {
    let dev = healthy(&[]).await;
    dev.services(json!({"payment": {"down": true}})).await;
    submit(&dev, &orders("bad", 30)).await;
    breaker_is_open(&dev, "payment").await;
    let found = found(&dev).await;
    // If an order started after the breaker had opened, `breaker-open` is its only failure.
    let known = ["down", "breaker-open"].map(|code| service("payment", code));
    assert!(known.contains(&found), "{found:?}");
}

#[tokio::test]
async fn a_service_that_answers_rubbish() {
    let dev = healthy(&[]).await;
    dev.services(json!({"notification": {"garbage": 1.0}}))
        .await;
    submit(&dev, &[order("bad", 1)]).await;
    is(&dev, "bad", "Error").await;
    assert_eq!(found(&dev).await, service("notification", "broken-answer"));
}

#[tokio::test]
async fn a_service_that_is_slower_than_it_may_be() {
    let dev = healthy(&[]).await;
    dev.services(json!({"notification": {"stall": 1.0, "stall_ms": 20_000}}))
        .await;
    submit(&dev, &[order("bad", 1)]).await;
    is(&dev, "bad", "Error").await;
    assert_eq!(found(&dev).await, service("notification", "call-timeout"));
}

#[tokio::test]
async fn a_compensation_that_fails() {
    let dev = healthy(&[]).await;
    let plans = json!({"carrier": {"permanent": 1.0}, "payment": {"compensation_permanent": 1.0}});
    dev.services(plans).await;
    submit(&dev, &[order("bad", 1)]).await;
    is(&dev, "bad", "CompensationFailed").await;
    let wanted = Culprit::Compensation {
        step: "charge-payment".to_owned(),
        downstream: "payment".to_owned(),
    };
    assert_eq!(found(&dev).await, Some(wanted));
}

#[tokio::test]
async fn an_effect_in_doubt() {
    let files = Files::new();
    let dev = healthy_with(
        &files,
        "workflow: once
steps:
  - id: wire
    agent: bank
    action: wire
    at_most_once: true
    compensation: none
",
    )
    .await;
    let lost = json!({"bank": {"transient": 1.0, "transient_after_effect": 1.0}});
    dev.services(lost).await;
    submit(
        &dev,
        &[json!({"order_id": "bad", "workflow": "once", "details": {}})],
    )
    .await;
    is(&dev, "bad", "Error").await;
    let wanted = Culprit::InDoubt {
        step: "wire".to_owned(),
        downstream: "bank".to_owned(),
    };
    assert_eq!(found(&dev).await, Some(wanted));
}

#[tokio::test]
async fn a_step_that_somebody_has_paused() {
    let dev = healthy(&[]).await;
    hold(&dev, &["pause", "--step-type", "order-fulfilment/pack"]).await;
    // An agent reads pauses every half second, so some orders may still pass the step.
    let mut submitted = 0;
    until("an order is deferred", async || {
        submitted += 1;
        submit(&dev, &[order(&format!("bad-{submitted}"), 1)]).await;
        let all = dev.orders().await;
        let steps = all
            .iter()
            .flat_map(|o| o["steps"].as_array().into_iter().flatten());
        let mut states = steps.map(|step| step["state"].clone());
        states.any(|state| state == "deferred").then_some(())
    })
    .await;
    let wanted = Culprit::StepPaused {
        step: "order-fulfilment/pack".to_owned(),
        by: "ann".to_owned(),
    };
    assert_eq!(found(&dev).await, Some(wanted));
}

#[tokio::test]
async fn a_downstream_that_somebody_has_stopped() {
    let dev = healthy(&[]).await;
    hold(&dev, &["pause", "--downstream", "carrier"]).await;
    submit(&dev, &orders("bad", 3)).await;
    // Some orders wait for the downstream; others may not be started at all.
    until("the orders are stored", async || {
        let stored = dev.orders().await;
        (stored.len() == 5).then_some(())
    })
    .await;
    let wanted = Culprit::Stopped {
        downstream: "carrier".to_owned(),
        by: "ann".to_owned(),
    };
    assert_eq!(found(&dev).await, Some(wanted));
}

#[tokio::test]
async fn a_definition_that_asks_for_what_an_order_does_not_have() {
    let files = Files::new();
    let dev = healthy_with(
        &files,
        "workflow: gift
steps:
  - id: wrap
    agent: warehouse
    action: wrap
    input: { paper: \"${details.paper}\" }
    compensation: none
",
    )
    .await;
    submit(
        &dev,
        &[json!({"order_id": "bad", "workflow": "gift", "details": {}})],
    )
    .await;
    is(&dev, "bad", "Compensated").await;
    let wanted = Culprit::Definition {
        step: "gift/wrap".to_owned(),
    };
    assert_eq!(found(&dev).await, Some(wanted));
}

/// The cause that the client finds for a bad record in the topic of orders.
async fn found_of_record(value: &[u8]) -> Option<Culprit> {
    let dev = healthy(&[]).await;
    let record = Raw {
        topic: "orders".to_owned(),
        key: Some(b"bad".to_vec()),
        value: Some(value.to_vec()),
        headers: Vec::new(),
    };
    write(&dev.kafka, &[record]).await;
    read_until(&dev.kafka, &["dead-letter"], |read| !read.is_empty()).await;
    found(&dev).await
}

#[tokio::test]
async fn a_record_that_nobody_can_read() {
    let wanted = Culprit::Record {
        cause: "not-json".to_owned(),
        topic: "orders".to_owned(),
        order: None,
    };
    assert_eq!(
        found_of_record(b"{\"order_id\": \"bad\"").await,
        Some(wanted)
    );
}

#[tokio::test]
async fn an_order_of_a_workflow_that_there_is_not() {
    let order = json!({"order_id": "bad", "workflow": "order-fulfillment", "details": {}});
    let wanted = Culprit::Record {
        cause: "unknown-workflow".to_owned(),
        topic: "orders".to_owned(),
        order: Some("bad".to_owned()),
    };
    assert_eq!(
        found_of_record(order.to_string().as_bytes()).await,
        Some(wanted)
    );
}
