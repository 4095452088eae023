//! Orders that run others: the example of order lines, with the line that fails for good, and what operators do to it.

use std::path::Path;

use serde_json::{Value, json};
use triad_tests::dev::Dev;
use triad_tests::orders::{Files, lines};
use triad_tests::poll::until;

/// A file of the example, by its name.
fn example(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("examples/order-lines")
        .join(name)
        .display()
        .to_string()
}

fn state<'a>(orders: &'a [Value], id: &str) -> &'a str {
    let order = orders.iter().find(|order| order["order_id"] == id);
    order.expect(id)["state"].as_str().expect("a state")
}

/// The orders whose ids begin so, once all of them have ended.
async fn ended(dev: &Dev, count: usize) -> Vec<Value> {
    dev.all_finished(count).await
}

#[tokio::test]
async fn each_line_is_done_by_itself_and_one_that_fails_has_the_others_compensated() {
    let files = ["--workflow", &example("parcels.yaml"), "--workflow"].map(str::to_owned);
    let files = [&files[..], &[example("invoice.yaml")]].concat();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let dev = Dev::start(&files).await;
    dev.submit(Path::new(&example("orders.jsonl"))).await;
    // Three orders, 40 and 9 lines, and the invoices of the first two.
    let all = ended(&dev, 3 + 40 + 9 + 2).await;
    let states = ["L-1", "L-2", "L-3"].map(|id| state(&all, id));
    assert_eq!(states, ["Processed", "Processed", "Compensated"]);
    let of_lines = |id: &str, wanted: &str| {
        let is_line = |o: &&Value| o["order_id"].as_str().is_some_and(|o| o.starts_with(id));
        all.iter()
            .filter(is_line)
            .filter(|o| o["state"] == wanted)
            .count()
    };
    assert_eq!(of_lines("L-1:ship:", "Processed"), 40);
    assert_eq!(of_lines("L-3:ship:", "Compensated"), 9);
    assert_eq!(of_lines("L-2:invoice", "Processed"), 1);
    let total = dev.ledger().await.summary.total;
    // Of L-3 nothing is left: the amount, and what was done for the other lines until the one without a sku failed.
    let done = 2 * 3 + 2 * 40;
    assert_eq!(total.applied, done + total.compensated);
    assert!(
        (1..=17).contains(&total.compensated),
        "{}",
        total.compensated
    );
    let shown = dev.triad(&["get", "L-3"]).await.good().out;
    assert!(
        shown.contains("L-3:ship:6"),
        "the line that failed is named: {shown}"
    );
    let invoice = dev
        .triad(&["get", "L-1:invoice", "--inputs"])
        .await
        .good()
        .out;
    assert!(invoice.contains("40"), "the number of parcels: {invoice}");
}

/// `paid` waits in a child order, so that the parent can be cancelled meanwhile.
const NESTED: [(&str, &str); 2] = [
    (
        "outer.yaml",
        "workflow: outer
steps:
  - {id: hold, agent: stock, action: hold, compensation: {action: free}}
  - {id: inner, run: {workflow: inner, details: {n: 1}}}
",
    ),
    (
        "inner.yaml",
        "workflow: inner
output: { sum: \"${details.n + 1}\" }
steps:
  - {id: book, agent: stock, action: book, compensation: {action: unbook}}
  - {id: paid, await: {event: paid, within: 1h}}
",
    ),
];

#[tokio::test]
async fn a_cancel_goes_down_and_what_is_done_below_goes_up() {
    let files = Files::new();
    let [outer, inner] = NESTED.map(|(name, text)| files.write(name, text));
    let orders = ["1", "2"].map(|id| json!({"order_id": id, "workflow": "outer", "details": {}}));
    let orders = files.write("orders.jsonl", &lines(&orders));
    let dev = Dev::start(&["--workflow", &outer, "--workflow", &inner]).await;
    dev.submit(Path::new(&orders)).await;
    for id in ["1:inner", "2:inner"] {
        until("the child order waits", async || {
            let shown = dev.triad(&["get", id]).await.out;
            shown.contains("paid").then_some(())
        })
        .await;
    }
    let cancelled = dev
        .triad(&["cancel", "1", "--why", "changed", "--by", "ann"])
        .await;
    assert_eq!(cancelled.code, 0, "{}", cancelled.err);
    let sent = dev.triad(&["signal", "2:inner", "paid"]).await;
    assert_eq!(sent.code, 0, "{}", sent.err);
    let all = ended(&dev, 4).await;
    let states = ["1", "1:inner", "2", "2:inner"].map(|id| state(&all, id));
    let back = "Compensated";
    assert_eq!(states, [back, back, "Processed", "Processed"]);
    let shown = dev.triad(&["get", "2", "--json"]).await.good().out;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let steps = shown["steps"].as_array().expect("steps");
    assert_eq!(steps[1]["output"], json!({"sum": 2}));
    let total = dev.ledger().await.summary.total;
    assert_eq!((total.applied, total.compensated), (4, 2));
    let again = dev
        .triad(&["resubmit", "1:inner", "--why", "no", "--by", "ann"])
        .await;
    assert_ne!(again.code, 0, "its parent is to be resubmitted");
}
