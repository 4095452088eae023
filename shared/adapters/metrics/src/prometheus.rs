//! The Prometheus endpoint: `GET /metrics`, in its text format 0.0.4.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use triad_runtime::metric;

/// Concurrent connections. Further ones wait to be accepted.
const CONNECTIONS: usize = 16;
/// Longest time of a connection, even in use: 60 s. A reader that polls more often may keep it.
const CONNECTED_FOR: Duration = Duration::from_secs(60);
/// Longest time for a request's head: 10 s.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// Interval at which values of histograms are put into their classes if Prometheus does not read: 5 s.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);
/// Wait after a failed accept: the process has too many files open.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Why [`Endpoint::start`] has failed.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The address cannot be listened on, for instance because it is taken or not one of this machine.
    #[error("metrics cannot be offered on {address}: {error}")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The process has another recorder of metrics already.
    #[error("metrics are recorded already")]
    Recorded,
    /// The recorder refuses the classes of the histograms.
    #[error("metrics cannot be recorded: {0}")]
    Classes(#[from] BuildError),
}

/// The HTTP endpoint that Prometheus reads metrics from. It answers nothing until [`serve`](Self::serve) is
/// called.
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
    rendered: PrometheusHandle,
}

impl Endpoint {
    /// Listens on an address (port 0 takes a free one), and installs a recorder that measures the whole
    /// process from now on. A process can have only one recorder.
    ///
    /// # Errors
    /// [`EndpointError::Listen`] if the address cannot be listened on, [`EndpointError::Recorded`] if the
    /// process has a recorder already, [`EndpointError::Classes`] if the classes of histograms are refused.
    pub async fn start(address: SocketAddr) -> Result<Self, EndpointError> {
        let refused = |error| EndpointError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let recorder = PrometheusBuilder::new()
            .set_buckets(&metric::BUCKETS_SECONDS)?
            .build_recorder();
        let rendered = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(|_| EndpointError::Recorded)?;
        metric::describe();
        Ok(Self {
            listener,
            address,
            rendered,
        })
    }

    /// The address that is listened on, with its port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until `stop` is cancelled, which cuts off answers under way. At most 16 connections are
    /// answered at once, each for at most 60 s; further ones wait.
    pub async fn serve(self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.accept() => {}
            () = keep_up(&self.rendered) => {}
        }
    }

    async fn accept(&self) {
        let mut open = JoinSet::new();
        loop {
            while open.len() >= CONNECTIONS {
                open.join_next().await;
            }
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    open.spawn(answer(stream, self.rendered.clone()));
                }
                Err(e) => {
                    tracing::warn!(error = %e, "a reader of metrics could not be taken");
                    sleep(AFTER_FAILURE).await;
                }
            }
            while open.try_join_next().is_some() {}
        }
    }
}

async fn keep_up(rendered: &PrometheusHandle) {
    let mut ticks = interval(UPKEEP_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        rendered.run_upkeep();
    }
}

async fn answer(stream: TcpStream, rendered: PrometheusHandle) {
    let service = service_fn(|request| {
        let response = respond(&request, &rendered);
        async { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .serve_connection(TokioIo::new(stream), service);
    // The result is ignored: a reader that has lost an answer repeats its request.
    let _ = timeout(CONNECTED_FOR, connection).await;
}

fn respond(request: &Request<Incoming>, rendered: &PrometheusHandle) -> Response<Full<Bytes>> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => (StatusCode::OK, rendered.render()),
        (_, "/metrics") => (StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned()),
        _ => (
            StatusCode::NOT_FOUND,
            "metrics are at /metrics\n".to_owned(),
        ),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let plain = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}
