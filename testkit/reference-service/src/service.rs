//! The running service: one lock around the book and its file, waits outside of it.
//!
//! Owns the order of things in a call: arrive, wait, settle (judge, write the line, take it
//! over), hold, answer. Architecture invariant: the line is in the file before the state changes
//! and before the caller is answered; no wait happens under the lock.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::handler::HandlerWithoutStateExt;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::book::{Book, Full, LedgerLine};
use crate::contract::{self, Answer, Call, judge};
use crate::faults::{Decision, Faults, FaultsError, Mishap};
use crate::http;
use crate::ledger_file::{LedgerError, LedgerFile};
use crate::summary::{KeyView, Summary};

/// Calls that may wait (latency, stall) at once; one more is answered 503 without effect.
pub const MAX_WAITING: usize = 10_000;

/// Keys shown by one look at the book, so that a long listing does not hold up calls.
const PAGE: usize = 512;

/// How long a shutdown waits for answers under way.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// What the service needs to start.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address to listen on; port 0 picks a free one.
    pub listen: SocketAddr,
    /// File that keeps the ledger over restarts; without one it lives in memory only.
    pub ledger: Option<PathBuf>,
    /// Fault settings at the start.
    pub faults: Faults,
    /// Most forward keys remembered, at about 400 bytes each. Keys are never forgotten: a new
    /// one beyond the bound is answered 507.
    pub max_keys: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            ledger: None,
            faults: Faults::default(),
            max_keys: 1_000_000,
        }
    }
}

/// Why the service did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("listen on {listen}: {source}")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },
    /// The ledger file cannot be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A fault setting is out of its bounds.
    #[error(transparent)]
    Faults(#[from] FaultsError),
}

/// The reference remote service.
pub struct ReferenceService;

impl ReferenceService {
    /// Reloads the ledger, listens and serves on the caller's tokio runtime.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running then.
    pub async fn start(config: Config) -> Result<Handle, StartError> {
        config.faults.validate()?;
        let mut book = Book::new(config.max_keys);
        let file = match &config.ledger {
            Some(path) => Some(LedgerFile::open(path, &mut book)?),
            None => None,
        };
        let listen = config.listen;
        let listen_error = |source| StartError::Listen { listen, source };
        let listener = TcpListener::bind(listen).await.map_err(listen_error)?;
        let addr = listener.local_addr().map_err(listen_error)?;
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::new(Shared {
            core: Mutex::new(Core {
                book,
                file,
                faults: Arc::new(config.faults),
            }),
            waiting: Arc::new(Semaphore::new(MAX_WAITING)),
            invalid: AtomicU64::new(0),
            full: AtomicU64::new(0),
            stopped,
        });
        let served = shared.clone();
        let handler = move |request| http::handle(served.clone(), request);
        let listener = listener.tap_io(|stream| {
            // A failure costs latency only.
            let _ = stream.set_nodelay(true);
        });
        let mut stopping = shared.stopped.clone();
        let server = tokio::spawn(async move {
            let serve = axum::serve(listener, handler.into_make_service());
            let stopping = async move {
                let _ = stopping.wait_for(|stop| *stop).await;
            };
            if let Err(error) = serve.with_graceful_shutdown(stopping).await {
                tracing::error!(%error, "the reference service stopped serving");
            }
        });
        Ok(Handle {
            addr,
            shared,
            stop,
            server,
        })
    }
}

/// A running service. Dropping it stops the service without waiting for answers under way.
pub struct Handle {
    addr: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    server: JoinHandle<()>,
}

impl Handle {
    /// The address that it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The fault settings in force.
    pub fn faults(&self) -> Faults {
        self.shared.faults().as_ref().clone()
    }

    /// Replaces the fault settings; calls that have come in already keep their fate.
    ///
    /// # Errors
    /// A setting that is out of its bounds; nothing is changed then.
    pub fn set_faults(&self, faults: Faults) -> Result<(), FaultsError> {
        self.shared.set_faults(faults)
    }

    /// Every key, in the order in which they were first seen. Each is consistent in itself.
    pub fn ledger(&self) -> Vec<KeyView> {
        let (mut keys, mut more) = (Vec::new(), true);
        while more {
            let page = self.shared.page(keys.len());
            more = !page.is_empty();
            keys.extend(page);
        }
        keys
    }

    /// The counts.
    pub fn summary(&self) -> Summary {
        self.shared.summary()
    }

    /// Stops: no new connections, waiting calls are answered 503 without effect, answers under
    /// way are given five seconds. The ledger file is free for another process afterwards,
    /// unless a call outlived the five seconds.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(true);
        if tokio::time::timeout(SHUTDOWN_GRACE, &mut self.server)
            .await
            .is_err()
        {
            tracing::warn!("answers were still under way when the reference service stopped");
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        self.server.abort();
    }
}

/// What the connections share.
pub(crate) struct Shared {
    core: Mutex<Core>,
    waiting: Arc<Semaphore>,
    invalid: AtomicU64,
    full: AtomicU64,
    stopped: watch::Receiver<bool>,
}

struct Core {
    book: Book,
    file: Option<LedgerFile>,
    faults: Arc<Faults>,
}

