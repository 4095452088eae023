//! What the peers of the benchmark share: the call of a step, and an HTTP endpoint for orders.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// The steps of every order, in order.
pub const STEPS: [&str; 3] = ["reserve", "charge", "ship"];

/// Options that every peer has.
#[derive(Debug, clap::Args)]
pub struct Addresses {
    /// Where it listens
    #[arg(long)]
    pub listen: SocketAddr,
    /// The service of the steps
    #[arg(long)]
    pub service: String,
}

/// The id of an order.
///
/// # Errors
/// If the order has none.
pub fn id_of(order: &Value) -> Result<&str> {
    order["order_id"].as_str().context("an order without an id")
}

/// The service that carries out the steps.
#[derive(Clone)]
pub struct Service {
    http: reqwest::Client,
    url: String,
}

impl Service {
    /// The service at this URL.
    ///
    /// # Errors
    /// If no HTTP client can be created.
    pub fn at(url: &str) -> Result<Self> {
        let http = reqwest::Client::builder().pool_max_idle_per_host(1_024);
        Ok(Self {
            http: http.build()?,
            url: url.trim_end_matches('/').to_owned(),
        })
    }

    /// Calls the service for a step of an order, once, with an idempotency key.
    ///
    /// # Errors
    /// If there is no answer, or an error status.
    pub async fn call(&self, step: &str, order: &Value) -> Result<Value> {
        let id = id_of(order)?;
        let answer = self
            .http
            .post(format!("{}/{step}", self.url))
            .header("content-type", "application/json")
            .header("idempotency-key", format!("{id}:{step}"))
            .header("benchmark-order", id)
            .body(serde_json::to_vec(&order["details"])?)
            .send()
            .await?;
        if answer.status() != StatusCode::OK {
            bail!("{}", answer.status());
        }
        Ok(serde_json::from_slice(&answer.bytes().await?)?)
    }
}

/// The requests that wait for the end of an order, by order id.
#[derive(Clone, Default)]
pub struct Ends(Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>);

impl Ends {
    /// Registers a wait for the order; the receiver completes when the order has ended.
    #[must_use]
    pub fn of(&self, id: &str) -> oneshot::Receiver<()> {
        let (told, end) = oneshot::channel();
        self.lock().insert(id.to_owned(), told);
        end
    }

    /// Completes the wait for this order, if there is one.
    pub fn tell(&self, id: &str) {
        if let Some(told) = self.lock().remove(id) {
            let _ = told.send(());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, oneshot::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Accepts orders over HTTP: `POST /orders` is answered once the order is durable, `POST /orders?wait` once it has
/// ended, and `GET` at any path while the server listens. `take` gets the order, and whether to wait for its end.
///
/// # Errors
/// If the address cannot be bound.
pub async fn serve<F, A>(listen: SocketAddr, take: F) -> Result<()>
where
    F: Fn(Value, bool) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Result<()>> + Send,
{
    let listener = TcpListener::bind(listen).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let take = take.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(request, take.clone()));
            let http = hyper::server::conn::http1::Builder::new();
            // A client that closes the connection is not an error.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer<F, A>(
    request: Request<Incoming>,
    take: F,
) -> Result<Response<Full<Bytes>>, Infallible>
where
    F: Fn(Value, bool) -> A,
    A: Future<Output = Result<()>>,
{
    let (status, body) = if request.method() == Method::GET {
        (StatusCode::OK, json!({"ok": true}))
    } else {
        match taken(request, take).await {
            Ok(()) => (StatusCode::OK, json!({"ok": true})),
            Err(error) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                json!({"error": format!("{error:#}")}),
            ),
        }
    };
    let mut answer = Response::new(Full::new(Bytes::from(body.to_string())));
    *answer.status_mut() = status;
    Ok(answer)
}

async fn taken<F, A>(request: Request<Incoming>, take: F) -> Result<()>
where
    F: Fn(Value, bool) -> A,
    A: Future<Output = Result<()>>,
{
    let is_waited_for = request.uri().query() == Some("wait");
    let body = request.into_body().collect().await?.to_bytes();
    take(serde_json::from_slice(&body)?, is_waited_for).await
}
