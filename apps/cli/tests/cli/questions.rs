//! The questions that an operator asks with commands, against a running `triad dev`.

use serde_json::{Value, json};
use triad_tests::dev::Dev;
use triad_tests::orders::{lines, order, orders};
use triad_tests::poll::until;

async fn submit(dev: &Dev, orders: &[Value]) {
    let text = lines(orders);
    let ran = dev.triad_reading(&["submit", "-"], text.as_bytes()).await;
    let _ = ran.good();
}

async fn in_state(dev: &Dev, id: &str, state: &str) -> Value {
    until(&format!("{id} is {state}"), async || {
        let ran = dev.triad(&["get", id, "--json"]).await;
        let order = (ran.code == 0).then(|| ran.json_lines()[0].clone())?;
        (order["state"] == state).then_some(order)
    })
    .await
}

/// Runs a curl command that `get --inputs` printed; returns the service's answer.
async fn run_as_shown(dev: &Dev, agent: &str, shown: &str) -> Value {
    let variable = format!("{}_URL", agent.to_uppercase());
    let address = format!("{}/{agent}", dev.service);
    let ran = tokio::process::Command::new("sh")
        .args(["-c", shown])
        .env(variable, address)
        .output()
        .await
        .expect("a shell");
    assert!(ran.status.success(), "{ran:?}");
    serde_json::from_slice(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran:?}"))
}

/// The curl commands in a text, each with its continuation lines.
fn curls(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut open = false;
    for line in text.lines().map(str::trim) {
        if open {
            let last: &mut String = all.last_mut().expect("it is open");
            last.push('\n');
            last.push_str(line);
        } else if line.starts_with("curl ") {
            all.push(line.to_owned());
        } else {
            continue;
        }
        open = line.ends_with('\\');
    }
    all
}

#[tokio::test]
async fn the_call_that_get_shows_is_the_call_that_the_agent_made() {
    let dev = Dev::start(&[]).await;
    submit(&dev, &[order("i-1", 1)]).await;
    in_state(&dev, "i-1", "Processed").await;
    let shown = dev.triad(&["get", "i-1", "--inputs"]).await.good().out;
    let charge = curls(&shown)
        .into_iter()
        .find(|c| c.contains("PAYMENT_URL/charge"))
        .unwrap_or_else(|| panic!("no charge in {shown}"));
    let answer = run_as_shown(&dev, "payment", &charge).await;
    let ran = dev.triad(&["get", "i-1", "--inputs", "--json"]).await;
    let order = ran.good().json_lines()[0].clone();
    let inputs = &order["inputs"];
    assert_eq!(
        answer, inputs["outputs"]["charge-payment"],
        "the service knows the key and the request again"
    );
    assert_eq!(
        inputs["details"]["customerID"],
        order_details("i-1")["customerID"]
    );
    let calls = inputs["calls"].as_array().expect("calls");
    let charge = calls
        .iter()
        .find(|c| c["step"] == "charge-payment" && c["direction"] == "forward")
        .expect("the charge");
    let key = charge["idempotency_key"].as_str().expect("a key");
    assert!(shown.contains(key), "{key} in {shown}");
}

fn order_details(id: &str) -> Value {
    order(id, 1)["details"].clone()
}

#[tokio::test]
async fn get_says_what_happens_next_and_list_what_orders_wait_for() {
    let dev = Dev::start(&[]).await;
    dev.services(json!({"payment": {"caller_refused": true}}))
        .await;
    submit(&dev, &orders("w", 3)).await;
    let waiting = until("all three wait for payment", async || {
        let listed = dev
            .triad(&["list", "--state", "Processing"])
            .await
            .good()
            .out;
        let waiting = listed.matches("charge-payment: ").count();
        (waiting >= 3).then_some(listed)
    })
    .await;
    assert!(waiting.contains("wait: charge-payment: "), "{waiting}");
    let downstreams = dev.triad(&["downstreams"]).await.good().out;
    assert!(
        downstreams.contains("3 orders deferred at payment"),
        "{downstreams}"
    );
    let text = dev.triad(&["get", "w-0"]).await.good().out;
    assert!(
        text.contains("Next") && text.contains("charge-payment waits: "),
        "{text}"
    );

    // The service refuses the agent's expired token: no order fails, and `status` names the credentials.
    let status = dev.triad(&["status"]).await.ended(1).out;
    assert!(
        status.contains("payment is") && status.contains("credentials"),
        "{status}"
    );
    assert!(status.contains("Need you     no orders"), "{status}");
    let order = dev
        .triad(&["get", "w-0", "--json"])
        .await
        .good()
        .json_lines()[0]
        .clone();
    assert_eq!(order["failure_count"], 0, "{order}");

    dev.services(json!({})).await;
    for id in ["w-0", "w-1", "w-2"] {
        let order = in_state(&dev, id, "Processed").await;
        assert_eq!(order["failure_count"], 0);
    }
    let well = dev.triad(&["status"]).await.good().out;
    assert!(well.contains("All is well"), "{well}");
}

