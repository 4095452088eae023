//! What asks a process to end.

/// Waits for Ctrl-C, or for the signals by which a terminal that is closed or another program ends it.
pub async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let told = |kind| async move {
        match signal(kind) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = told(SignalKind::terminate()) => {}
        () = told(SignalKind::hangup()) => {}
    }
}
