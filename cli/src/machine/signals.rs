//! What asks a process to end.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};

/// Completes with Ctrl-C, or with the signals by which a terminal that is closed or another program ends the
/// process. They are caught from this call on: whoever says that it has started should have called it
/// before, for it may be told to stop at once.
pub fn interrupted() -> impl Future<Output = ()> {
    let caught = |kind| {
        let signal = signal(kind);
        async move {
            match signal {
                Ok(mut signal) => drop(signal.recv().await),
                Err(_) => std::future::pending().await,
            }
        }
    };
    let interrupt = caught(SignalKind::interrupt());
    let terminate = caught(SignalKind::terminate());
    let hangup = caught(SignalKind::hangup());
    async move {
        tokio::select! {
            () = interrupt => {}
            () = terminate => {}
            () = hangup => {}
        }
    }
}
