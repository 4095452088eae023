//! Orders that start later: the example of a subscription, each of whose orders submits the next one.

use std::path::Path;

use serde_json::{Value, json};
use triad_tests::dev::Dev;
use triad_tests::poll::until;
use triad_tests::project::free_port;

#[tokio::test]
async fn a_subscription_renews_until_it_is_cancelled_or_its_card_expires() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let project = root.join("examples/subscription");
    let port = free_port();
    let triad = format!("triad=http://127.0.0.1:{port}");
    let at = project.display().to_string();
    let dev = Dev::start(&[
        "--project",
        &at,
        "--console-port",
        &port.to_string(),
        "--agent",
        &triad,
    ])
    .await;
    dev.submit(&project.join("orders.jsonl")).await;
    let shown = async |id: &str| -> Value {
        let shown = dev.triad(&["get", id, "--json"]).await;
        serde_json::from_str(&shown.out).unwrap_or_default()
    };
    let ends = async |id: &str, state: &str| -> Value {
        until(&format!("{id} is {state}"), async || {
            let order = shown(id).await;
            (order["state"] == state).then_some(order)
        })
        .await
    };
    ends("S-1.1", "Processed").await;
    let next = ends("S-1.2", "Pending").await;
    assert_eq!(next["start_at"], "2027-11-01T00:00:00.000Z");
    assert_eq!(
        (&next["attempts"], &next["locked_by"]),
        (&json!(0), &Value::Null)
    );
    let listed = dev.triad(&["list"]).await.good().out;
    assert!(listed.contains("its start, 2027-11-01"), "{listed}");

    // The customer cancels: nothing is asked for, and nothing that was paid is given back.
    let cancelled = triad_tests::http::client()
        .post(format!("http://127.0.0.1:{port}/v1/orders/S-1.2/cancel"))
        .header("content-type", "application/json")
        .body(r#"{"why": "moved away"}"#)
        .send()
        .await
        .expect("it answers");
    assert_eq!(cancelled.status().as_u16(), 202);
    let cancelled = ends("S-1.2", "Compensated").await;
    assert_eq!(cancelled["attempts"], 0);

    // The card expires: the second period is not charged, and there is no third.
    ends("S-2.1", "Processed").await;
    let expired = ends("S-2.2", "Compensated").await;
    assert_eq!(expired["failure"]["code"], "card-expired");
    assert_eq!(shown("S-2.3").await, Value::Null);

    // A period of a century is refused, and what was charged is given back.
    let refused = ends("S-3.1", "Compensated").await;
    assert_eq!(refused["failure"]["code"], "start-at");
    assert_eq!(refused["steps"][0]["state"], "compensated");
}
