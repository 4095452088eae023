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
use triad_tests::guide::follow;
use triad_tests::orders::Files;

const PAGE: &str = include_str!("../../../docs/how-to/describe-a-service.md");

/// The file that the page has its reader make.
fn file(name: &str) -> String {
    let (_, rest) = PAGE.split_once(&format!("+++ {name}\n")).expect(name);
    let (lines, _) = rest.split_once("```").expect("its end");
    let lines = lines
        .lines()
        .map(|line| line.strip_prefix('+').expect("a new line"));
    lines.map(|line| format!("{line}\n")).collect()
}

/// The description that the page has its reader write by hand.
fn by_hand() -> String {
    let (_, rest) = PAGE.split_once("```yaml unrun\n").expect("a description");
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
    if form.contains("source=tok_declined") {
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
    let answer = json!({"id": id, "object": "charge", "amount": 1990, "currency": "eur", "status": "succeeded", "receipt": receipt});
    (StatusCode::CREATED, axum::Json(answer)).into_response()
}

async fn refund(State(payments): State<Arc<Payments>>, Path(charge): Path<String>) -> Response {
    payments.refunds.lock().unwrap().push(charge.clone());
    axum::Json(json!({"id": "re_1", "amount": 1990, "charge": charge})).into_response()
}

async fn start() -> (SocketAddr, Arc<Payments>) {
    let payments = Arc::new(Payments::default());
    let router = Router::new()
        .route("/v1/charges", post(charge))
        .route("/v1/charges/{charge}/refunds", post(refund))
        .with_state(payments.clone());
    let address = triad_tests::http::serve(router).await;
    (address, payments)
}

#[tokio::test]
async fn who_describes_a_service_by_hand_as_the_guide_does_has_a_finished_order() {
    let (address, payments) = start().await;
    let files = Files::new();
    let workflow = files.write("pay.yaml", &file("pay.yaml"));
    std::fs::create_dir(files.path("agents")).expect("a folder");
    let description = by_hand();
    let description = files.write("agents/payment.yaml", &description);
    let good = file("orders.jsonl");
    let declined = json!({"order_id": "P-2", "workflow": "pay", "details": {"cents": 13, "card": "tok_declined"}});
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
    let keys: Vec<String> = payments.charges.lock().unwrap().keys().cloned().collect();
    assert!(keys.iter().all(|key| key.len() == 36), "UUIDs: {keys:?}");
    let charges: Vec<(String, String)> =
        payments.charges.lock().unwrap().values().cloned().collect();
    let form = "amount=1990&currency=eur&metadata%5Border%5D=P-1&source=tok_visa".to_owned();
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
    let description = by_hand();
    files.write("agents/payment.yaml", &description);
    // A second charge that is always declined: the first one is refunded by the id that was kept.
    let second = "  - id: again\n    agent: payment\n    action: charge\n    input: { source: tok_declined }\n    compensation: none\n";
    let page = file("pay.yaml");
    let workflow = files.write("pay.yaml", &format!("{page}{second}"));
    let orders = files.write("orders.jsonl", &file("orders.jsonl"));
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

#[tokio::test]
async fn who_follows_the_guide_from_an_openapi_file_has_a_finished_order() {
    let (address, payments) = start().await;
    follow_with(&address.to_string()).await;
    let charges = payments.charges.lock().unwrap();
    let keys: Vec<&str> = charges.keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        ["P-1/charge/forward", "try-1"],
        "what is played calls nothing"
    );
    assert_eq!(*payments.refunds.lock().unwrap(), ["ch_1"]);
}

#[tokio::test]
async fn the_guide_can_be_followed_with_the_stand_in_that_it_names() {
    let (_service, address) = super::described_examples::start("payments", &[]).await;
    follow_with(address.trim_start_matches("http://")).await;
}

/// Follows the page with a service at this address.
async fn follow_with(address: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let work = dir.path().join("work");
    std::fs::create_dir(&work).expect("a folder");
    let openapi = include_str!("../../../examples/services/payments/openapi.yaml");
    std::fs::write(work.join("openapi.yaml"), openapi).expect("a file");
    let page = PAGE.replace("127.0.0.1:8080", address);
    let followed = follow(&page, dir.path(), false).await;
    let differences = followed.differences.join("\n");
    assert!(differences.is_empty(), "{differences}");
    assert_eq!((followed.commands, followed.changes), (7, 3));
}

#[tokio::test]
async fn a_call_shows_what_is_sent_and_what_is_made_of_the_answer_and_no_secret() {
    let (address, payments) = start().await;
    let files = Files::new();
    std::fs::create_dir(files.path("agents")).expect("a folder");
    let description = files.write("agents/payment.yaml", &by_hand());
    let settings = json!({"payment": {"base_url": format!("http://u:not-a-real-word@{address}/?k=query-secret"),
        "headers": {"x-key": "header-secret"}, "auth": {"bearer": {"env": "PAY_TOKEN"}}}});
    let variables = [
        ("TRIAD_AGENTS", settings.to_string()),
        ("PAY_TOKEN", "token-secret".to_owned()),
    ];
    let variables: Vec<(&str, &str)> = variables.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let project = files.arg("");
    let call = async |action: &str, input: &str, more: &[&str]| {
        let mut arguments = vec!["agent", "call", "payment", action, "--input", input];
        arguments.extend(["--service", &description, "--project", &project]);
        arguments.extend(more);
        let ran = triad(&arguments, &variables, b"{\"source\": \"tok_visa\"}").await;
        for secret in [
            "not-a-real-word",
            "query-secret",
            "header-secret",
            "token-secret",
        ] {
            assert!(
                !ran.out.contains(secret) && !ran.err.contains(secret),
                "{ran:?}"
            );
        }
        ran
    };
    let ran = call("charge", "-", &["--json", "--key", "k"]).await.good();
    assert!(
        ran.err.contains("a real call, with all its effects"),
        "{ran:?}"
    );
    let said: Value = serde_json::from_str(&ran.out).expect("a line of JSON");
    assert_eq!(said["means"], "done", "{said}");
    assert_eq!(said["output"], json!({"id": "ch_1"}));
    assert_eq!(said["request"]["body"], "source=tok_visa");
    assert_eq!(said["answer"]["status"], 201);

    let refused = call("charge", "{\"source\": \"tok_declined\"}", &[])
        .await
        .ended(1);
    assert!(
        refused.out.contains("Triad: refused") && refused.out.contains("code: card_declined"),
        "{refused:?}"
    );
    let unsent = call("refund", "{}", &["--json"]).await.ended(1);
    let said: Value = serde_json::from_str(&unsent.out).expect("a line of JSON");
    assert_eq!(
        (&said["means"], &said["request"]),
        (&json!("not-sent"), &Value::Null)
    );

    // A file that cannot take the answer is refused before the call is made.
    let charges = || payments.charges.lock().unwrap().len();
    let before = charges();
    let notes = files.write("notes.txt", "mine");
    let input = "{\"source\": \"tok_visa\"}";
    let refused = call("charge", input, &["--key", "k2", "--record", &notes])
        .await
        .ended(2);
    assert!(refused.err.contains("name another file"), "{refused:?}");
    assert_eq!(charges(), before);
    // What was answered is shown even if it cannot be written.
    let nowhere = files.arg("none/answers.json");
    let shown = call("charge", input, &["--key", "k2", "--record", &nowhere])
        .await
        .ended(2);
    assert!(shown.out.contains("Triad: done"), "{shown:?}");
    assert!(shown.err.contains("cannot be written"), "{shown:?}");
    assert_eq!(charges(), before + 1);

    // An address on the command line replaces a function, too.
    let of_aws = [("TRIAD_AGENTS", r#"{"payment": {"lambda": "charge"}}"#)];
    let agent = format!("payment=http://{address}");
    let target = ["--service", &description, "--agent", &agent];
    let charge = ["agent", "call", "payment", "charge", "--input", input];
    let ran = triad(&[&charge[..], &target].concat(), &of_aws, b"").await;
    assert!(ran.good().out.contains("Triad: done"));
    assert_eq!(charges(), before + 2);

    for (arguments, wanted) in [
        (
            vec!["charge", "--input", "none.json"],
            "there is no such file",
        ),
        (vec!["charge", "--input", "{"], "is not JSON"),
        (
            vec!["charge", "--agent", "other=http://h"],
            "this command calls agent payment",
        ),
    ] {
        let mut all = vec!["agent", "call", "payment"];
        all.extend(arguments);
        let refused = triad(&all, &variables, b"").await.ended(2);
        assert!(refused.err.contains(wanted), "{refused:?}");
    }
    let refused = triad(&["agent", "call", "payment", "charge"], &[], b"")
        .await
        .ended(2);
    assert!(
        refused
            .err
            .contains("has no address: give --agent payment=URL"),
        "{refused:?}"
    );
}
