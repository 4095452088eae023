//! What every engine of the benchmark needs: the call of a step, and a way in by HTTP.

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

/// The steps of every order, one after the other.
pub const STEPS: [&str; 3] = ["reserve", "charge", "ship"];

/// The id of an order.
///
/// # Errors
/// If it has none.
pub fn id_of(order: &Value) -> Result<&str> {
    order["order_id"].as_str().context("an order without an id")
}

/// The service that does the steps.
#[derive(Clone)]
pub struct Service {
    http: reqwest::Client,
    url: String,
}

impl Service {
    /// The service at this URL.
    ///
    /// # Errors
    /// If no client can be made.
    pub fn at(url: &str) -> Result<Self> {
        let http = reqwest::Client::builder().pool_max_idle_per_host(1_024);
        Ok(Self {
            http: http.build()?,
            url: url.trim_end_matches('/').to_owned(),
        })
    }

    /// Has a step of an order done: one call, under a key by which a repetition is known.
    ///
    /// # Errors
    /// If there is no answer, or one that is not good.
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

/// Who waits for the end of which order.
#[derive(Clone, Default)]
pub struct Ends(Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>);

impl Ends {
    /// Is told once this order has ended.
    #[must_use]
    pub fn of(&self, id: &str) -> oneshot::Receiver<()> {
        let (told, end) = oneshot::channel();
        self.lock().insert(id.to_owned(), told);
        end
    }

    /// Tells who waits that this order has ended.
    pub fn tell(&self, id: &str) {
        if let Some(told) = self.lock().remove(id) {
            let _ = told.send(());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, oneshot::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes orders by HTTP: `POST /orders` answers once an order is durable, `POST /orders?wait` once it has
/// ended, and `GET` at any path says that it listens. `take` is given the order and whether its end is
/// waited for.
///
/// # Errors
/// If the address cannot be had.
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
            // A client that goes away is no error.
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
