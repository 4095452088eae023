//! One request and its answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::time::Instant;
use triad_console::tokens::Role;
use triad_console::{Body, Hidden, elsewhere};
use triad_core::{OrderId, Timing};
use triad_runtime::StateStore;

use crate::answer::{self, Answer};
use crate::front::{Front, Serves, into_response, refused};
use crate::order_end_waiters::OrderEndWaiters;
use crate::problem::Problem;
use crate::queue::Queue;
use crate::ready::Writable;
use crate::target::{self, Path, Query};

/// The OpenAPI document, as it is served.
pub(crate) const OPEN_API: &str = include_str!("../openapi.json");
/// How long a successful readiness check is cached.
const READY_FOR: Duration = Duration::from_secs(1);

/// State that all requests share.
pub(crate) struct Service<S> {
    pub(crate) store: S,
    pub(crate) queue: Queue,
    pub(crate) ends: OrderEndWaiters,
    pub(crate) front: Front,
    pub(crate) timing: Timing,
    /// The fields of payloads whose values are not shown.
    pub(crate) hidden: Hidden,
    /// Storage that every order needs.
    pub(crate) written: Vec<Arc<dyn Writable>>,
    /// Time of the last successful readiness check.
    pub(crate) ready_at: Mutex<Option<Instant>>,
}

impl<S: StateStore> Serves for Service<S> {
    fn front(&self) -> &Front {
        &self.front
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        if self.front.is_for_operators(&request) {
            return self.front.operate(request).await;
        }
        if request.uri().path() == "/" && self.front.operators.is_some() {
            return elsewhere("/");
        }
        let answered = self.route(request).await;
        into_response(answered.unwrap_or_else(|problem| refused(&problem)))
    }
}

impl<S: StateStore> Service<S> {
    async fn route(&self, request: Request<Incoming>) -> Result<Answer, Problem> {
        let (head, body) = request.into_parts();
        let Some(path) = Path::of(head.uri.path()) else {
            let text = "this path does not exist";
            return Err(Problem::new(StatusCode::NOT_FOUND, "no-such-path", text));
        };
        let reads = matches!(head.method, Method::GET | Method::HEAD);
        match path {
            Path::Orders if head.method == Method::POST => {
                self.front
                    .access
                    .check(&head.uri, &head.headers, Role::Submit)?;
                let query = Query::of(&head.uri, self.front.limits.wait)?;
                match media(&head.headers)? {
                    Media::Order => self.submit(query, &head.headers, body).await,
                    Media::Batch => self.submit_batch(query, &head.headers, body).await,
                }
            }
            Path::Order(spelt) if reads => {
                self.front
                    .access
                    .check(&head.uri, &head.headers, Role::Read)?;
                let query = Query::of(&head.uri, self.front.limits.wait)?.without_priority()?;
                self.get(&target::order_id(spelt)?, query).await
            }
            Path::OpenApi if reads => Ok(answer::of(StatusCode::OK, "application/json", OPEN_API)),
            Path::Health if reads => Ok(well("up")),
            Path::Ready if reads => self.is_ready().await.map(|()| well("ready")),
            path => Err(answer::not_allowed(path.allow())),
        }
    }

    /// Whether orders can be accepted: the server is not stopping, the store answers, and every storage can be
    /// written. A success is cached for a second.
    async fn is_ready(&self) -> Result<(), Problem> {
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        if self.front.stopping.is_cancelled() {
            let text = "the server is stopping";
            return Err(Problem::again(unavailable, "stopping", text, 5));
        }
        if !self.queue.has_room() {
            let text = "too many orders wait to be stored";
            return Err(Problem::again(unavailable, "queue-full", text, 1));
        }
        let last = *self.ready_at();
        if last.is_some_and(|at| at.elapsed() < READY_FOR) {
            return Ok(());
        }
        // Any id: only the store's answer counts, not the order.
        let any = OrderId::new("readyz").map_err(|e| Problem::internal(e.to_string()))?;
        self.load(&any).await?;
        for each in &self.written {
            each.try_write()
                .await
                .map_err(|why| Problem::again(unavailable, "not-writable", why, 5))?;
        }
        *self.ready_at() = Some(Instant::now());
        Ok(())
    }

    fn ready_at(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.ready_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn well(status: &'static str) -> Answer {
    answer::json(StatusCode::OK, &serde_json::json!({ "status": status }))
}

/// Media type of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Media {
    /// One order.
    Order,
    /// An order on each line.
    Batch,
}

/// The media type of a body, which is required: see [`crate::access`].
fn media(headers: &HeaderMap) -> Result<Media, Problem> {
    let unsupported = |text: &'static str| {
        Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported-media-type",
            text,
        )
    };
    if headers
        .get(CONTENT_ENCODING)
        .is_some_and(|v| v != "identity")
    {
        return Err(unsupported("Content-Encoding is not supported"));
    }
    let told = headers
        .get(CONTENT_TYPE)
        .and_then(|told| told.to_str().ok());
    let told = told
        .and_then(|told| told.split(';').next())
        .unwrap_or_default()
        .trim();
    let is = |media: &str| told.eq_ignore_ascii_case(media);
    if is("application/json") {
        Ok(Media::Order)
    } else if is("application/x-ndjson") || is("application/jsonl") {
        Ok(Media::Batch)
    } else {
        Err(unsupported(
            "Content-Type is application/json for one order, application/x-ndjson for an order a line",
        ))
    }
}
