//! The server: one thread, one task a connection, a few tasks beside them.
//!
//! Everything runs on one thread of the broker's own, on a single-threaded runtime: a produce
//! request and the fetch that it wakes then cost no hand-over between threads and no lock, and the
//! broker never takes more than one core from what it runs beside.

pub(crate) mod connection;
pub(crate) mod frame;
pub(crate) mod shape;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};

use crate::core::Core;

/// After the system refused a connection (no file handles), wait so long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until `stop`.
pub(crate) async fn run(
    listener: TcpListener,
    core: Rc<RefCell<Core>>,
    progress: Arc<Notify>,
    stop: Arc<Notify>,
) {
    tokio::task::spawn_local(flushes(Rc::clone(&core), progress));
    tokio::task::spawn_local(ticks(Rc::clone(&core)));
    let open = Rc::new(Cell::new(0_usize));
    let budget = Rc::new(Semaphore::new(connection::LARGE_REQUESTS_KIB as usize));
    let most = core.borrow().config.max_connections;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.notified() => return,
        };
        match accepted {
            Ok((stream, peer)) if open.get() < most => {
                let guard = Open::enter(&open);
                let core = Rc::clone(&core);
                let budget = Rc::clone(&budget);
                tokio::task::spawn_local(async move {
                    let _guard = guard;
                    match connection::serve(stream, peer, core, budget).await {
                        Ok(()) => {}
                        Err(connection::Closed::Io(error)) => {
                            tracing::debug!(%peer, %error, "connection lost");
                        }
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

/// Counts an open connection until dropped, also when its task panics.
struct Open(Rc<Cell<usize>>);

impl Open {
    fn enter(count: &Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self(Rc::clone(count))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

async fn flushes(core: Rc<RefCell<Core>>, progress: Arc<Notify>) {
    loop {
        progress.notified().await;
        core.borrow_mut().flushed();
    }
}

async fn ticks(core: Rc<RefCell<Core>>) {
    let timer = Rc::clone(&core.borrow().timer);
    loop {
        let next = core.borrow_mut().tick();
        match next {
            Some(at) => {
                // Either way there is something to look at.
                let _ = tokio::time::timeout_at(at, timer.notified()).await;
            }
            None => timer.notified().await,
        }
    }
}