#[tokio::test]
async fn status_names_the_cause_and_a_command_that_works() {
    let dev = Dev::start(&[]).await;
    dev.services(json!({"notification": {"permanent": 1.0}}))
        .await;
    submit(&dev, &orders("s", 2)).await;
    dev.all_finished(2).await;
    let status = dev.triad(&["status"]).await.ended(1).out;
    assert!(
        status.contains("2 Error  permanent/notify/declined"),
        "{status}"
    );
    let shown = status
        .lines()
        .find_map(|line| line.trim().strip_prefix("triad resubmit "))
        .unwrap_or_else(|| panic!("{status}"));
    let typed = shown.replace("--why …", "--why mended --by ann");
    let typed: Vec<&str> = typed.split_whitespace().collect();
    let typed: Vec<&str> = typed.iter().map(|w| w.trim_matches('\'')).collect();
    let dry = dev
        .triad(&[&["resubmit"], &typed[..]].concat())
        .await
        .good();
    assert!(
        dry.out.contains("s-0") && dry.out.contains("s-1"),
        "{dry:?}"
    );
    let json = dev.triad(&["status", "--json"]).await.ended(1);
    assert_eq!(json.json_lines()[0]["needing"], 2);
}

#[tokio::test]
async fn watch_and_submit_wait_end_with_the_order() {
    let dev = Dev::start(&[]).await;
    let text = lines(&orders("g", 3));
    let waited = dev
        .triad_reading(&["submit", "--wait", "-"], text.as_bytes())
        .await;
    assert!(waited.good().out.contains("3 Processed"));
    let watched = dev.triad(&["watch", "g-1"]).await.good().out;
    let at = |what: &str| {
        watched
            .find(what)
            .unwrap_or_else(|| panic!("{what} in {watched}"))
    };
    assert!(at("submitted") < at("charge-payment: completed"));
    assert!(at("charge-payment: completed") < at("Processed"));

    dev.services(json!({"payment": {"permanent": 1.0}})).await;
    let text = lines(&[order("h", 1)]);
    let waited = dev
        .triad_reading(&["submit", "--wait=1m", "-"], text.as_bytes())
        .await
        .ended(1);
    assert!(
        waited
            .out
            .contains("h  Compensated  permanent/charge-payment"),
        "{waited:?}"
    );
    let _ = dev.triad(&["watch", "h"]).await.ended(1);
    let nobody = dev.triad(&["watch", "nobody"]).await.ended(1);
    assert!(nobody.err.contains("no order nobody"), "{nobody:?}");
}

#[tokio::test]
async fn the_timeline_of_a_compensated_order_has_its_forward_attempts() {
    let dev = Dev::start(&[]).await;
    dev.services(json!({"carrier": {"permanent": 1.0}})).await;
    submit(&dev, &[order("t", 1)]).await;
    in_state(&dev, "t", "Compensated").await;
    let text = dev.triad(&["get", "t"]).await.good().out;
    let at = |what: &str| {
        text.find(what)
            .unwrap_or_else(|| panic!("{what} in {text}"))
    };
    assert!(at("charge-payment: attempt 1 started") < at("charge-payment: completed"));
    assert!(at("charge-payment: completed") < at("compensation began"));
    assert!(at("compensation began") < at("charge-payment: compensation attempt 1 started"));
    assert!(
        at("charge-payment: compensation attempt 1 started") < at("charge-payment: compensated")
    );
}
