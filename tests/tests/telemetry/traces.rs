//! Traces of orders: `triad serve` sends its spans to an OTLP receiver in the test.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode as SpanStatus;
use prost::Message;
use serde_json::{Value, json};
use triad_core::{OrderId, TraceContext};
use triad_tests::cli::triad;
use triad_tests::http::client;
use triad_tests::poll::until;

use crate::one_machine::serve::{Place, Serve};

/// A secret value in orders that must not occur in any span.
const SECRET: &str = "nobody-may-see-this";

const TRIP: &str = "
workflow: trip
defaults:
  attempt_timeout: 8s
  retry: { calls_per_attempt: 1, initial: 10ms, max: 20ms }
  supervisor: { failure_threshold: 4 }
steps:
  - id: flight
    agent: airline
    action: book
    input: { to: '${details.to}' }
    compensation: { action: cancel }
  - id: hotel
    agent: hotel
    action: reserve
    after: [flight]
    input: { guest: '${details.to}' }
    compensation: { action: release }
";

/// An OTLP receiver that keeps the spans.
#[derive(Clone, Default)]
pub(crate) struct Collector {
    spans: Arc<Mutex<Vec<Span>>>,
    pub(crate) services: Arc<Mutex<BTreeSet<String>>>,
    keys: Arc<Mutex<BTreeSet<String>>>,
}

impl Collector {
    pub(crate) async fn start() -> (Self, String) {
        let collector = Self::default();
        let router = Router::new()
            .route("/v1/traces", post(Self::take))
            .with_state(collector.clone());
        (collector, listen(router).await)
    }

    async fn take(State(this): State<Self>, headers: HeaderMap, body: Bytes) -> StatusCode {
        let key = headers.get("x-key").and_then(|value| value.to_str().ok());
        let key = key.unwrap_or("none").to_owned();
        this.keys.lock().expect("no panic").insert(key);
        let request = ExportTraceServiceRequest::decode(body).expect("it is OTLP");
        for resource in request.resource_spans {
            let said = resource.resource.expect("a resource").attributes;
            let name = said.iter().find(|a| a.key == "service.name");
            let name = text(&name.expect("a name").value);
            this.services.lock().expect("no panic").insert(name);
            let spans = resource.scope_spans.into_iter().flat_map(|s| s.spans);
            this.spans.lock().expect("no panic").extend(spans);
        }
        StatusCode::OK
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.spans.lock().expect("no panic").clone()
    }
}

async fn listen(router: Router) -> String {
    let address = triad_tests::http::serve(router).await;
    format!("http://{address}")
}

fn text(value: &Option<opentelemetry_proto::tonic::common::v1::AnyValue>) -> String {
    match value.as_ref().and_then(|v| v.value.as_ref()) {
        Some(AnyValue::StringValue(text)) => text.clone(),
        Some(AnyValue::IntValue(number)) => number.to_string(),
        other => panic!("{other:?} is neither a text nor a number"),
    }
}

pub(crate) fn said(span: &Span) -> BTreeMap<&str, String> {
    let all = span.attributes.iter();
    all.map(|a| (a.key.as_str(), text(&a.value))).collect()
}

fn is_error(span: &Span) -> bool {
    let status = span.status.as_ref();
    status.is_some_and(|status| status.code() == SpanStatus::Error)
}

/// A remote service that gives each action's answers in turn (the last one repeatedly), and keeps the trace contexts
/// of its calls.
#[derive(Clone)]
struct Service {
    answers: Arc<Mutex<HashMap<&'static str, Vec<u16>>>>,
    called_by: Arc<Mutex<Vec<TraceContext>>>,
}

