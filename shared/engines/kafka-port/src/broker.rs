//! Starts and stops a broker.

use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;

use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::{Notify, oneshot};
use tokio::task::LocalSet;
use triad_runtime::system::SystemClock;
use triad_sqlite::SqliteStore;
use triad_sqlite::topics::Topics;
use triad_workflow::Millis;

use crate::config::{BrokerConfig, TopicsIn};
use crate::core::SharedCore;
use crate::error::Error;
use crate::sasl::{Sasl, SaslConfig};
use crate::server::tls::acceptor;
use crate::server::{self, Door, Guards};

/// The entry point: [`Broker::start`] starts a broker in this process.
#[derive(Debug, Clone, Copy)]
pub struct Broker;

/// A running broker. Dropping the handle stops the broker and does not wait until it has stopped;
/// [`shutdown`](Self::shutdown) does.
#[derive(Debug)]
pub struct BrokerHandle {
    addr: SocketAddr,
    secured_addr: Option<SocketAddr>,
    topics: Topics,
    stop: Arc<Notify>,
    done: Option<oneshot::Receiver<Result<(), Error>>>,
}

impl Broker {
    /// Opens the topics and begins to listen.
    ///
    /// The broker runs on its own thread with a single-threaded runtime, so it neither needs the caller's runtime nor
    /// competes for its workers. This call blocks until clients can connect.
    ///
    /// # Errors
    /// [`Error::Config`] if a setting is out of its bounds or a certificate cannot be used, [`Error::NotLoopback`] if
    /// other machines could reach an address and that is not allowed, [`Error::Listen`] if an address is taken,
    /// [`Error::Topics`] or [`Error::Store`] if the topics cannot be opened, [`Error::Random`], [`Error::System`] or
    /// [`Error::Thread`] if the system gives no random numbers, no sockets, or the thread ends.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), triad_broker::Error> {
    /// use triad_broker::{Broker, BrokerConfig};
    ///
    /// let broker = Broker::start(BrokerConfig::default())?;
    /// println!("bootstrap.servers={}", broker.addr());
    /// broker.shutdown().await
    /// # }
    /// ```
    pub fn start(config: BrokerConfig) -> Result<BrokerHandle, Error> {
        config.check()?;
        let (plain, addr) = bind(config.listen)?;
        let secured = config.secured.as_ref().map(|s| bind(s.listen));
        let (secured, secured_addr) = secured.transpose()?.unzip();
        let stop = Arc::new(Notify::new());
        let (started, wait_started) = std::sync::mpsc::sync_channel(1);
        let (finished, done) = oneshot::channel();
        let thread_stop = Arc::clone(&stop);
        std::thread::Builder::new()
            .name("broker".into())
            .spawn(move || {
                // If the handle was dropped, the error is only logged.
                if let Err(result) =
                    finished.send(run(config, (plain, secured), thread_stop, &started))
                    && let Err(error) = result
                {
                    tracing::error!(%error, "the broker ended in error");
                }
            })?;
        match wait_started.recv() {
            Ok(Ok(topics)) => Ok(BrokerHandle {
                addr,
                secured_addr,
                topics,
                stop,
                done: Some(done),
            }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(Error::Thread),
        }
    }
}

impl BrokerHandle {
    /// The address of the plain listener, for clients' `bootstrap.servers`.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address of the listener with TLS; `None` without [`BrokerConfig::secured`].
    #[must_use]
    pub fn secured_addr(&self) -> Option<SocketAddr> {
        self.secured_addr
    }

    /// The topics that the broker serves.
    #[must_use]
    pub fn topics(&self) -> Topics {
        self.topics.clone()
    }

