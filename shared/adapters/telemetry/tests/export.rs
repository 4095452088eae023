//! The span exporter against endpoints that accept spans, refuse them, do not answer, or are down.

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use triad_core::{OrderId, Timestamp, TraceContext};
use triad_runtime::traces::{SpanKind, TraceSink, TraceSpan};
use triad_telemetry::{ExportError, ExportSettings, Exporter, Headers};
use triad_workflow::Millis;

const WITHIN: Millis = Millis(10_000);

/// An endpoint that answers every request with one HTTP status.
#[derive(Clone)]
struct Endpoint {
    status: Arc<AtomicU16>,
    posts: Arc<AtomicUsize>,
    taken: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
}

impl Endpoint {
    async fn start(status: u16) -> (Self, String) {
        let endpoint = Self {
            status: Arc::new(AtomicU16::new(status)),
            posts: Arc::default(),
            taken: Arc::default(),
        };
        let router = Router::new()
            .route("/v1/traces", post(Self::take))
            .with_state(endpoint.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(async move { axum::serve(listener, router).await });
        (endpoint, format!("http://{address}/v1/traces"))
    }

    async fn take(State(this): State<Self>, headers: HeaderMap, body: Bytes) -> StatusCode {
        assert_eq!(headers["content-type"], "application/x-protobuf");
        assert_eq!(headers["x-key"], "k");
        this.posts.fetch_add(1, Ordering::SeqCst);
        let status = this.status.load(Ordering::SeqCst);
        if status == 200 {
            let request = ExportTraceServiceRequest::decode(body).expect("it is OTLP");
            this.taken.lock().expect("no panic").push(request);
        }
        StatusCode::from_u16(status).expect("a status")
    }

    fn posts(&self) -> usize {
        self.posts.load(Ordering::SeqCst)
    }
}

fn settings(endpoint: &str) -> ExportSettings {
    ExportSettings {
        endpoint: endpoint.to_owned(),
        headers: Headers(vec![("x-key".to_owned(), "k".to_owned())]),
        service: "shop".to_owned(),
        instance: "one".to_owned(),
        version: "0".to_owned(),
        timeout: Duration::from_secs(10),
    }
}

fn exporter(endpoint: &str) -> Exporter {
    Exporter::new(&settings(endpoint)).expect("it is sound")
}

fn span(number: usize) -> TraceSpan {
    let order = OrderId::new(format!("o-{number}")).expect("an id");
    let context = TraceContext::of_order(&order).sampled(true);
    TraceSpan {
        context,
        parent: None,
        links: vec![context.child("before")],
        name: "submit".into(),
        kind: SpanKind::Internal,
        began: Timestamp(5),
        ended: Timestamp(7),
        attributes: vec![("triad.calls", 3.into())],
        failure: Some("http-503".to_owned()),
    }
}

fn tell(exporter: &Exporter, count: usize) {
    (0..count).for_each(|number| exporter.ended(span(number)));
}

#[tokio::test]
async fn spans_are_sent_in_batches_and_say_what_they_were_told() {
    let (endpoint, address) = Endpoint::start(200).await;
    let exporter = exporter(&address);
    tell(&exporter, 600);
    exporter.flush(WITHIN).await;
    assert_eq!(
        (endpoint.posts(), exporter.sent(), exporter.dropped()),
        (2, 600, 0)
    );
    let taken = endpoint.taken.lock().expect("no panic");
    let resource = &taken[0].resource_spans[0];
    let sent = &resource.scope_spans[0].spans[0];
    let told = span(0);
    assert_eq!(sent.trace_id, told.context.trace_id().to_be_bytes());
    assert_eq!(sent.span_id, told.context.hop_id().to_be_bytes());
    assert_eq!(sent.parent_span_id, [0_u8; 0]);
    assert_eq!(sent.links[0].span_id, told.links[0].hop_id().to_be_bytes());
    assert_eq!(
        (sent.start_time_unix_nano, sent.end_time_unix_nano),
        (5_000_000, 7_000_000)
    );
    let keys: Vec<&str> = sent.attributes.iter().map(|a| a.key.as_str()).collect();
    assert_eq!(keys, ["triad.calls", "error.type"]);
    assert_eq!(sent.status.as_ref().expect("it failed").code, 2);
}

/// Without a flush, the exporter's task sends the waiting spans and later ones.
#[tokio::test]
async fn a_task_sends_what_waits() {
    let (endpoint, address) = Endpoint::start(200).await;
    let exporter = exporter(&address);
    exporter.start();
    tell(&exporter, 1);
    let all_sent = async {
        while exporter.sent() < 1 || endpoint.posts() < 1 {
            tokio::task::yield_now().await;
        }
    };
    let sent = tokio::time::timeout(Duration::from_secs(30), all_sent).await;
    assert!(sent.is_ok());
}

#[tokio::test]
async fn what_is_refused_for_now_is_kept_and_not_sent_again_at_once() {
    let (endpoint, address) = Endpoint::start(503).await;
    let exporter = exporter(&address);
    tell(&exporter, 3);
    exporter.flush(WITHIN).await;
    exporter.flush(WITHIN).await;
    assert_eq!((endpoint.posts(), exporter.dropped()), (1, 0));
    endpoint.status.store(200, Ordering::SeqCst);
    exporter.start();
    let all_sent = async {
        while exporter.sent() < 3 {
            tokio::task::yield_now().await;
        }
    };
    let sent = tokio::time::timeout(Duration::from_secs(30), all_sent).await;
    assert!(sent.is_ok(), "the same batch");
}

#[tokio::test]
async fn what_is_refused_for_good_is_dropped_and_counted() {
    let (endpoint, address) = Endpoint::start(400).await;
    let exporter = exporter(&address);
    tell(&exporter, 3);
    exporter.flush(WITHIN).await;
    assert_eq!((endpoint.posts(), exporter.dropped()), (1, 3));
}

#[tokio::test]
async fn an_endpoint_that_hangs_is_waited_for_no_longer_than_the_bound_and_the_queue_is_bounded() {
    let hangs = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let hangs = hangs.expect("a port");
    let address = hangs.local_addr().expect("it is bound");
    let exporter = exporter(&format!("http://{address}/v1/traces"));
    tell(&exporter, 1);
    let began = Instant::now();
    exporter.flush(Millis(50)).await;
    exporter.flush(Millis(50)).await;
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "not the post's ten seconds"
    );
    tell(&exporter, 8_192 + 600);
    assert_eq!(exporter.dropped(), 600);
    assert_eq!(exporter.sent(), 0);
}

#[test]
fn wrong_settings_are_told_without_their_secrets() {
    for wrong in ["", "collector:4317", "ftp://hidden@c"] {
        let error = Exporter::new(&settings(wrong)).err().expect("it is wrong");
        assert!(matches!(error, ExportError::Endpoint));
        assert!(!error.to_string().contains("hidden"));
    }
    let mut bad = settings("http://c");
    bad.headers.0[0].1 = "hidden\n".to_owned();
    let error = Exporter::new(&bad).err().expect("it is wrong");
    assert!(error.to_string().contains("x-key") && !error.to_string().contains("hidden"));
    assert!(!format!("{bad:?}").contains("hidden"));
}
