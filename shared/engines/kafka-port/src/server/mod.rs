//! The server: one thread, one task a connection, and a few other tasks.
//!
//! Everything runs on one thread with a single-threaded runtime: a produce request and the fetch that it wakes then
//! need no switch of threads, and the broker never uses more than one core.

pub(crate) mod connection;
pub(crate) mod gate;
#[cfg(test)]
mod tests;
pub(crate) mod tls;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use connection::Closed;
use gate::{LOGIN_WITHIN, LoginGate};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use crate::core::{Client, Core, Endpoint, SharedCore};
use tokio_rustls::TlsAcceptor;

use crate::sasl::Sasl;

/// Wait after the system refused a connection (no file handles).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Bound: time for closing an encrypted connection.
const GOODBYE: Duration = Duration::from_secs(1);

/// A listener, with its guards.
pub(crate) struct Door {
    pub(crate) listener: TcpListener,
    pub(crate) endpoint: Endpoint,
    pub(crate) guards: Guards,
}

/// TLS and login of a listener.
#[derive(Clone)]
pub(crate) struct Guards {
    /// `None`: no encryption.
    pub(crate) tls: Option<TlsAcceptor>,
    /// `None`: no login by SASL.
    pub(crate) sasl: Option<Rc<Sasl>>,
}

/// State that all connections share.
#[derive(Clone)]
struct House {
    core: SharedCore,
    open: Rc<Cell<usize>>,
    budget: Rc<Semaphore>,
}

/// Accepts connections until `stop`.
pub(crate) async fn run(doors: Vec<Door>, core: SharedCore, stop: Arc<Notify>) {
    tokio::task::spawn_local(ticks(core.clone()));
    let house = House {
        core,
        open: Rc::default(),
        budget: Rc::new(Semaphore::new(connection::LARGE_REQUESTS_KIB as usize)),
    };
    for door in doors {
        tokio::task::spawn_local(accept(door, house.clone()));
    }
    stop.notified().await;
}

/// Accepts connections for ever.
async fn accept(door: Door, house: House) {
    let most = house.core.with(|core| core.config.max_connections);
    loop {
        match door.listener.accept().await {
            Ok((stream, peer)) if house.open.get() < most => {
                let guard = ConnectionCount::enter(&house.open);
                let client = Client {
                    peer,
                    endpoint: door.endpoint.clone(),
                };
                let (guards, house) = (door.guards.clone(), house.clone());
                tokio::task::spawn_local(async move {
                    let _guard = guard;
                    match serve(stream, client, guards, house).await {
                        Ok(()) => {}
                        Err(Closed::Io(error)) => tracing::debug!(%peer, %error, "connection lost"),
                        Err(error) => tracing::warn!(%peer, %error, "connection closed"),
                    }
                });
            }
            Ok((_, peer)) => tracing::warn!(%peer, most, "too many connections; closed"),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(
    mut stream: TcpStream,
    client: Client,
    guards: Guards,
    house: House,
) -> Result<(), Closed> {
    stream.set_nodelay(true)?;
    let House { core, budget, .. } = house;
    let deadline = Instant::now() + LOGIN_WITHIN;
    let gate = guards.sasl.map(|sasl| LoginGate::new(sasl, deadline));
    let Some(tls) = guards.tls else {
        let (reader, writer) = stream.split();
        return connection::serve(reader, writer, client, gate, core, budget).await;
    };
    let accepted = timeout_at(deadline, tls.accept(stream)).await;
    let stream = accepted
        .map_err(|_| gate::Shut::TooSlow)?
        .map_err(Closed::Tls)?;
    let (reader, mut writer) = tokio::io::split(stream);
    let served = connection::serve(reader, &mut writer, client, gate, core, budget).await;
    // Ignored: the client may be gone, and all answers are sent.
    let _ = timeout(GOODBYE, writer.shutdown()).await;
    served
}

/// Counts an open connection until dropped, also when its task panics.
struct ConnectionCount(Rc<Cell<usize>>);

impl ConnectionCount {
    fn enter(count: &Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self(Rc::clone(count))
    }
}

impl Drop for ConnectionCount {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

async fn ticks(core: SharedCore) {
    let timer = core.with(|core| Arc::clone(&core.timer));
    loop {
        match core.with(Core::tick) {
            Some(at) => {
                // The deadline and the notification are handled alike.
                let _ = tokio::time::timeout_at(at, timer.notified()).await;
            }
            None => timer.notified().await,
        }
    }
}
