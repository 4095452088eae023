//! The recording endpoint between clients and the store.
//!
//! Each operation is recorded with the times at which it was sent and answered, even if its client has disconnected.
//! If the store does not answer, the client's connection ends without an answer, as it would without the endpoint. It
//! listens on loopback only, and ends with [`Endpoint::stop`] or when it is dropped.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use super::broken_store::{Lies, Sent};
use super::history::Moment;
use super::recorder::Recorder;
use super::wire::{self, StoreAnswer};

/// Largest request, in bytes: DynamoDB's batch writes have at most 16 MB.
const LARGEST: usize = 17 << 20;
/// Longest wait for the store. An operation that takes longer counts as unanswered.
const LONGEST: Duration = Duration::from_secs(60);
/// Limit on concurrent connections: more than all clients of a run open.
const CONNECTIONS: usize = 4_096;
/// Headers that are forwarded in requests and answers.
const HEADERS: [&str; 7] = [
    "content-type",
    "x-amz-target",
    "x-amz-date",
    "authorization",
    "x-amz-content-sha256",
    "x-amzn-requestid",
    "x-amz-crc32",
];
/// The answer while access is denied.
const DENIED: &str = r#"{"__type":"com.amazonaws.dynamodb.v20120810#AccessDeniedException","Message":"access is denied for a while"}"#;

/// A running endpoint.
#[derive(Debug)]
pub struct Endpoint {
    addr: SocketAddr,
    shared: Arc<EndpointState>,
    /// Dropping it ends its task.
    serving: JoinSet<()>,
}

#[derive(Debug)]
struct EndpointState {
    upstream: String,
    client: reqwest::Client,
    recorder: Recorder,
    lies: Option<Lies>,
    is_denied: AtomicBool,
    denied: AtomicU64,
    /// The requests being handled, each for at most [`LONGEST`].
    handling: TaskTracker,
}

/// The store did not answer, or the client sent no request: the connection ends without an answer.
#[derive(Debug, thiserror::Error)]
#[error("there is no answer")]
struct NoAnswer;

impl Endpoint {
    /// Listens on a loopback address, and forwards requests to the store at `upstream`.
    ///
    /// # Errors
    /// If the address is taken.
    pub async fn start(
        listen: SocketAddr,
        upstream: String,
        recorder: Recorder,
        lies: Option<Lies>,
    ) -> Result<Self> {
        anyhow::ensure!(listen.ip().is_loopback(), "{listen} is not of this machine");
        let listener = TcpListener::bind(listen).await.context("the endpoint")?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(EndpointState {
            upstream,
            client: triad_http::client_builder().build().context("a client")?,
            recorder,
            lies,
            is_denied: AtomicBool::new(false),
            denied: AtomicU64::new(0),
            handling: TaskTracker::new(),
        });
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, shared.clone()));
        Ok(Self {
            addr,
            shared,
            serving,
        })
    }

    /// The URL for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The recorder that writes the history.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.shared.recorder
    }

    /// Denies all access to the store from now on, or allows it again.
    pub fn deny(&self, is_denied: bool) {
        self.shared.is_denied.store(is_denied, Ordering::SeqCst);
    }

    /// Number of denied requests.
    #[must_use]
    pub fn denied(&self) -> u64 {
        self.shared.denied.load(Ordering::SeqCst)
    }

    /// Number of wrong answers that the broken store has given.
    #[must_use]
    pub fn lies(&self) -> u64 {
        self.shared.lies.as_ref().map_or(0, Lies::lies_told)
    }

    /// Accepts no further request, and waits until the accepted ones have been recorded.
    pub async fn stop(&mut self) {
        self.serving.shutdown().await;
        self.shared.handling.close();
        self.shared.handling.wait().await;
    }
}

async fn serve(listener: TcpListener, shared: Arc<EndpointState>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        // An error here concerns only the new connection.
        if let Ok((stream, _)) = listener.accept().await
            && connections.len() < CONNECTIONS
        {
            connections.spawn(connection(stream, shared.clone()));
        }
    }
}

