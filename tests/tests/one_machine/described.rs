//! A service that does not speak the contract, described as the guide describes it: the files are those of the page.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use serde_json::{Value, json};
use triad_tests::cli::triad;
use triad_tests::orders::Files;

const PAGE: &str = include_str!("../../../docs/how-to/describe-a-service.md");

/// The text of the first fenced block of this kind after a line with this text.
fn block(after: &str, kind: &str) -> String {
    let (_, rest) = PAGE.split_once(after).expect(after);
    let (_, rest) = rest.split_once(&format!("```{kind}\n")).expect(kind);
    rest.split_once("```").expect("its end").0.to_owned()
}

/// A payment API as its users know it: forms in, objects out, 200 for a refusal too, and its own ids.
#[derive(Default)]
struct Payments {
    /// The charges by their idempotency key: id and form.
    charges: Mutex<BTreeMap<String, (String, String)>>,
    refunds: Mutex<Vec<String>>,
}

async fn charge(
    State(payments): State<Arc<Payments>>,
    headers: HeaderMap,
    form: String,
) -> Response {
    let header = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
    let (Some(key), Some("application/x-www-form-urlencoded")) =
        (header("idempotency-key"), header("content-type"))
    else {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response();
    };
    assert_eq!(key.len(), 36, "the key is a UUID: {key}");
    if form.contains("amount=13.00") {
        let refused =
            json!({"object": "charge", "status": "failed", "error": {"code": "card_declined"}});
        return axum::Json(refused).into_response();
    }
    let mut charges = payments.charges.lock().unwrap();
    let number = charges.len() + 1;
    let charge = charges.entry(key.to_owned());
    let (id, _) = charge.or_insert_with(|| (format!("ch_{number}"), form));
    // Far more than a step keeps.
    let receipt = "x".repeat(50_000);
    let answer = json!({"id": id, "object": "charge", "status": "succeeded", "receipt": receipt});
    (StatusCode::CREATED, axum::Json(answer)).into_response()
}

async fn refund(State(payments): State<Arc<Payments>>, Path(charge): Path<String>) -> Response {
    payments.refunds.lock().unwrap().push(charge);
    axum::Json(json!({"object": "refund"})).into_response()
}

async fn start() -> (SocketAddr, Arc<Payments>) {
    let payments = Arc::new(Payments::default());
    let router = Router::new()
        .route("/v1/charges", post(charge))
        .route("/v1/charges/{charge}/refunds", post(refund))
        .with_state(payments.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, payments)
}

#[tokio::test]
async fn who_describes_a_service_as_the_guide_does_has_a_finished_order() {
    let (address, payments) = start().await;
    let files = Files::new();
    let workflow = files.write("pay.yaml", &block("`pay.yaml`:", "yaml"));
    std::fs::create_dir(files.path("agents")).expect("a folder");
    let description = block("`agents/payment.yaml` beside", "yaml");
    let description = files.write("agents/payment.yaml", &description);
    let good = block("in `orders.jsonl`:", "json");
    let declined = json!({"order_id": "P-2", "workflow": "pay", "details": {"amount": 13}});
    let orders = files.write("orders.jsonl", &format!("{}\n{declined}\n", good.trim()));

    let sound = triad(&["validate", &workflow, &description], &[], b"")
        .await
        .good();
    assert!(
        sound.out.contains("a description of a service, is sound"),
        "{sound:?}"
    );

    let agent = format!("payment=http://{address}");
    let arguments = [
        "dev",
        "--json",
        "--until-done",
        "--workflow",
        &workflow,
        "--orders",
        &orders,
        "--agent",
        &agent,
    ];
    let said = triad(&arguments, &[], b"").await.ended(1).json_lines();
    let summary = &said.last().expect("a summary")["summary"];
    assert_eq!(
        summary["states"],
        json!({"Processed": 1, "Compensated": 1}),
        "{summary}"
    );
    let badly = &summary["ended_badly"][0];
    assert_eq!(badly["cause"], "permanent/charge/card_declined", "{badly}");
    let charges: Vec<(String, String)> =
        payments.charges.lock().unwrap().values().cloned().collect();
    let form = "amount=19.90&order=P-1".to_owned();
    assert_eq!(charges, [("ch_1".to_owned(), form)]);
    assert_eq!(
        payments.refunds.lock().unwrap().len(),
        0,
        "a refusal has no effect"
    );
}

#[tokio::test]
async fn what_is_compensated_reads_what_was_kept_and_a_mistake_has_its_place() {
    let (address, payments) = start().await;
    let files = Files::new();
    std::fs::create_dir(files.path("agents")).expect("a folder");
    let description = block("`agents/payment.yaml` beside", "yaml");
    files.write("agents/payment.yaml", &description);
    // A second charge that is always declined: the first one is refunded by the id that was kept.
    let second = "  - id: again\n    agent: payment\n    action: charge\n    input: { amount: \"13.00\", order: x }\n    compensation: none\n";
    let page = block("`pay.yaml`:", "yaml");
    let workflow = files.write("pay.yaml", &format!("{page}{second}"));
    let orders = files.write("orders.jsonl", &block("in `orders.jsonl`:", "json"));
    let agent = format!("payment=http://{address}");
    let arguments = [
        "dev",
        "--json",
        "--until-done",
        "--workflow",
        &workflow,
        "--orders",
        &orders,
        "--agent",
        &agent,
    ];
    let said = triad(&arguments, &[], b"").await.ended(1).json_lines();
    let summary: &Value = &said.last().expect("a summary")["summary"];
    assert_eq!(summary["states"], json!({"Compensated": 1}), "{summary}");
    assert_eq!(*payments.refunds.lock().unwrap(), ["ch_1"]);

    // What is not kept cannot be read, and a path that is none is named with its place in its own file.
    let reads = page.replace("output.id", "output.status");
    let wrong = files.write("reads.yaml", &reads);
    let told = triad(&["validate", &wrong], &[], b"").await.ended(2);
    assert!(
        told.err.contains("reads.yaml:7") && told.err.contains("`output` has no field `status`"),
        "{told:?}"
    );
    files.write(
        "agents/payment.yaml",
        &description.replace("path: /v1/charges\n", "path: v1/charges\n"),
    );
    let told = triad(&["validate", &workflow], &[], b"").await.ended(2);
    assert!(
        told.err.contains("payment.yaml:6:11") && told.err.contains("begins with one `/`"),
        "{told:?}"
    );
}
