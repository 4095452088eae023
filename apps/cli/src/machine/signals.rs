//! Signals that stop the process.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};

/// Completes on Ctrl-C, SIGTERM or SIGHUP. The signals are caught from this call on: call it before announcing the
/// start, because a stop may follow at once.
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