impl Service {
    async fn start(answers: &[(&'static str, &[u16])]) -> (Self, String) {
        let answers = answers.iter().map(|(action, all)| {
            let all: Vec<u16> = all.iter().rev().copied().collect();
            (*action, all)
        });
        let service = Self {
            answers: Arc::new(Mutex::new(answers.collect())),
            called_by: Arc::default(),
        };
        let router = Router::new()
            .route("/{agent}/{action}", post(Self::answer))
            .with_state(service.clone());
        (service, listen(router).await)
    }

    async fn answer(
        State(this): State<Self>,
        Path((_, action)): Path<(String, String)>,
        headers: HeaderMap,
    ) -> Response {
        let header = headers.get("traceparent").expect("every call has one");
        let caller = TraceContext::parse(header.to_str().expect("text")).expect("a context");
        this.called_by.lock().expect("no panic").push(caller);
        let mut answers = this.answers.lock().expect("no panic");
        let status = match answers.get_mut(action.as_str()) {
            Some(all) if all.len() > 1 => all.pop().expect("there is more than one"),
            Some(all) => all[0],
            None => 200,
        };
        let status = StatusCode::from_u16(status).expect("a status");
        match status {
            StatusCode::TOO_MANY_REQUESTS => (status, [("retry-after", "1")], "{}").into_response(),
            status => (status, "{}").into_response(),
        }
    }
}

/// Starts a `triad serve` with this service, this endpoint for spans, and this sampling rate.
async fn serve(service: &str, endpoint: &str, sample: f64) -> (Place, Serve) {
    let place = Place::new().await;
    place.files.write("flows/trip.yaml", TRIP);
    let agent = |name| {
        json!({
            "base_url": format!("{}/{name}?key={SECRET}", service.replace("://", &format!("://user:{SECRET}@"))),
            "headers": {"x-secret": SECRET},
            "breaker": {"open": "300ms"},
        })
    };
    place.configure(&json!({
        "agents": {"airline": agent("airline"), "hotel": agent("hotel")},
        "workflows": ["flows/trip.yaml"],
        "sweep_every": "100ms",
        "traces": {"endpoint": endpoint, "headers": {"x-key": "k,1"}, "sample": sample},
    }));
    let serve = place.serve().await;
    (place, serve)
}

fn trip(id: &str) -> Value {
    json!({"order_id": id, "workflow": "trip", "details": {"to": SECRET}})
}

/// Submits an order and waits for its end; returns the name of its state.
async fn ended(serve: &Serve, order: &Value) -> Value {
    let body = order.to_string();
    let (status, body) = serve
        .post("/v1/orders?wait=30s", "application/json", body)
        .await;
    assert_eq!(status, 201, "{body}");
    serde_json::from_str::<Value>(&body).expect("JSON")["order"]["state"].clone()
}

/// The roots, and all spans by name, after checking each trace: one root, no missing parent, no id twice, no link
/// without a target, no secret.
pub(crate) fn tree(spans: &[Span]) -> (Vec<&Span>, BTreeMap<&str, Vec<&Span>>) {
    let mut ids: BTreeMap<Vec<u8>, &Span> = BTreeMap::new();
    for span in spans {
        let Some(told) = ids.insert(span.span_id.clone(), span) else {
            continue;
        };
        // A process that cannot know whether it has sent a message sends it again, as the same span. After a restart
        // the consequences of such a message are reported twice as well.
        assert_eq!((&told.name, told.kind()), (&span.name, span.kind()));
        assert!(matches!(
            span.kind(),
            SpanKind::Producer | SpanKind::Consumer
        ));
        let message = |span| said(span).remove("messaging.message.id");
        assert_eq!(message(told), message(span), "every id is of one span");
    }
    let traces: BTreeSet<_> = spans.iter().map(|s| s.trace_id.clone()).collect();
    assert_eq!(traces.len(), 1, "one trace");
    let has_parent = |s: &&Span| ids.contains_key(&s.parent_span_id);
    let roots: Vec<&Span> = spans.iter().filter(|s| !has_parent(s)).collect();
    let mut by_name: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    for span in spans {
        by_name.entry(&span.name).or_default().push(span);
        for link in &span.links {
            assert!(
                ids.contains_key(&link.span_id),
                "{} links to nowhere",
                span.name
            );
        }
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
        assert!(!format!("{span:?}").contains(SECRET), "{span:?}");
    }
    for all in by_name.values_mut() {
        all.sort_by_key(|span| span.start_time_unix_nano);
    }
    (roots, by_name)
}

pub(crate) fn values(spans: &[&Span], name: &str) -> Vec<String> {
    let all = spans.iter();
    all.map(|span| said(span).remove(name).unwrap_or_default())
        .collect()
}

#[tokio::test]
async fn an_order_that_was_retried_deferred_and_compensated_is_one_tree() {
    let (collector, endpoint) = Collector::start().await;
    // The first attempt fails with two calls, the second is deferred for a second, the third is refused for good.
    let (service, address) = Service::start(&[("reserve", &[503, 503, 429, 422])]).await;
    let (_place, serve) = serve(&address, &endpoint, 1.0).await;
    assert_eq!(ended(&serve, &trip("t-1")).await, "Compensated");
    serve.stop().await;

    let spans = collector.spans();
    let (roots, by_name) = tree(&spans);
    let own = TraceContext::of_order(&OrderId::new("t-1").expect("an id"));
    assert_eq!(roots.len(), 1, "{roots:#?}");
    let root = roots[0];
    assert_eq!(
        (root.name.as_str(), root.kind()),
        ("submit", SpanKind::Server)
    );
    assert!(root.parent_span_id.is_empty(), "nobody is above it");
    assert_eq!(root.trace_id, own.trace_id().to_be_bytes());
    assert_eq!(root.span_id, own.hop_id().to_be_bytes());

    // The spans of the calls, with the service's answers.
    let calls = &by_name["POST /hotel/reserve"];
    assert_eq!(
        values(calls, "http.response.status_code"),
        ["503", "503", "429", "422"]
    );
    assert!(
        calls
            .iter()
            .all(|call| call.kind() == SpanKind::Client && is_error(call))
    );
    let compensated = &by_name["POST /airline/cancel"];
    assert_eq!(values(compensated, "http.response.status_code"), ["200"]);
    assert_eq!(values(compensated, "triad.direction"), ["compensate"]);
    let url = format!("{address}/airline/cancel");
    assert_eq!(values(compensated, "url.full"), [url]);
    let ids: BTreeSet<_> = spans.iter().map(|s| s.span_id.clone()).collect();
    let called_by = service.called_by.lock().expect("no panic").clone();
    assert!(
        called_by.len() >= 6,
        "a booking, four reservations, what compensates them"
    );
    for caller in called_by {
        assert!(ids.contains(&caller.hop_id().to_be_bytes()[..]), "{caller}");
    }

    // The spans of the three attempts: failed, deferred, refused.
    let attempts = &by_name["attempt agent.hotel"];
    assert!(attempts.iter().all(|a| a.kind() == SpanKind::Consumer));
    let forward = attempts.iter().copied();
    let forward: Vec<&Span> = forward
        .filter(|a| said(a)["triad.direction"] == "forward")
        .collect();
    let mut results = values(&forward, "triad.result");
    results.dedup();
    assert_eq!(results, ["failed", "deferred", "failed"]);
    let numbers: BTreeSet<_> = values(attempts, "triad.attempt").into_iter().collect();
    assert!(numbers.len() >= 3, "{numbers:?}");

    // The span of a new request has links to the earlier attempts.
    let requests = &by_name["send agent.hotel"];
    let requests: BTreeSet<_> = requests.iter().map(|s| s.span_id.clone()).collect();
    let takes_up = |name: &str| {
        let links = by_name[name].iter().flat_map(|span| &span.links);
        links
            .filter(|link| requests.contains(&link.span_id))
            .count()
    };
    assert!(takes_up("sweep") > 0, "sweeps link to attempts");
    assert!(takes_up("take-up scheduler") > 0, "claims link to attempts");

    // The spans between, named by the OpenTelemetry conventions.
    for (name, kind) in [
        ("send scheduler", SpanKind::Producer),
        ("claim scheduler", SpanKind::Consumer),
        ("reply scheduler", SpanKind::Consumer),
        ("send agent.airline", SpanKind::Producer),
        ("send status", SpanKind::Producer),
        ("INSERT", SpanKind::Client),
        ("UPDATE", SpanKind::Client),
    ] {
        let all = &by_name[name];
        assert!(all.iter().all(|span| span.kind() == kind), "{name}");
    }
    assert_eq!(values(&by_name["INSERT"], "db.system.name"), ["sqlite"]);
    let states = values(&by_name["UPDATE"], "triad.order.state");
    assert_eq!(states.last().map(String::as_str), Some("Compensated"));
    let orders = values(attempts, "messaging.message.conversation_id");
    assert!(orders.iter().all(|order| order == "t-1"));
    assert_eq!(
        *collector.services.lock().expect("no panic"),
        ["triad".to_owned()].into()
    );
    assert_eq!(
        *collector.keys.lock().expect("no panic"),
        ["k,1".to_owned()].into()
    );
}

#[tokio::test]
async fn an_operators_act_is_in_the_orders_tree_with_links_to_where_the_order_stood() {
    let (collector, endpoint) = Collector::start().await;
    // The service refuses the hotel, and for now the cancellation of the flight.
    let (service, address) = Service::start(&[("reserve", &[422]), ("cancel", &[422])]).await;
    let (_place, serve) = serve(&address, &endpoint, 1.0).await;
    let state = ended(&serve, &trip("o-1")).await;
    assert_eq!(state, "CompensationFailed");
    let well = vec![200];
    service
        .answers
        .lock()
        .expect("no panic")
        .insert("cancel", well);
    let body = json!({"act": "retry-compensation", "orders": ["o-1"], "why": SECRET, "by": "ann", "dry_run": false});
    let acts = "/v1/operate/acts";
    let (status, answer) = serve.post(acts, "application/json", body.to_string()).await;
    assert_eq!(status, 200, "{answer}");
    until("it is done again", async || {
        let state = serve.finished("o-1").await["state"].clone();
        (state == "Compensated").then_some(())
    })
    .await;
    serve.stop().await;

    let spans = collector.spans();
    let (roots, by_name) = tree(&spans);
    assert_eq!(roots.len(), 1, "{roots:#?}");
    let act = by_name["operate retry-compensation"][0];
    assert_eq!(act.kind(), SpanKind::Internal);
    assert_eq!(act.parent_span_id, roots[0].span_id);
    let links: Vec<_> = act.links.iter().map(|link| &link.span_id).collect();
    let before = |sent: &&&Span| sent.start_time_unix_nano < act.start_time_unix_nano;
    let sent = by_name["send agent.airline"].iter().rfind(before);
    let last = &sent.expect("it was sent").span_id;
    assert_eq!(links, [last], "it stood at that attempt");
}

#[tokio::test]
async fn an_order_is_in_its_submitters_trace_and_of_others_only_failures_are_told() {
    let (collector, endpoint) = Collector::start().await;
    let (_service, address) = Service::start(&[("reserve", &[503, 200])]).await;
    let (place, serve) = serve(&address, &endpoint, 0.0).await;
    assert_eq!(ended(&serve, &trip("fails-once")).await, "Processed");
    assert_eq!(ended(&serve, &trip("well")).await, "Processed");
    let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let request = client().post(serve.url("/v1/orders?wait=30s"));
    let request = request.header("traceparent", given);
    let request = request.header("content-type", "application/json");
    let answer = request.body(trip("given").to_string()).send().await;
    assert_eq!(answer.expect("it answers").status(), 201);
    let own = TraceContext::of_order(&OrderId::new("well").expect("an id"));
    let own = format!("{:032x}", own.trace_id());
    for (id, trace, is_whole) in [
        ("given", &given[3..35], true),
        ("well", own.as_str(), false),
    ] {
        let get = triad(&["get", id, "--data", &place.data()], &[], b"").await;
        let get = get.good().out;
        assert!(get.contains(&format!("Trace      {trace}")), "{get}");
        assert_eq!(!get.contains("not sampled"), is_whole, "{get}");
    }
    serve.stop().await;

    let given = TraceContext::parse(given).expect("a context");
    let is_given = |span: &Span| span.trace_id == given.trace_id().to_be_bytes();
    let (theirs, others): (Vec<Span>, Vec<Span>) =
        collector.spans().into_iter().partition(is_given);
    let (roots, _) = tree(&theirs);
    assert_eq!(roots.len(), 1, "{roots:#?}");
    assert_eq!(roots[0].parent_span_id, given.hop_id().to_be_bytes());

    let fails = TraceContext::of_order(&OrderId::new("fails-once").expect("an id"));
    let mut names: Vec<&str> = others.iter().map(|s| s.name.as_str()).collect();
    names.sort_unstable();
    let calls = names.iter().filter(|name| name.starts_with("POST"));
    assert_eq!(calls.count(), 1, "{names:?}");
    // If a restart has sent a request again, the agent answers it from its memory, with another span of the attempt.
    names.dedup();
    assert_eq!(names, ["POST /hotel/reserve", "attempt agent.hotel"]);
    for span in &others {
        assert!(is_error(span), "{span:?}");
        assert_eq!(span.trace_id, fails.trace_id().to_be_bytes());
        assert_eq!(said(span)["error.type"], "http-503");
    }
}

#[tokio::test]
async fn a_collector_that_hangs_or_is_away_costs_no_order() {
    let (_service, address) = Service::start(&[]).await;
    // A listener that accepts connections and never reads from them.
    let hangs = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let hangs = hangs.expect("a port");
    let away = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let away = away.expect("a port").local_addr().expect("it is bound");
    for endpoint in [hangs.local_addr().expect("it is bound"), away] {
        let (_place, serve) = serve(&address, &format!("http://{endpoint}"), 1.0).await;
        let all: Vec<Value> = (0..200).map(|n| trip(&format!("h-{n}"))).collect();
        let body = triad_tests::orders::lines(&all);
        let (status, _) = serve.post("/v1/orders", "application/x-ndjson", body).await;
        assert_eq!(status, 200);
        for order in &all {
            let id = order["order_id"].as_str().expect("an id");
            assert_eq!(serve.finished(id).await["state"], "Processed");
        }
        serve.stop().await;
    }
}
