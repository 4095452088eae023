//! The HTTP layer: reads requests and writes answers, without decisions.
//!
//! One handler that matches the path, instead of a router and extractors: the service shares its processors with its
//! callers, so a call should need little CPU time.

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use futures::StreamExt as _;
use serde::Serialize;
use serde_json::{Value, json};

use crate::answers::PlayedCall;
use crate::call::{Answer, Call, CallHead, Direction};
use crate::faults::Faults;
use crate::shared::ServiceState;

/// Largest body of a call or of fault settings, in bytes, inclusive: 256 KiB. A larger one is
/// answered 413.
pub const MAX_BODY: usize = 256 * 1024;
/// Longest idempotency key or order id, in bytes, inclusive.
pub const MAX_KEY: usize = 512;
/// Longest name of a service, action or step, in bytes, inclusive.
pub const MAX_NAME: usize = 128;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A request that is not a valid call: status, code for programs, message for users.
type Invalid = (StatusCode, &'static str, String);

pub(crate) async fn handle(shared: Arc<ServiceState>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if let Some(played) = shared.played(parts.method.as_str(), parts.uri.path()) {
        return replay(played);
    }
    let answered = match (&parts.method, parts.uri.path()) {
        (&Method::GET, "/_ledger") => return ledger(shared),
        (&Method::GET, "/_ledger/summary") => return json_200(&shared.summary()),
        (&Method::GET, "/_faults") => return json_200(shared.faults().as_ref()),
        (&Method::GET, "/_health") => return json_200(&json!({"status": "ok"})),
        (&Method::PUT, "/_faults") => put_faults(&shared, body).await,
        (_, "/_ledger" | "/_ledger/summary" | "/_health") => Err(not_allowed("GET")),
        (_, "/_faults") => Err(not_allowed("GET or PUT")),
        (&Method::POST, path) if is_probe(&parts.headers) => {
            probe(path, &parts.headers, &shared).map(answer)
        }
        (&Method::POST, path) => match head(path, &parts.headers) {
            Ok(head) => match input(body).await {
                Ok(input) => Ok(answer(shared.clone().call(Call { head, input }).await)),
                Err(invalid) => Err(invalid),
            },
            Err(invalid) => Err(invalid),
        },
        (_, _) => Err(not_allowed("POST")),
    };
    answered.unwrap_or_else(|(status, code, message)| {
        shared.count_invalid();
        let mut response = error(status, code, &message, None);
        if status == StatusCode::METHOD_NOT_ALLOWED {
            let allow = HeaderValue::from_static("GET, POST, PUT");
            response.headers_mut().insert(ALLOW, allow);
        }
        response
    })
}

fn not_allowed(methods: &str) -> Invalid {
    (
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        format!("this path takes {methods}"),
    )
}

fn bad(code: &'static str, message: impl Into<String>) -> Invalid {
    (StatusCode::BAD_REQUEST, code, message.into())
}

async fn put_faults(shared: &ServiceState, body: Body) -> Result<Response, Invalid> {
    let body = read(body).await?;
    let faults: Faults =
        serde_json::from_slice(&body).map_err(|error| bad("bad_faults", error.to_string()))?;
    shared
        .set_faults(faults)
        .map_err(|error| bad("bad_faults", error.to_string()))?;
    Ok(json_200(shared.faults().as_ref()))
}

/// Streams all keys, page by page. Each line is consistent; the listing as a whole is not a snapshot.
fn ledger(shared: Arc<ServiceState>) -> Response {
    let pages = futures::stream::unfold(0, move |from| {
        let page = shared.page(from);
        async move {
            if page.is_empty() {
                return None;
            }
            let mut lines = Vec::new();
            for key in &page {
                if serde_json::to_writer(&mut lines, key).is_err() {
                    return Some((Err(std::io::Error::other("a key has no JSON")), from));
                }
                lines.push(b'\n');
            }
            Some((Ok(Bytes::from(lines)), from + page.len()))
        }
    });
    let mut response = Response::new(Body::from_stream(pages));
    let lines = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(CONTENT_TYPE, lines);
    response
}

async fn read(body: Body) -> Result<Bytes, Invalid> {
    to_bytes(body, MAX_BODY).await.map_err(|_| {
        (
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            format!("the body could not be read within {MAX_BODY} bytes"),
        )
    })
}

async fn input(body: Body) -> Result<Value, Invalid> {
    let body = read(body).await?;
    serde_json::from_slice(&body).map_err(|error| bad("bad_json", error.to_string()))
}

/// Whether the request is a probe.
fn is_probe(headers: &HeaderMap) -> bool {
    headers
        .get("triad-direction")
        .is_some_and(|d| d.as_bytes() == b"probe")
}

/// Answers whether the effect under the key of an action happened. A probe is not a call: the ledger has no line for
/// it, and its only fault is that the service is down.
fn probe(path: &str, headers: &HeaderMap, shared: &ServiceState) -> Result<Answer, Invalid> {
    let (service, _) = names(path)?;
    let Some(key) = text(headers, "idempotency-key", MAX_KEY)? else {
        return Err(bad("no_key", "the header Idempotency-Key is required"));
    };
    Ok(shared.probe(service, &key))
}

fn names(path: &str) -> Result<(&str, &str), Invalid> {
    let names = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    names
        .filter(|(service, action)| name(service) && name(action))
        .ok_or_else(|| {
            (
                StatusCode::NOT_FOUND,
                "not_found",
                "a call goes to /{service}/{action}, of letters, digits, '-', '_' and '.'; a described action needs a \
                 recorded answer, or the address of its service"
                    .to_owned(),
            )
        })
}

fn head(path: &str, headers: &HeaderMap) -> Result<CallHead, Invalid> {
    let (service, action) = names(path)?;
    let Some(key) = text(headers, "idempotency-key", MAX_KEY)? else {
        return Err(bad("no_key", "the header Idempotency-Key is required"));
    };
    let direction = match text(headers, "triad-direction", MAX_NAME)?.as_deref() {
        None | Some("forward") => Direction::Forward,
        Some("compensate") => Direction::Compensate,
        Some(_) => {
            return Err(bad(
                "bad_direction",
                "Triad-Direction is forward, compensate or probe",
            ));
        }
    };
    let compensates = text(headers, "triad-compensates", MAX_KEY)?;
    match (direction, &compensates) {
        (Direction::Forward, None) => {}
        (Direction::Compensate, Some(forward)) if *forward != key => {}
        (Direction::Compensate, _) => {
            let message = "a compensation names the forward key, not its own, in Triad-Compensates";
            return Err(bad("bad_compensates", message));
        }
        (Direction::Forward, Some(_)) => {
            return Err(bad(
                "bad_compensates",
                "a forward call has no Triad-Compensates",
            ));
        }
    }
    let attempt = match text(headers, "triad-attempt", MAX_NAME)? {
        None => 0,
        Some(attempt) => attempt
            .parse()
            .map_err(|_| bad("bad_attempt", "Triad-Attempt is a number"))?,
    };
    Ok(CallHead {
        service: service.to_owned(),
        action: action.to_owned(),
        order: text(headers, "triad-order", MAX_KEY)?.unwrap_or_default(),
        step: text(headers, "triad-step", MAX_NAME)?.unwrap_or_default(),
        direction,
        attempt,
        key,
        compensates,
    })
}

/// Whether a name is valid. An underscore at its beginning would make it look like an administrative path.
fn name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=MAX_NAME).contains(&text.len()) && !text.starts_with('_') && text.bytes().all(plain)
}

