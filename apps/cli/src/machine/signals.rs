//! Signals that stop the process.

use std::future::Future;

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

/// Completes on Ctrl-C, SIGTERM or SIGHUP. The signals are caught from this call on: call it before announcing the
/// start, because a stop may follow at once.
///
/// From this call on a write beyond a limit of file sizes fails, too, as on a full disk, and does not end the process.
pub fn interrupted() -> impl Future<Output = ()> {
    // The handler stays when the listener is dropped.
    if let Err(error) = signal(SignalKind::from_raw(Signal::XFSZ.as_raw())) {
        tracing::warn!(%error, "a limit of file sizes would end the process");
    }
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
