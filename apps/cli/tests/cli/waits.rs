//! Orders that wait for a time or an event: the example, and the commands that send events.

use std::path::Path;

use serde_json::{Value, json};
use triad_tests::cli::{Ran, triad};
use triad_tests::dev::Dev;
use triad_tests::orders::{Files, lines};
use triad_tests::poll::until;
use triad_tests::topics::{Raw, read_all, write};

/// A file of the example, by its name.
fn example(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("examples/approval")
        .join(name)
        .display()
        .to_string()
}

/// Waits until the list says that an order waits for a text.
async fn until_it_waits_for(dev: &Dev, order: &str, what: &str) {
    until(&format!("{order} waits for {what}"), async || {
        let shown = dev.triad(&["get", order]).await.good().out;
        shown.contains(what).then_some(())
    })
    .await;
}

/// Posts JSON at a path of the applications' API.
async fn post(dev: &Dev, path: &str, body: Value) -> (u16, Value) {
    let root = dev.console.trim_end_matches("console/");
    let answer = triad_tests::http::client()
        .post(format!("{root}{path}"))
        .header("content-type", "application/json")
        .body(body.to_string())
        .send()
        .await
        .expect("it answers");
    let status = answer.status().as_u16();
    let text = answer.text().await.expect("text");
    (status, serde_json::from_str(&text).expect("JSON"))
}

fn state<'a>(orders: &'a [Value], id: &str) -> &'a str {
    let order = orders.iter().find(|order| order["order_id"] == id);
    order.expect(id)["state"].as_str().expect("a state")
}

