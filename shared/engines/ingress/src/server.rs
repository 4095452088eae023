//! The listener, its connections, and the stop.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service as _;
use triad_runtime::submission::Submission;
use triad_runtime::{Bus, Clock, DefinitionStore, StateStore};

use crate::access::Access;
use crate::body::Memory;
use crate::front::Front;
use crate::order_end_waiters::OrderEndWaiters;
use crate::queue::Queue;
use crate::routes;
use crate::service::Service;
use crate::settings::{Settings, StartError};
use crate::tls::{self, TlsError};
use crate::watched::Watched;

/// Largest read buffer of one connection, in bytes; it grows as needed. It does not bound a body.
const BUFFER: usize = 64 * 1024;
/// Largest effective [`Limits::stop_within`](crate::Limits::stop_within).
const LONGEST_STOP: Duration = Duration::from_hours(24);
/// Wait after a failed accept: the process has too many open files.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Concurrent events and cancellations; fewer than an installation's operations execute at once.
const TURNS: usize = 48;

/// Memory budget for the bodies of unknown callers, in bytes: some 120 concurrent log-ins.
const STRANGERS_BODY_BYTES: usize = 1024 * 1024;

/// A running server: one that takes orders, or one for operators alone. If it is dropped without
/// [`stop`](Self::stop), the requests under way get no answer.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    /// Cancelled at the stop: no further connection or request is accepted.
    stopping: CancellationToken,
    /// Cancelled at the end of the stop: the remaining connections are closed.
    broken_off: CancellationToken,
    tasks: TaskTracker,
    handing_over: Vec<JoinHandle<()>>,
    within: Duration,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopping.cancel();
        self.broken_off.cancel();
    }
}

impl Server {
    /// Begins to listen, for orders and, with [`Settings::operators`], for operators. `submission` stores the orders;
    /// they are read from `store`.
    ///
    /// The handlers of this process should write by [`OrderEndWaiters::commit`], with the same `ends`. An end that is
    /// written otherwise is found only by the periodic reads of the store
    /// ([`Limits::look_every`](crate::Limits::look_every)).
    ///
    /// # Errors
    /// [`StartError::Open`] if the address is not a loopback one and there are no tokens, [`StartError::Tokens`] or
    /// [`StartError::Tls`] if a file cannot be used, [`StartError::Listen`] if the address cannot be listened on.
    pub async fn start<S, B, C>(
        settings: Settings,
        submission: Arc<Submission<S, B, C>>,
        store: S,
        ends: OrderEndWaiters,
    ) -> Result<Self, StartError>
    where
        S: StateStore + DefinitionStore + Clone,
        B: Bus,
        C: Clock,
    {
        let (timing, hidden) = (settings.timing, settings.hidden.clone());
        let (written, operations) = (settings.written.clone(), settings.operations.clone());
        let opened = Opened::of(settings).await?;
        let (queue, handing_over) = Queue::start(&submission, opened.front.limits.orders);
        let service = Service {
            store,
            queue,
            ends,
            front: Arc::clone(&opened.front),
            timing,
            hidden,
            operations,
            turns: Semaphore::new(TURNS),
            written,
            ready_at: Mutex::default(),
        };
        Ok(opened.serve(routes::router(service), handing_over))
    }

    /// Begins to listen only for operators ([`Settings::operators`]): no order is accepted.
    ///
    /// # Errors
    /// The same as those of [`start`](Self::start).
    pub async fn for_operators(settings: Settings) -> Result<Self, StartError> {
        let opened = Opened::of(settings).await?;
        Ok(opened.serve(Router::new(), Vec::new()))
    }

    /// The address that is listened on, with its port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts no further connection, answers the requests under way, and stops. Requests that wait for the end of an
    /// order are answered with its present state. A request that takes longer than
    /// [`Limits::stop_within`](crate::Limits::stop_within) is cut off: its client gets no answer, and cannot know
    /// whether its order was stored.
    pub async fn stop(mut self) {
        self.stopping.cancel();
        self.tasks.close();
        let until = Instant::now() + self.within;
        if timeout_at(until, self.tasks.wait()).await.is_err() {
            tracing::warn!("requests are broken off: they took too long to end");
            self.broken_off.cancel();
            self.tasks.wait().await;
        }
        // No request submits any more, so these tasks end once their present groups are stored.
        for mut task in self.handing_over.drain(..) {
            if timeout_at(until, &mut task).await.is_err() {
                task.abort();
            }
        }
    }
}

impl Settings {
    /// Checks the settings without listening: the address, the file of tokens and the files of TLS.
    ///
    /// # Errors
    /// Those of [`Server::start`], except for [`StartError::Listen`].
    pub fn check(&self) -> Result<(), StartError> {
        Access::open(self)?;
        tls::watch(self.tls.clone())?;
        Ok(())
    }
}

/// A server that listens, and accepts no connection yet.
struct Opened {
    front: Arc<Front>,
    tls: Option<Watched<ServerConfig, TlsError>>,
    listener: TcpListener,
    address: SocketAddr,
}

