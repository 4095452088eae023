//! A service that takes work with 202 and does it later, asked as the page about waiting does: the files are the page's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use triad_tests::cli::triad;
use triad_tests::orders::{Files, lines};

const PAGE: &str = include_str!("../../../docs/how-to/wait.md");
/// How often a booking is asked for before it is made.
const PENDING: u32 = 2;

/// The block of the page that begins with a line.
fn block(first: &str) -> String {
    let (_, rest) = PAGE.split_once(&format!("```yaml\n{first}")).expect(first);
    format!("{first}{}", rest.split_once("```").expect("its end").0)
}

/// A carrier that has no courier in Brest.
#[derive(Default)]
struct Carrier(Mutex<BTreeMap<String, Booking>>);

#[derive(Default)]
struct Booking {
    city: String,
    asked: u32,
    is_cancelled: bool,
}

async fn book(State(all): State<Arc<Carrier>>, headers: HeaderMap, body: Json<Value>) -> Response {
    let key = headers.get("triad-order").expect("the order");
    let number = format!("b-{}", key.to_str().expect("text"));
    let mut all = all.0.lock().unwrap();
    let booking = all.entry(number.clone()).or_default();
    booking.city = body["city"].as_str().expect("a city").to_owned();
    (StatusCode::ACCEPTED, Json(json!({"booking": number}))).into_response()
}

async fn look(State(all): State<Arc<Carrier>>, Path(number): Path<String>) -> Json<Value> {
    let mut all = all.0.lock().unwrap();
    let booking = all.get_mut(&number).expect("it was booked");
    booking.asked += 1;
    let state = match (booking.asked > PENDING, &*booking.city) {
        (false, _) => "pending",
        (true, "Brest") => "failed",
        (true, _) => "done",
    };
    Json(json!({"state": state}))
}

async fn cancel(State(all): State<Arc<Carrier>>, Path(number): Path<String>) -> Json<Value> {
    let mut all = all.0.lock().unwrap();
    all.get_mut(&number).expect("it was booked").is_cancelled = true;
    Json(json!({}))
}

#[tokio::test]
async fn a_booking_that_fails_later_is_compensated_and_nobody_is_told_that_all_is_well() {
    let carrier = Arc::new(Carrier::default());
    let routes = Router::new()
        .route("/bookings", post(book))
        .route("/bookings/{number}", get(look))
        .route("/bookings/{number}/cancel", post(cancel))
        .with_state(Arc::clone(&carrier));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let agent = format!("carrier=http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move { axum::serve(listener, routes).await });
    let files = Files::new();
    std::fs::create_dir(files.path("agents")).unwrap();
    files.write("agents/carrier.yaml", &block("actions:\n  book:"));
    let workflow = files.write("parcel.yaml", &block("workflow: parcel\n"));
    let order = |id: &str, city: &str| json!({"order_id": id, "workflow": "parcel", "details": {"city": city}});
    let orders = lines(&[order("1", "Lyon"), order("2", "Brest")]);
    let orders = files.write("orders.jsonl", &orders);
    let arguments = [
        "dev",
        "--json",
        "--until-done",
        "--workflow",
        &workflow,
        "--agent",
        &agent,
        "--orders",
        &orders,
    ];
    let said = triad(&arguments, &[], b"").await.ended(1).json_lines();
    serving.abort();
    let summary = &said.last().expect("a summary")["summary"];
    assert_eq!(
        summary["states"],
        json!({"Compensated": 1, "Processed": 1}),
        "{summary}"
    );
    assert_eq!(
        summary["effects"], 1,
        "only who has a parcel is told: {summary}"
    );
    let all = carrier.0.lock().unwrap();
    let ends: Vec<_> = all
        .values()
        .map(|b| (&*b.city, b.asked, b.is_cancelled))
        .collect();
    assert_eq!(
        ends,
        [("Lyon", PENDING + 1, false), ("Brest", PENDING + 1, true)]
    );
}
