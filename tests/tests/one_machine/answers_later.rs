//! A service that takes work with 202 and finishes it later: asked as the page about waiting has it, at its `Location`, and
//! by its own callback.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::extract::{OriginalUri, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use triad_tests::cli::triad;
use triad_tests::http::client;
use triad_tests::orders::{Files, lines};
use triad_tests::poll::until;

use super::serve::Place;

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
struct Carrier {
    bookings: Mutex<BTreeMap<String, Booking>>,
    /// The URL of each order to call back at.
    callbacks: Mutex<BTreeMap<String, String>>,
}

#[derive(Default, Clone)]
struct Booking {
    city: String,
    asked: u32,
    is_cancelled: bool,
}

async fn book(State(all): State<Arc<Carrier>>, headers: HeaderMap, body: Json<Value>) -> Response {
    let header = |name: &str| headers.get(name).map(|value| value.to_str().expect("text"));
    let order = header("triad-order").expect("the order").to_owned();
    assert_eq!(header("triad-callback-token").expect("a token").len(), 32);
    if let Some(url) = header("triad-callback-url") {
        let mut callbacks = all.callbacks.lock().unwrap();
        callbacks.insert(order.clone(), url.to_owned());
    }
    let number = format!("b-{order}");
    let mut bookings = all.bookings.lock().unwrap();
    let booking = bookings.entry(number.clone()).or_default();
    booking.city = body["city"].as_str().unwrap_or_default().to_owned();
    let location = [("location", format!("/jobs/{number}?of=carrier"))];
    (
        StatusCode::ACCEPTED,
        location,
        Json(json!({"booking": number})),
    )
        .into_response()
}

/// What is known of a booking, and whether it is asked for the last time.
fn looked(all: &Carrier, number: &str) -> &'static str {
    let mut bookings = all.bookings.lock().unwrap();
    let booking = bookings.get_mut(number).expect("it was booked");
    booking.asked += 1;
    match (booking.asked > PENDING, &*booking.city) {
        (false, _) => "pending",
        (true, "Brest") => "failed",
        (true, _) => "done",
    }
}

async fn look(State(all): State<Arc<Carrier>>, Path(number): Path<String>) -> Json<Value> {
    Json(json!({"state": looked(&all, &number)}))
}

/// The same by the status of HTTP.
async fn job(
    State(all): State<Arc<Carrier>>,
    Path(number): Path<String>,
    OriginalUri(uri): OriginalUri,
) -> Response {
    assert_eq!(uri.query(), Some("of=carrier"));
    match looked(&all, &number) {
        "pending" => StatusCode::ACCEPTED.into_response(),
        state => Json(json!({"state": state, "booking": number})).into_response(),
    }
}

async fn cancel(State(all): State<Arc<Carrier>>, Path(number): Path<String>) -> Json<Value> {
    let mut bookings = all.bookings.lock().unwrap();
    bookings
        .get_mut(&number)
        .expect("it was booked")
        .is_cancelled = true;
    Json(json!({}))
}

async fn start() -> (String, Arc<Carrier>) {
    let carrier = Arc::new(Carrier::default());
    let routes = Router::new()
        .route("/bookings", post(book))
        .route("/book", post(book))
        .route("/bookings/{number}", get(look))
        .route("/jobs/{number}", get(job))
        .route("/bookings/{number}/cancel", post(cancel))
        .with_state(Arc::clone(&carrier));
    let address = triad_tests::http::serve(routes).await;
    (format!("http://{address}"), carrier)
}

fn parcel(id: &str, city: &str) -> Value {
    json!({"order_id": id, "workflow": "parcel", "details": {"city": city}})
}

/// Runs orders to Lyon and Brest to their ends; returns the summary.
async fn ran(files: &Files, workflow: &str, carrier: &str) -> Value {
    let orders = lines(&[parcel("1", "Lyon"), parcel("2", "Brest")]);
    let orders = files.write("orders.jsonl", &orders);
    let agent = format!("carrier={carrier}");
    let arguments = [
        "dev",
        "--json",
        "--until-done",
        "--workflow",
        workflow,
        "--agent",
        &agent,
        "--orders",
        &orders,
    ];
    let said = triad(&arguments, &[], b"").await.ended(1).json_lines();
    said.last().expect("a summary")["summary"].clone()
}

#[tokio::test]
async fn a_booking_that_fails_later_is_compensated_and_nobody_is_told_that_all_is_well() {
    let (carrier, all) = start().await;
    let files = Files::new();
    std::fs::create_dir(files.path("agents")).unwrap();
    files.write("agents/carrier.yaml", &block("actions:\n  book:"));
    let workflow = files.write("parcel.yaml", &block("workflow: parcel\n"));
    let summary = ran(&files, &workflow, &carrier).await;
    let states = json!({"Compensated": 1, "Processed": 1});
    assert_eq!(summary["states"], states, "{summary}");
    assert_eq!(
        summary["effects"], 1,
        "only who has a parcel is told: {summary}"
    );
    let bookings = all.bookings.lock().unwrap();
    let ends: Vec<_> = bookings
        .values()
        .map(|b| (&*b.city, b.asked, b.is_cancelled))
        .collect();
    // The carrier says that it has failed, so there is nothing to cancel.
    assert_eq!(
        ends,
        [("Lyon", PENDING + 1, false), ("Brest", PENDING + 1, false)]
    );
}

