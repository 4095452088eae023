//! A service whose first answer is lost, whose second says that it works on the earlier call, and whose good answer is
//! a text. Under each form of the idempotency key an effect happens once, and is compensated once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use serde_json::{Value, json};
use triad_tests::cli::triad;
use triad_tests::orders::Files;

/// Agents, with the `key` of each one's description.
const AGENTS: [(&str, &str); 4] = [
    ("plain", "{}"),
    ("hashed", "{ header: X-Request, form: hash, length: 20 }"),
    ("uuid", "{ form: uuid }"),
    ("field", "{ field: request_id }"),
];

/// How many calls there were, by action and key.
#[derive(Default)]
struct Service(Mutex<BTreeMap<(String, String), u32>>);

impl Service {
    /// Counts a call; returns the number of calls of this action with its key, including this one.
    fn calls(&self, action: &str, headers: &HeaderMap, body: &str) -> u32 {
        let header = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
        let key = header("idempotency-key").or_else(|| header("x-request"));
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        let key = key.or_else(|| body["request_id"].as_str());
        let key = key.expect("every call has a key").to_owned();
        let mut all = self.0.lock().unwrap();
        let calls = all.entry((action.to_owned(), key)).or_default();
        *calls += 1;
        *calls
    }
}

async fn book(State(service): State<Arc<Service>>, headers: HeaderMap, body: String) -> Response {
    match service.calls("book", &headers, &body) {
        // The effect has happened, and the answer is lost.
        1 => StatusCode::GATEWAY_TIMEOUT.into_response(),
        2 => StatusCode::CONFLICT.into_response(),
        _ => "OK".into_response(),
    }
}

/// Answers that there is nothing to cancel any more.
async fn cancel(State(service): State<Arc<Service>>, headers: HeaderMap, body: String) -> Response {
    service.calls("cancel", &headers, &body);
    (StatusCode::GONE, "expired").into_response()
}

async fn refuse() -> Response {
    StatusCode::UNPROCESSABLE_ENTITY.into_response()
}

async fn start() -> (SocketAddr, Arc<Service>) {
    let service = Arc::new(Service::default());
    let router = Router::new()
        .route("/book", post(book))
        .route("/cancel", post(cancel))
        .route("/refuse", post(refuse))
        .with_state(service.clone());
    let address = triad_tests::http::serve(router).await;
    (address, service)
}

#[tokio::test]
async fn a_lost_answer_and_a_409_lead_to_one_effect_under_each_form_of_the_key() {
    let (address, service) = start().await;
    let files = Files::new();
    let mut yaml = "workflow: keys\nagents:\n".to_owned();
    for (agent, key) in AGENTS {
        let absent = "{ status: 410, direction: compensate, means: absent }";
        let description = format!("{{ key: {key}, answers: [{absent}], actions: {{}} }}");
        yaml.push_str(&format!("  {agent}: {description}\n"));
    }
    yaml.push_str("steps:\n");
    for (agent, _) in AGENTS {
        let step = format!("id: {agent}, agent: {agent}, after: [], action: book");
        yaml.push_str(&format!("  - {{ {step}, input: {{ n: 1 }}, compensation: {{ action: cancel, input: {{ n: 1 }} }} }}\n"));
    }
    let all = AGENTS.map(|(agent, _)| agent).join(", ");
    yaml.push_str(&format!(
        "  - {{ id: last, agent: plain, after: [{all}], action: refuse, compensation: none }}\n"
    ));
    let workflow = files.write("keys.yaml", &yaml);
    let order = json!({"order_id": "K-1", "workflow": "keys", "details": {}});
    let orders = files.write("orders.jsonl", &format!("{order}\n"));
    let agents = AGENTS.map(|(agent, _)| format!("{agent}=http://{address}"));
    let mut arguments = vec![
        "dev",
        "--json",
        "--until-done",
        "--workflow",
        &workflow,
        "--orders",
        &orders,
    ];
    for agent in &agents {
        arguments.extend(["--agent", agent]);
    }
    let said = triad(&arguments, &[], b"").await.ended(1).json_lines();
    let summary = &said.last().expect("a summary")["summary"];
    assert_eq!(summary["states"], json!({"Compensated": 1}), "{summary}");
    let calls = service.0.lock().unwrap().clone();
    let of = |action: &str| -> Vec<(&str, u32)> {
        let calls = calls.iter().filter(|((a, _), _)| a == action);
        calls.map(|((_, key), n)| (key.as_str(), *n)).collect()
    };
    // A request may be delivered twice, so there may be more calls, and never another key.
    let (booked, cancelled) = (of("book"), of("cancel"));
    assert!(
        booked.iter().all(|(_, n)| *n >= 3) && booked.len() == 4,
        "{booked:?}"
    );
    assert!(
        cancelled.iter().all(|(_, n)| *n >= 1) && cancelled.len() == 4,
        "{cancelled:?}"
    );
    for (key, _) in booked.iter().chain(&cancelled) {
        let is_uuid = key.len() == 36 && key.bytes().filter(|b| *b == b'-').count() == 4;
        assert!(
            key.starts_with("K-1/") || key.len() == 20 || is_uuid,
            "{key}"
        );
    }
}