/// A header's text; `None` if it is missing or empty.
fn text(headers: &HeaderMap, header: &str, most: usize) -> Result<Option<String>, Invalid> {
    let Some(value) = headers.get(header) else {
        return Ok(None);
    };
    let Ok(text) = std::str::from_utf8(value.as_bytes()) else {
        return Err(bad("bad_header", format!("{header} is not UTF-8")));
    };
    if text.len() > most {
        let message = format!("{header} is longer than {most} bytes");
        return Err(bad("bad_header", message));
    }
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

fn answer(answer: Answer) -> Response {
    match answer {
        Answer::Output(output) => json_200(&output),
        Answer::Garbage => {
            // The connection ends before the body does. What was written until then is sent while the stream waits.
            let begins = futures::stream::iter([Ok(Bytes::from_static(b"{\"reference\": \""))]);
            let breaks = futures::stream::once(async {
                tokio::task::yield_now().await;
                Err(std::io::Error::other("cut off on purpose"))
            });
            let mut response = Response::new(Body::from_stream(begins.chain(breaks)));
            response.headers_mut().insert(CONTENT_TYPE, JSON);
            response
        }
        Answer::Error {
            status,
            code,
            message,
            retry_after_s,
        } => {
            let status = StatusCode::from_u16(status).expect("only real status codes are used");
            error(status, code, message, retry_after_s)
        }
    }
}

fn replay(played: &PlayedCall) -> Response {
    let mut response = Response::new(Body::from(played.body.clone()));
    *response.status_mut() = StatusCode::from_u16(played.status).unwrap_or(StatusCode::OK);
    for (name, value) in &played.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn json_200(value: &impl Serialize) -> Response {
    with_json(StatusCode::OK, value)
}

fn error(status: StatusCode, code: &str, message: &str, retry_after_s: Option<u32>) -> Response {
    let body = json!({"error": {"code": code, "message": message}});
    let mut response = with_json(status, &body);
    if let Some(seconds) = retry_after_s {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

fn with_json(status: StatusCode, value: &impl Serialize) -> Response {
    let body = serde_json::to_vec(value).expect("the values answered have string keys");
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}