/// A workflow whose carrier speaks the contract, with these lines about its end.
fn undescribed(finishes_later: &str) -> String {
    format!(
        "workflow: parcel\nsteps:\n  - id: book\n    agent: carrier\n    action: book\n    \
         input: {{ city: \"${{details.city}}\" }}\n    finishes_later: {finishes_later}\n    compensation: none\n"
    )
}

#[tokio::test]
async fn a_carrier_is_asked_at_the_location_that_it_names() {
    let (carrier, all) = start().await;
    let files = Files::new();
    let workflow = undescribed("{ within: 1h, poll: { every: 100ms } }");
    let workflow = files.write("parcel.yaml", &workflow);
    let orders = files.write("orders.jsonl", &lines(&[parcel("1", "Lyon")]));
    let agent = format!("carrier={carrier}");
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
    let said = triad(&arguments, &[], b"").await.good().json_lines();
    let summary = &said.last().expect("a summary")["summary"];
    assert_eq!(summary["states"], json!({"Processed": 1}), "{summary}");
    assert_eq!(all.bookings.lock().unwrap()["b-1"].asked, PENDING + 1);
}

#[tokio::test]
async fn a_carrier_calls_back_and_whoever_has_no_token_of_the_order_changes_nothing() {
    let (carrier, all) = start().await;
    let place = Place::new().await;
    let later = "{ within: 1h, heartbeat: 30m, fails_when: \"event.state == 'failed'\" }";
    place.files.write("flows/parcel.yaml", &undescribed(later));
    // The address of the server is known once it has started.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let http = format!("127.0.0.1:{port}");
    let own = json!({"base_url": carrier, "callback_url": format!("http://{http}")});
    let mut agents = place.agents();
    agents["carrier"] = own;
    place.configure(&json!({"agents": agents, "http": http}));
    let serve = place.serve().await;
    let kind = "application/json";
    for id in ["1", "2", "3"] {
        let order = parcel(id, "Lyon").to_string();
        assert_eq!(serve.post("/v1/orders", kind, order).await.0, 201);
    }
    let url = async |id: &str| {
        until("the carrier is called", async || {
            all.callbacks.lock().unwrap().get(id).cloned()
        })
        .await
    };
    let said = async |url: &str, body: Value| {
        let answer = client().post(url).body(body.to_string()).send();
        let answer = answer.await.expect("an answer");
        let status = answer.status().as_u16();
        let body: Value =
            serde_json::from_slice(&answer.bytes().await.expect("a body")).expect("JSON");
        (status, body["code"].as_str().unwrap_or_default().to_owned())
    };
    let (first, second) = (url("1").await, url("2").await);
    assert!(
        first.starts_with(&format!("http://{http}/v1/orders/1/steps/book?token=")),
        "{first}"
    );
    let (at, token) = first.split_once("?token=").expect("a token");
    let (_, other) = second.split_once("?token=").expect("a token");
    for (wrong, is) in [
        (format!("{at}?token={other}"), (403, "wrong-token")),
        (format!("{at}?token="), (403, "wrong-token")),
        (at.to_owned(), (401, "no-token")),
        (
            format!("http://{http}/v1/orders/9/steps/book?token={token}"),
            (404, "no-such-order"),
        ),
        (
            format!("http://{http}/v1/orders/1/steps/none?token={token}"),
            (403, "wrong-token"),
        ),
    ] {
        let answer = said(&wrong, json!({"state": "done"})).await;
        assert_eq!((answer.0, answer.1.as_str()), is, "{wrong}");
    }
    let large = json!({"label": "x".repeat(9_000)});
    assert_eq!(said(&first, large).await, (422, "too-large".to_owned()));
    let beat = format!("{at}/heartbeat?token={token}");
    assert_eq!(said(&beat, Value::Null).await.0, 202);
    assert_eq!(
        said(&first, json!({"state": "done", "parcel": "p-1"}))
            .await
            .0,
        202
    );
    let done = serve.finished("1").await;
    assert_eq!(done["state"], "Processed", "{done}");
    let output = &done["steps"][0]["output"];
    assert_eq!(*output, json!({"state": "done", "parcel": "p-1"}), "{done}");
    assert_eq!(said(&first, json!({"state": "done"})).await.0, 200, "again");
    assert_eq!(said(&second, json!({"state": "failed"})).await.0, 202);
    let failed = serve.finished("2").await;
    assert_eq!(failed["state"], "Compensated", "{failed}");
    let late = said(&second, json!({"state": "done"})).await;
    assert_eq!(late, (409, "callback-too-late".to_owned()));
    // The third one waits on, and says for what.
    let order = serve.get("3").await.expect("it is there");
    assert_eq!(order["state"], "Processing", "{order}");
    assert!(
        !order
            .to_string()
            .contains(url("3").await.split_once("token=").unwrap().1)
    );
    serve.stop().await;
}