async fn connection(stream: TcpStream, shared: Arc<EndpointState>) {
    // TCP_NODELAY: each side waits for small messages, which are slower without it.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| answer(request, shared.clone()));
    // Fails if there is no answer, or if the client has disconnected; both are expected.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(
    request: Request<Incoming>,
    shared: Arc<EndpointState>,
) -> Result<Response<Full<Bytes>>, NoAnswer> {
    let headers = request.headers().clone();
    let body = Limited::new(request.into_body(), LARGEST).collect().await;
    let body = body.map_err(|_| NoAnswer)?.to_bytes();
    // In a separate task, so that the operation is completed and recorded even if the client disconnects.
    let handling = shared.handling.clone();
    let handled = handling.spawn(async move { shared.handle(&headers, body).await });
    handled.await.map_err(|_| NoAnswer)?.ok_or(NoAnswer)
}

/// An answer: status, headers, body.
type Answered = (StatusCode, HeaderMap, Bytes);

impl EndpointState {
    /// Forwards a request and records it; `None` if the store did not answer.
    async fn handle(&self, headers: &HeaderMap, body: Bytes) -> Option<Response<Full<Bytes>>> {
        let target = headers.get("x-amz-target").and_then(|t| t.to_str().ok());
        let action = target.and_then(|t| t.rsplit('.').next()).unwrap_or("");
        let request = wire::request(action, &body);
        let began: Moment = self.recorder.moment();
        let answered = self.upstream(headers, action, &body).await;
        if let Some(request) = request {
            let told = match &answered {
                Ok((status, _, body)) => StoreAnswer::Answer(status.as_u16(), body),
                Err(e) if e.is_connect() => StoreAnswer::NotSent,
                Err(_) => StoreAnswer::Nothing,
            };
            let all = request.answered(told);
            self.recorder.ended(began, self.recorder.moment(), all);
        }
        let (status, headers, body) = answered.ok()?;
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        *response.headers_mut() = forwarded_headers(&headers);
        Some(response)
    }

    /// The answer of the store, or of the broken store in its place.
    async fn upstream(
        &self,
        headers: &HeaderMap,
        action: &str,
        body: &Bytes,
    ) -> Result<Answered, reqwest::Error> {
        if self.is_denied.load(Ordering::SeqCst) {
            self.denied.fetch_add(1, Ordering::SeqCst);
            return Ok(made_up(StatusCode::BAD_REQUEST, DENIED.into()));
        }
        let Some(lies) = &self.lies else {
            return self.forward(headers, body.clone()).await;
        };
        let answered = match lies.request(action, body) {
            Sent::Answered(told) => return Ok(of_json(&told)),
            Sent::Instead(action, instead) => {
                let request_headers = headers;
                let mut headers = headers.clone();
                if let Ok(target) = format!("DynamoDB_20120810.{action}").parse() {
                    headers.insert("x-amz-target", target);
                }
                let answered = self.forward(&headers, instead.to_string().into()).await?;
                // If the store refuses the request, its answer is forwarded.
                match answered.0 {
                    StatusCode::OK => of_json(&Value::Object(Map::new())),
                    _ => self.forward(request_headers, body.clone()).await?,
                }
            }
            Sent::True => self.forward(headers, body.clone()).await?,
        };
        Ok(match lies.answer(action, body, &answered.2) {
            Some(told) if answered.0 == StatusCode::OK => of_json(&told),
            _ => answered,
        })
    }

    async fn forward(&self, headers: &HeaderMap, body: Bytes) -> Result<Answered, reqwest::Error> {
        let request = self.client.post(&self.upstream).timeout(LONGEST);
        let answer = request
            .headers(forwarded_headers(headers))
            .body(body)
            .send()
            .await?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        Ok((status, headers, answer.bytes().await?))
    }
}

/// The headers that are forwarded.
fn forwarded_headers(headers: &HeaderMap) -> HeaderMap {
    let kept = HEADERS.iter().filter_map(|name| {
        let value = headers.get(*name)?;
        Some((HeaderName::from_static(name), value.clone()))
    });
    kept.collect()
}

fn of_json(json: &Value) -> Answered {
    made_up(StatusCode::OK, json.to_string().into())
}

fn made_up(status: StatusCode, body: Bytes) -> Answered {
    let mut headers = HeaderMap::new();
    let form = hyper::header::HeaderValue::from_static("application/x-amz-json-1.0");
    headers.insert(CONTENT_TYPE, form);
    (status, headers, body)
}