    /// Closes all connections and waits until that is done. It works under any async runtime.
    ///
    /// # Errors
    /// [`Error::Thread`] if the broker's thread had ended before.
    pub async fn shutdown(mut self) -> Result<(), Error> {
        self.stop.notify_one();
        match self.done.take() {
            Some(done) => done.await.unwrap_or(Err(Error::Thread)),
            None => Ok(()),
        }
    }
}

impl Drop for BrokerHandle {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}

fn bind(addr: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let failed = |source| Error::Listen { addr, source };
    let listener = TcpListener::bind(addr).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// The plain listener, and the secured one.
type Listeners = (TcpListener, Option<TcpListener>);

/// The broker's thread.
fn run(
    config: BrokerConfig,
    listeners: Listeners,
    stop: Arc<Notify>,
    started: &std::sync::mpsc::SyncSender<Result<Topics, Error>>,
) -> Result<(), Error> {
    let opened = open(config, listeners);
    let (runtime, core, own, doors) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            // The caller waits for this, so it receives it.
            let _ = started.send(Err(error));
            return Ok(());
        }
    };
    let topics = core.with(|core| core.topics.clone());
    let _ = started.send(Ok(topics.clone()));
    let tasks = LocalSet::new();
    if own.is_some() {
        tasks.spawn_local(async move { topics.maintain(SystemClock).await });
    }
    tasks.block_on(&runtime, server::run(doors, core, stop));
    // Dropping the tasks closes the connections.
    drop(tasks);
    drop(own);
    Ok(())
}

/// A store that only this broker uses. It is closed once its topics are dropped, too.
#[derive(Debug)]
struct OwnStore {
    _store: SqliteStore<SystemClock>,
    _scratch: Option<TempDir>,
}

type Opened = (Runtime, SharedCore, Option<OwnStore>, Vec<Door>);

fn open(config: BrokerConfig, (plain, secured): Listeners) -> Result<Opened, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let sasl = |config: &Option<SaslConfig>| -> Result<Option<Rc<Sasl>>, Error> {
        let sasl = config.as_ref().map(Sasl::new).transpose()?;
        Ok(sasl.map(Rc::new))
    };
    let plainly = Guards {
        tls: None,
        sasl: sasl(&config.login)?,
    };
    let securely = config.secured.as_ref().map(|secured| {
        Ok::<_, Error>(Guards {
            tls: Some(acceptor(secured)?),
            sasl: sasl(&secured.sasl)?,
        })
    });
    let securely = securely.transpose()?;
    let (topics, own) = open_topics(&runtime, &config.topics)?;
    let core = SharedCore::new(config, topics);
    let doors = {
        let _context = runtime.enter();
        let secured = secured.zip(securely);
        let secured = secured.map(|(listener, guards)| door(listener, guards));
        let doors = std::iter::once(door(plain, plainly)).chain(secured);
        doors.collect::<Result<_, _>>()?
    };
    Ok((runtime, core, own, doors))
}

/// Opens the topics, with the store that they need if it is the broker's own.
fn open_topics(runtime: &Runtime, wanted: &TopicsIn) -> Result<(Topics, Option<OwnStore>), Error> {
    // No order is stored here, so nothing expires.
    let retention = Millis(0);
    let (store, scratch, settings) = match wanted {
        TopicsIn::Opened(topics) => return Ok((topics.clone(), None)),
        TopicsIn::Directory(dir, settings) => {
            let store = SqliteStore::open(dir, SystemClock, retention)?;
            (store, None, settings)
        }
        TopicsIn::Scratch(settings) => {
            let scratch = tempfile::Builder::new().prefix("triad-topics-").tempdir()?;
            let store = SqliteStore::scratch(scratch.path(), SystemClock, retention)?;
            (store, Some(scratch), settings)
        }
    };
    let topics = runtime.block_on(store.open_topics(settings.clone()))?;
    let own = OwnStore {
        _store: store,
        _scratch: scratch,
    };
    Ok((topics, Some(own)))
}

fn door(listener: TcpListener, guards: Guards) -> Result<Door, Error> {
    Ok(Door {
        endpoint: listener.local_addr()?.into(),
        listener: tokio::net::TcpListener::from_std(listener)?,
        guards,
    })
}
