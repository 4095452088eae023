//! The running service: start, queries and shutdown.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::handler::HandlerWithoutStateExt;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::answers::{PlayedAnswers, PlayedCall};
use crate::book::Book;
use crate::faults::{Faults, FaultsError};
use crate::http;
use crate::ledger_file::{LedgerError, LedgerFile};
use crate::shared::ServiceState;
use crate::summary::{KeyView, Summary};

/// How long a shutdown waits for calls that are being answered.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// Settings of the reference service. The default listens on a free loopback port, keeps its ledger
/// in memory and has no faults.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address to listen on; port 0 takes a free one. Default `127.0.0.1:0`.
    pub listen: SocketAddr,
    /// File that keeps the ledger beyond the end of the process. With `None`, the default, it is in memory only.
    pub ledger: Option<PathBuf>,
    /// Fault settings at the start. Default: none.
    pub faults: Faults,
    /// Outputs that replace those that the service computes. Default: none.
    pub answers: PlayedAnswers,
    /// Calls that are answered as recorded; the first that fits. Default: none.
    pub calls: Vec<PlayedCall>,
    /// Most keys of actions that are kept, at about 400 bytes each. Keys are never removed: a new key beyond this
    /// limit is answered 507. Default 1,000,000.
    pub max_keys: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            ledger: None,
            faults: Faults::default(),
            answers: PlayedAnswers::default(),
            calls: Vec::new(),
            max_keys: 1_000_000,
        }
    }
}

/// The reason for which the service did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("listen on {listen}: {source}")]
    Listen {
        /// The configured address.
        listen: SocketAddr,
        /// The operating system's error.
        source: io::Error,
    },
    /// The ledger file cannot be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A fault setting is outside of its limits.
    #[error(transparent)]
    Faults(#[from] FaultsError),
}

/// The entry point: [`ReferenceService::start`] starts a reference service in this process, that is, a remote service
/// that honours the contract, has faults on request, and keeps a ledger of its calls.
pub struct ReferenceService;

impl ReferenceService {
    /// Reads the ledger file, if there is one, listens, and serves on the caller's Tokio runtime.
    ///
    /// # Errors
    /// [`StartError::Faults`] if a fault setting is out of its bounds, [`StartError::Ledger`] if the ledger
    /// file cannot be used, [`StartError::Listen`] if the address cannot be listened on. Nothing is left
    /// running then.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
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
        let shared = Arc::new(ServiceState::new(
            book,
            file,
            config.faults,
            config.answers,
            config.calls,
            stopped,
        ));
        let served = shared.clone();
        let handler = move |request| http::handle(served.clone(), request);
        let listener = listener.tap_io(|stream| {
            // If this fails, answers are only slower.
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

/// A running service. Dropping it stops the service without waiting for calls that are being answered.
pub struct Handle {
    addr: SocketAddr,
    shared: Arc<ServiceState>,
    stop: watch::Sender<bool>,
    server: JoinHandle<()>,
}

impl Handle {
    /// The address that the service listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The fault settings for new calls.
    pub fn faults(&self) -> Faults {
        self.shared.faults().as_ref().clone()
    }

    /// Replaces the fault settings. Calls that have already arrived keep the earlier settings.
    ///
    /// # Errors
    /// [`FaultsError`] for the first setting that is out of its bounds; nothing is changed then.
    pub fn set_faults(&self, faults: Faults) -> Result<(), FaultsError> {
        self.shared.set_faults(faults)
    }

    /// All keys, in the order in which they were first seen. Calls that arrive meanwhile may be missing.
    pub fn ledger(&self) -> Vec<KeyView> {
        let (mut keys, mut more) = (Vec::new(), true);
        while more {
            let page = self.shared.page(keys.len());
            more = !page.is_empty();
            keys.extend(page);
        }
        keys
    }

    /// The counts of all calls in the ledger, including those of earlier processes with the same ledger file.
    /// [`Summary::invalid`] and [`Summary::full`] count from the start of this process only.
    pub fn summary(&self) -> Summary {
        self.shared.summary()
    }

    /// Stops the service: new connections are refused, waiting calls are answered 503 without effect, and calls that
    /// are being answered have 5 s. Afterwards another process can use the ledger file, unless a call took longer
    /// than that.
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
