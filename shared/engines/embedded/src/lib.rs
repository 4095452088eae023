//! The embedded DynamoDB engine, for local runs and tests on one machine.
//!
//! Production runs on DynamoDB. Here an engine that keeps its tables in SQLite answers the same
//! API twice: on a loopback port, for any DynamoDB client, and on a direct line inside the
//! process, behind the AWS SDK's own HTTP interface, which saves the socket and nothing else:
//! requests are serialised, sent and parsed as always.
//!
//! The engine's calls block, so it has threads of its own.

mod direct;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::thread::JoinHandle;
use std::time::Duration;

use aws_sdk_dynamodb::config::SharedHttpClient;
use dynoxide::Database;
use tokio::sync::oneshot;

/// How often expired items are deleted.
const TTL_SWEEP: Duration = Duration::from_secs(60);

/// Why the engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The file with the tables cannot be opened or read.
    #[error("the tables in {path} cannot be opened: {reason}")]
    Open {
        /// Path of the file, or `memory` if the tables are in memory.
        path: String,
        /// Why it cannot be opened, for people.
        reason: String,
    },
    /// The port cannot be opened, for instance because it is taken, or a thread cannot be started.
    #[error("the DynamoDB port cannot be opened: {0}")]
    Listen(#[from] std::io::Error),
}

/// A running engine. Dropping it closes the port and the direct line, and waits until the engine's
/// threads have ended.
#[derive(Debug)]
pub struct Embedded {
    addr: SocketAddr,
    direct: direct::DatabaseThread,
    stop_server: Option<oneshot::Sender<()>>,
    stop_sweeper: Option<std::sync::mpsc::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Embedded {
    /// Starts the engine at this address; port 0 takes a free one. There is no authentication, so
    /// it should be a loopback address, which is not checked here. If `data` is a directory, the tables
    /// are in its file `dynamodb.sqlite`, and a write that was acknowledged survives `kill -9`. If it is
    /// `None`, the tables are in memory and end with the engine.
    ///
    /// # Errors
    /// [`StartError::Open`] if the file cannot be opened, [`StartError::Listen`] if the port
    /// cannot, or if a thread cannot be started.
    pub fn start(listen: SocketAddr, data: Option<&Path>) -> Result<Self, StartError> {
        let db = open(data)?;
        let listener = std::net::TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let (stop_server, stopped) = oneshot::channel::<()>();
        let server = {
            let db = db.clone();
            spawn("dynamodb-http", move || serve(listener, db, stopped))?
        };
        let (stop_sweeper, sweeper_stopped) = std::sync::mpsc::channel::<()>();
        let sweeper = {
            let db = db.clone();
            spawn("dynamodb-ttl", move || {
                while sweeper_stopped.recv_timeout(TTL_SWEEP) == Err(RecvTimeoutError::Timeout) {
                    if let Err(e) = db.sweep_ttl() {
                        tracing::warn!(error = %e, "expired items could not be deleted");
                    }
                }
            })?
        };
        let (direct, line) = direct::DatabaseThread::open(db)?;
        Ok(Self {
            addr,
            direct,
            stop_server: Some(stop_server),
            stop_sweeper: Some(stop_sweeper),
            threads: vec![server, sweeper, line],
        })
    }

    /// The address of the port, for any DynamoDB client.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The direct line: an HTTP client for AWS's SDK in this process, which reaches the engine without a
    /// socket. It knows only the operations that Triad uses; others get a `ValidationException`. After the
    /// engine has stopped, calls fail like those on a connection that is refused.
    #[must_use]
    pub fn http_client(&self) -> SharedHttpClient {
        self.direct.http_client()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.stop_server.take();
        self.stop_sweeper.take();
        self.direct.close();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::warn!("a thread of the embedded engine had panicked");
            }
        }
    }
}

fn open(data: Option<&Path>) -> Result<Database, StartError> {
    let (result, path) = match data {
        None => (Database::memory(), "memory".to_owned()),
        Some(dir) => {
            let file = dir.join("dynamodb.sqlite").display().to_string();
            (Database::new(&file), file)
        }
    };
    result.map_err(|e| StartError::Open {
        path,
        reason: e.to_string(),
    })
}

fn serve(listener: std::net::TcpListener, db: Database, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        tracing::error!("the DynamoDB port has no runtime");
        return;
    };
    runtime.block_on(async move {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(e) => {
                tracing::error!(error = %e, "the DynamoDB port cannot be served");
                return;
            }
        };
        // Stops at once: a client that keeps its connection does not hold up the end.
        tokio::select! {
            () = dynoxide::server::serve_on(listener, db) => {}
            _ = stopped => {}
        }
    });
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
}