/// A call that has come in, has its number and its fate, and waits to be settled.
struct Arrived {
    call: Call,
    number: u32,
    decision: Decision,
}

impl Shared {
    fn core(&self) -> MutexGuard<'_, Core> {
        self.core
            .lock()
            .expect("nothing panics while it holds the book")
    }

    pub(crate) fn faults(&self) -> Arc<Faults> {
        self.core().faults.clone()
    }

    pub(crate) fn set_faults(&self, faults: Faults) -> Result<(), FaultsError> {
        faults.validate()?;
        self.core().faults = Arc::new(faults);
        Ok(())
    }

    pub(crate) fn page(&self, from: usize) -> Vec<KeyView> {
        self.core().book.page(from, PAGE)
    }

    pub(crate) fn summary(&self) -> Summary {
        let summary = self.core().book.summary();
        Summary {
            invalid: self.invalid.load(Ordering::Relaxed),
            full: self.full.load(Ordering::Relaxed),
            ..summary
        }
    }

    pub(crate) fn count_invalid(&self) {
        self.invalid.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the effect under a forward key is in place.
    pub(crate) fn probe(&self, service: &str, key: &str) -> Answer {
        let core = self.core();
        if core.faults.plan(service).down {
            return contract::down(core.faults.plan(service).retry_after_s);
        }
        contract::probe(&core.book, service, key)
    }

    /// Handles one call from its arrival to its answer.
    pub(crate) async fn call(self: Arc<Self>, call: Call) -> Answer {
        let (arrived, first_ms, hold_ms) = {
            let mut core = self.core();
            let number = match core.book.arrive(&call.head) {
                Ok(number) => number,
                Err(Full { .. }) => {
                    self.full.fetch_add(1, Ordering::Relaxed);
                    return ledger_full();
                }
            };
            let head = &call.head;
            let decision = core
                .faults
                .decide(&head.service, &head.key, head.direction, number);
            let (first_ms, hold_ms) = waits(&decision);
            let arrived = Arrived {
                call,
                number,
                decision,
            };
            if first_ms == 0 && hold_ms == 0 {
                return core.settle(arrived);
            }
            (arrived, first_ms, hold_ms)
        };
        let Ok(permit) = self.waiting.clone().try_acquire_owned() else {
            return self.core().settle(arrived.given_up());
        };
        // A task of its own: when the caller hangs up during the wait, the call still lands, as
        // it would on a real service. That is how a forward call arrives after its own undo.
        let landed = tokio::spawn(async move {
            let _permit = permit;
            let arrived = if self.wait(first_ms).await {
                arrived
            } else {
                arrived.given_up()
            };
            let answer = self.core().settle(arrived);
            self.wait(hold_ms).await;
            answer
        });
        landed.await.expect("settling a call does not panic")
    }

    /// Waits; false when the service is stopped meanwhile.
    async fn wait(&self, wait_ms: u64) -> bool {
        if wait_ms == 0 {
            return true;
        }
        let mut stopped = self.stopped.clone();
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(wait_ms)) => true,
            _ = stopped.wait_for(|stop| *stop) => false,
        }
    }
}

/// Milliseconds to wait before the effect and after it.
fn waits(decision: &Decision) -> (u64, u64) {
    match decision.mishap {
        Mishap::Down => (0, 0),
        Mishap::Stall {
            stall_ms,
            after_effect: true,
        } => (decision.wait_ms, stall_ms),
        Mishap::Stall {
            stall_ms,
            after_effect: false,
        } => (decision.wait_ms + stall_ms, 0),
        Mishap::None | Mishap::Transient { .. } | Mishap::Garbage { .. } => (decision.wait_ms, 0),
    }
}

impl Arrived {
    /// The same call, failing without effect.
    fn given_up(mut self) -> Self {
        self.decision.mishap = Mishap::Transient {
            status: 503,
            after_effect: false,
        };
        self
    }
}

impl Core {
    /// Judges a call, writes its line, takes it over. The lock is held from the judgement to the
    /// change of state, so two calls with one key cannot both find it new.
    fn settle(&mut self, arrived: Arrived) -> Answer {
        let judgement = judge(&self.book, &arrived.call, &arrived.decision);
        let fingerprint = arrived.call.fingerprint();
        let line = LedgerLine {
            at_ms: wall_ms(),
            head: arrived.call.head,
            fingerprint,
            call: arrived.number,
            kind: judgement.kind,
            cause: judgement.cause,
        };
        if let Some(file) = &mut self.file
            && let Err(error) = file.append(&line)
        {
            tracing::error!(%error, "the ledger cannot be written; the call has no effect");
            return Answer::Error {
                status: 500,
                code: "ledger",
                message: "the ledger cannot be written, the call has no effect",
                retry_after_s: None,
            };
        }
        self.book.apply(&line);
        judgement.answer
    }
}

fn ledger_full() -> Answer {
    Answer::Error {
        status: 507,
        code: "ledger_full",
        message: "the ledger is full and never forgets a key",
        retry_after_s: None,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one clock of this process, for the ledger's at_ms only; nothing is decided by it"
)]
fn wall_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}
