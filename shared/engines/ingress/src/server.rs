//! The listener, its connections, and the stop.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

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
use triad_console::tokens::{Tokens, TokensError};
use triad_runtime::submission::Submission;
use triad_runtime::{Bus, Clock, DefinitionStore, StateStore};

use crate::access::Access;
use crate::body::Memory;
use crate::front::{Front, OperatorsAlone, Serves};
use crate::order_end_waiters::OrderEndWaiters;
use crate::queue::Queue;
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

/// Memory budget for the bodies of unknown callers, in bytes: some 120 concurrent log-ins.
const STRANGERS_BODY_BYTES: usize = 1024 * 1024;

type WatchedTls = Watched<ServerConfig, TlsError>;

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
    /// The bus of `submission` should be a [`Noticing`](crate::Noticing) with the same `ends`, and so should those of
    /// the other handlers of this process. The end of an order whose status passes no such bus is found only by the
    /// periodic reads of the store ([`Limits::look_every`](crate::Limits::look_every)).
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
        let written = settings.written.clone();
        let (front, tls, listener) = opened(settings).await?;
        let (queue, handing_over) = Queue::start(&submission, front.limits.orders);
        let server = Self::of(&front, listener.1, handing_over);
        let service = Service {
            store,
            queue,
            ends,
            front,
            timing,
            hidden,
            written,
            ready_at: Mutex::default(),
        };
        server.take_in(service, tls, listener.0);
        Ok(server)
    }

    /// Begins to listen only for operators ([`Settings::operators`]): no order is accepted.
    ///
    /// # Errors
    /// The same as those of [`start`](Self::start).
    pub async fn for_operators(settings: Settings) -> Result<Self, StartError> {
        let (front, tls, (listener, address)) = opened(settings).await?;
        let server = Self::of(&front, address, Vec::new());
        server.take_in(OperatorsAlone(front), tls, listener);
        Ok(server)
    }

    fn of(front: &Front, address: SocketAddr, handing_over: Vec<JoinHandle<()>>) -> Self {
        Self {
            address,
            stopping: front.stopping.clone(),
            broken_off: CancellationToken::new(),
            tasks: TaskTracker::new(),
            handing_over,
            within: front.limits.stop_within.min(LONGEST_STOP),
        }
    }

    /// Begins to accept connections.
    fn take_in(&self, service: impl Serves, tls: Option<WatchedTls>, listener: TcpListener) {
        let door = Arc::new(Door {
            service,
            tls,
            tasks: self.tasks.clone(),
            broken_off: self.broken_off.clone(),
        });
        self.tasks.spawn(Arc::clone(&door).look_at_files());
        self.tasks.spawn(door.accept(listener));
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
        access(self)?;
        open_tls(self)?;
        Ok(())
    }
}

/// The parts of a server: access, TLS, and the listener with its address.
async fn opened(
    settings: Settings,
) -> Result<(Front, Option<WatchedTls>, (TcpListener, SocketAddr)), StartError> {
    let access = access(&settings)?;
    let tls = open_tls(&settings)?;
    let ip = settings.listen.ip().to_canonical();
    if !ip.is_loopback() && tls.is_none() {
        tracing::warn!(%ip, "tokens and orders can be read on their way: there is no TLS");
    }
    let listener = listen(settings.listen).await?;
    let limits = settings.limits;
    let front = Front {
        access: Arc::new(access),
        memory: Memory::new(limits.body_bytes),
        operators_memory: Memory::new(limits.operator_body_bytes),
        strangers_memory: Memory::new(STRANGERS_BODY_BYTES),
        stopping: CancellationToken::new(),
        operators: settings.operators,
        limits,
    };
    Ok((front, tls, listener))
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |why| StartError::Listen { address, why };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

fn access(settings: &Settings) -> Result<Access, StartError> {
    let ip = settings.listen.ip().to_canonical();
    let Some(file) = settings.tokens.clone() else {
        return match ip.is_loopback() {
            true => Ok(Access::Machine),
            false => Err(StartError::Open(ip)),
        };
    };
    let wrong = |why| StartError::Tokens {
        file: file.clone(),
        why,
    };
    let of = file.clone();
    let is_first = AtomicBool::new(true);
    let read = move || match (Tokens::read(&of), is_first.swap(false, Ordering::Relaxed)) {
        // All tokens were removed from the file.
        (Err(TokensError::Empty), false) => {
            tracing::warn!(file = %of.display(), "the file has no token any more: every request is refused");
            Ok(Tokens::default())
        }
        (read, _) => read,
    };
    let watched = Watched::open(vec![file.clone()], Box::new(read)).map_err(wrong)?;
    Ok(Access::Tokens(watched))
}

fn open_tls(settings: &Settings) -> Result<Option<WatchedTls>, TlsError> {
    let open = |files: crate::tls::TlsFiles| {
        let paths = vec![files.certificate.clone(), files.key.clone()];
        Watched::open(paths, Box::new(move || tls::read(&files)))
    };
    settings.tls.clone().map(open).transpose()
}

/// Accepts connections.
struct Door<S> {
    service: S,
    tls: Option<WatchedTls>,
    tasks: TaskTracker,
    broken_off: CancellationToken,
}

impl<S: Serves> Door<S> {
    /// Accepts connections until the server stops. At the bound, further connections wait in the system's queue.
    async fn accept(self: Arc<Self>, listener: TcpListener) {
        let most = self.service.front().limits.connections;
        let places = Arc::new(Semaphore::new(most.clamp(1, Semaphore::MAX_PERMITS)));
        let stopping = self.service.front().stopping.clone();
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
        if let Some(operators) = &self.service.front().operators {
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
        let limits = &self.service.front().limits;
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
        let limits = &self.service.front().limits;
        let service =
            service_fn(|request| async { Ok::<_, Infallible>(self.service.answer(request).await) });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_within)
            .max_header_size(limits.header_bytes)
            .max_buf_size(limits.header_bytes.max(BUFFER))
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.service.front().stopping.cancelled() => {
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
        let every = self.service.front().limits.files_every;
        let stopping = self.service.front().stopping.clone();
        let is_watched =
            self.tls.is_some() || matches!(*self.service.front().access, Access::Tokens(_));
        while is_watched && !stopping.is_cancelled() {
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                () = stopping.cancelled() => return,
            }
            let door = Arc::clone(&self);
            // Blocking: the file may be on a slow file system.
            let looked = tokio::task::spawn_blocking(move || {
                if let Access::Tokens(tokens) = &*door.service.front().access {
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