#[tokio::test]
async fn the_example_waits_for_decisions_which_come_from_the_shell_and_over_http() {
    let dev = Dev::start(&["--workflow", &example("credit.yaml")]).await;
    dev.submit(Path::new(&example("orders.jsonl"))).await;
    for order in ["A-2", "A-3"] {
        until_it_waits_for(&dev, order, "decided").await;
    }
    let listed = dev.triad(&["list"]).await.good().out;
    assert!(listed.contains("the event decided"), "{listed}");

    let decided = ["signal", "A-2", "decided", "--id", "d-17", "--input"];
    let signal =
        |by: &'static str, data: &'static str| [&decided[..], &[data, "--by", by]].concat();
    let yes = signal("ann", r#"{"decision": "yes", "why": "known for years"}"#);
    for (refused, why) in [
        (
            signal("eve", r#"{"decision": "yes"}"#),
            "eve may not decide; ann, bob may",
        ),
        (signal("ann", r#"{"decision": "perhaps"}"#), "decision"),
    ] {
        let told = dev.triad(&refused).await.ended(1).err;
        assert!(told.contains(why), "{told}");
    }
    let sent = dev.triad(&yes).await.good().out;
    assert_eq!(sent, "A-2: the event decided (d-17) is sent\n");
    let no = json!({"event": "decided", "data": {"decision": "no"}});
    let (status, answer) = post(&dev, "v1/orders/A-3/events", no.clone()).await;
    assert_eq!((status, &answer["code"]), (403, &json!("may-not-decide")));
    let mut of_bob = no;
    of_bob["by"] = json!("bob");
    let (status, answer) = post(&dev, "v1/operate/orders/A-3/events", of_bob).await;
    assert_eq!((status, &answer["order_id"]), (200, &json!("A-3")));

    let ended = dev.all_finished(3).await;
    let states = ["A-1", "A-2", "A-3"].map(|id| state(&ended, id));
    assert_eq!(states, ["Processed", "Processed", "Compensated"]);
    let shown = dev.triad(&["get", "A-2", "--inputs"]).await.good().out;
    let line = "decided by ann: known for years";
    assert!(shown.contains(line), "who decided and why: {shown}");
    let statuses = read_all(&dev.kafka, &["status"]).await;
    let texts = statuses.iter().filter_map(|record| record.value.as_deref());
    let texts = texts.map(String::from_utf8_lossy);
    let asked = texts.filter(|text| text.contains("decision-asked")).count();
    assert_eq!(asked, 2, "{statuses:?}");
    let again = dev.triad(&yes).await.good().out;
    assert_eq!(again, "A-2: has had the event decided (d-17) before\n");
    let total = dev.ledger().await.summary.total;
    let effects = (total.applied, total.compensated);
    assert_eq!(
        effects,
        (5, 1),
        "reserve thrice, charge twice, release once"
    );
}

/// A workflow whose orders wait for one event.
fn waiting(within: &str) -> String {
    format!(
        "workflow: sale
steps:
  - {{id: hold, agent: stock, action: hold, compensation: {{action: free}}}}
  - {{id: paid, await: {{event: paid, within: {within}}}}}
"
    )
}

/// Starts `triad dev` with the workflow, and an order of each id.
async fn start(files: &Files, within: &str, ids: &[&str]) -> Dev {
    let workflow = files.write("sale.yaml", &waiting(within));
    let orders = ids
        .iter()
        .map(|id| json!({"order_id": id, "workflow": "sale", "details": {}}));
    let orders = files.write("orders.jsonl", &lines(&orders.collect::<Vec<_>>()));
    let dev = Dev::start(&["--workflow", &workflow]).await;
    dev.submit(Path::new(&orders)).await;
    dev
}

#[tokio::test]
async fn who_does_not_know_the_order_names_a_key_that_a_step_has_returned() {
    let files = Files::new();
    let keyed = waiting("1h").replace("event: paid,", "event: paid, key: \"${steps.hold.id}\",");
    let service = "agents: {stock: {actions: {hold: {keep: {id: \"pay-${input.n}\"}}}}}\n";
    let keyed = keyed.replace(
        "action: hold,",
        "action: hold, input: {n: \"${details.n}\"},",
    ) + service;
    let workflow = files.write("sale.yaml", &keyed);
    let order = json!({"order_id": "1", "workflow": "sale", "details": {"n": 7}});
    let orders = files.write("orders.jsonl", &lines(&[order]));
    let dev = Dev::start(&["--workflow", &workflow]).await;
    let signal = [
        "signal",
        "pay-7",
        "paid",
        "--by-key",
        "--input",
        "{\"sum\": 5}",
    ];
    let early = dev.triad(&signal).await.ended(1).err;
    assert!(early.contains("no order waits for an event"), "{early}");
    // Over Kafka it is kept for the order.
    let value = json!({"event": "paid", "key": "pay-7", "id": "e-1", "data": {"sum": 5}});
    let event = Raw {
        topic: "events".to_owned(),
        value: Some(value.to_string().into_bytes()),
        ..Raw::default()
    };
    write(&dev.kafka, &[event]).await;
    until("the early event is seen", async || {
        let letters = dev.triad(&["dead-letters", "list"]).await.good().out;
        letters.contains("unknown-key").then_some(())
    })
    .await;
    dev.submit(Path::new(&orders)).await;
    let ended = dev.all_finished(1).await;
    assert_eq!(state(&ended, "1"), "Processed");
    let shown = dev.triad(&["get", "1", "--json"]).await.good().out;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown["steps"][1]["output"], json!({"sum": 5}));
    let late = dev.triad(&signal).await.ended(1).err;
    assert!(late.contains("no step of it waits any more"), "{late}");
}

#[tokio::test]
async fn an_event_that_does_not_come_compensates_the_order_without_an_alert() {
    let files = Files::new();
    let dev = start(&files, "300ms", &["1"]).await;
    let ended = dev.all_finished(1).await;
    assert_eq!(state(&ended, "1"), "Compensated", "{ended:?}");
    let alerts = read_all(&dev.kafka, &["alerts"]).await;
    assert_eq!(alerts.len(), 0, "{alerts:?}");
}

#[tokio::test]
async fn an_application_cancels_an_order_that_waits() {
    let files = Files::new();
    let dev = start(&files, "1h", &["1"]).await;
    until_it_waits_for(&dev, "1", "paid").await;
    let why = json!({"why": "the customer changed his mind"});
    let (status, answer) = post(&dev, "v1/orders/1/cancel", why.clone()).await;
    assert_eq!(
        (status, answer),
        (202, json!({"kind": "cancelled", "order_id": "1"}))
    );
    let ended = dev.all_finished(1).await;
    assert_eq!(state(&ended, "1"), "Compensated", "{ended:?}");
    let (status, answer) = post(&dev, "v1/orders/1/cancel", why).await;
    assert_eq!((status, &answer["code"]), (409, &json!("not-cancelled")));
    let late = dev.triad(&["signal", "1", "paid"]).await.ended(1);
    assert!(
        late.err.contains("no step of it waits any more"),
        "{late:?}"
    );
}

#[tokio::test]
async fn events_are_sent_and_refused_from_far_away_as_beside_the_store() {
    let files = Files::new();
    let dev = start(&files, "1h", &["near", "far"]).await;
    for id in ["near", "far"] {
        until_it_waits_for(&dev, id, "paid").await;
    }
    let far = async |args: &[&str]| {
        let variables = [("TRIAD_URL", dev.console.as_str())];
        triad(args, &variables, b"").await
    };
    for (order, event, input) in [
        ("none", "paid", "{}"),
        ("near", "payed", "{}"),
        ("near", "a b", "{}"),
        ("near", "paid", "{"),
    ] {
        let args = ["signal", order, event, "--input", input];
        let (here, there): (Ran, Ran) = (dev.triad(&args).await, far(&args).await);
        assert_ne!(here.code, 0, "{here:?}");
        assert_eq!(
            (here.code, &here.out),
            (there.code, &there.out),
            "{there:?}"
        );
        assert_eq!(here.err, there.err, "{args:?}");
    }
    let sent = dev.triad(&["signal", "near", "paid", "--json"]).await;
    let sent = sent.good().json_lines();
    assert_eq!(sent[0]["is_repeated"], false, "{sent:?}");
    let _ = far(&["signal", "far", "paid"]).await.good();
    let ended = dev.all_finished(2).await;
    assert!(
        ended.iter().all(|order| order["state"] == "Processed"),
        "{ended:?}"
    );
}