impl Opened {
    async fn of(settings: Settings) -> Result<Self, StartError> {
        let access = Access::open(&settings)?;
        let tls = tls::watch(settings.tls.clone())?;
        let ip = settings.listen.ip().to_canonical();
        if !ip.is_loopback() && tls.is_none() {
            tracing::warn!(%ip, "tokens and orders can be read on their way: there is no TLS");
        }
        let (listener, address) = listen(settings.listen).await?;
        let limits = settings.limits;
        let front = Arc::new(Front {
            access: Arc::new(access),
            memory: Memory::new(limits.body_bytes),
            operators_memory: Memory::new(limits.operator_body_bytes),
            strangers_memory: Memory::new(STRANGERS_BODY_BYTES),
            stopping: CancellationToken::new(),
            operators: settings.operators,
            limits,
        });
        Ok(Self {
            front,
            tls,
            listener,
            address,
        })
    }

    /// Begins to accept connections, for the paths of applications and all others of the server.
    fn serve(self, applications: Router, handing_over: Vec<JoinHandle<()>>) -> Server {
        let front = Arc::clone(&self.front);
        let others = move |request| async move { front.answer(request).await };
        let server = Server {
            address: self.address,
            stopping: self.front.stopping.clone(),
            broken_off: CancellationToken::new(),
            tasks: TaskTracker::new(),
            handing_over,
            within: self.front.limits.stop_within.min(LONGEST_STOP),
        };
        let door = Arc::new(Door {
            front: self.front,
            paths: applications.fallback(others),
            tls: self.tls,
            tasks: server.tasks.clone(),
            broken_off: server.broken_off.clone(),
        });
        server.tasks.spawn(Arc::clone(&door).look_at_files());
        server.tasks.spawn(door.accept(self.listener));
        server
    }
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |why| StartError::Listen { address, why };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Accepts connections.
struct Door {
    front: Arc<Front>,
    paths: Router,
    tls: Option<Watched<ServerConfig, TlsError>>,
    tasks: TaskTracker,
    broken_off: CancellationToken,
}

impl Door {
    /// Accepts connections until the server stops. At the bound, further connections wait in the system's queue.
    async fn accept(self: Arc<Self>, listener: TcpListener) {
        let most = self.front.limits.connections;
        let places = Arc::new(Semaphore::new(most.clamp(1, Semaphore::MAX_PERMITS)));
        let stopping = self.front.stopping.clone();
        let next = async {
            loop {
                let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                    return;
                };
                match listener.accept().await {
                    Ok((stream, _)) => {
                        self.tasks
                            .spawn(Arc::clone(&self).connection(stream, place));
                    }
                    Err(e) => {
                        tracing::warn!(error = %e, "a connection was not taken");
                        tokio::time::sleep(AFTER_FAILURE).await;
                    }
                }
            }
        };
        tokio::select! {
            () = next => {}
            () = stopping.cancelled() => {}
        }
        // Streams of events would otherwise last for minutes.
        if let Some(operators) = &self.front.operators {
            operators.stop();
        }
    }

    /// Serves one connection from its beginning to its end, within the server's lifetime.
    async fn connection(self: Arc<Self>, stream: TcpStream, _place: OwnedSemaphorePermit) {
        let broken_off = self.broken_off.clone();
        tokio::select! {
            () = self.serve(stream) => {}
            () = broken_off.cancelled() => {}
        }
    }

    async fn serve(&self, stream: TcpStream) {
        // An answer is one write, so delaying packets gains nothing.
        let _ = stream.set_nodelay(true);
        let limits = &self.front.limits;
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(limits.body_within));
        let stream = Box::pin(stream);
        let Some(tls) = &self.tls else {
            return self.serve_connection(stream).await;
        };
        let acceptor = TlsAcceptor::from(tls.get());
        let shaken = tokio::time::timeout(limits.header_within, acceptor.accept(stream)).await;
        match shaken {
            Ok(Ok(stream)) => self.serve_connection(stream).await,
            Ok(Err(e)) => tracing::debug!(error = %e, "no TLS"),
            Err(_) => tracing::debug!("no TLS in time"),
        }
    }

    async fn serve_connection<T: AsyncRead + AsyncWrite + Unpin>(&self, stream: T) {
        let limits = &self.front.limits;
        let service = service_fn(|request| self.paths.clone().call(request));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_within)
            .max_header_size(limits.header_bytes)
            .max_buf_size(limits.header_bytes.max(BUFFER))
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.front.stopping.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(e) = ended {
            tracing::debug!(error = %e, "a connection has ended");
        }
    }

    /// Checks periodically whether the files have changed.
    async fn look_at_files(self: Arc<Self>) {
        let every = self.front.limits.files_every;
        let stopping = self.front.stopping.clone();
        let is_watched = self.tls.is_some() || matches!(*self.front.access, Access::Tokens(_));
        while is_watched && !stopping.is_cancelled() {
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                () = stopping.cancelled() => return,
            }
            let door = Arc::clone(&self);
            // Blocking: the file may be on a slow file system.
            let looked = tokio::task::spawn_blocking(move || {
                if let Access::Tokens(tokens) = &*door.front.access {
                    tokens.reload_if_changed();
                }
                if let Some(tls) = &door.tls {
                    tls.reload_if_changed();
                }
            });
            if let Err(e) = looked.await {
                tracing::error!(error = %e, "the files of tokens and TLS were not checked");
            }
        }
    }
}
