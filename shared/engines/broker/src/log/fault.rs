//! The first fault of the disk, after which a broker writes nothing more.

use std::error::Error;

use tokio::sync::SetOnce;

/// Why nothing more can be written after a failed write. The unfinished changes are in memory and perhaps on the
/// disk; only recovery, at the next start, determines which.
#[derive(Debug, Default)]
pub(crate) struct Fault(SetOnce<String>);

impl Fault {
    /// Sets the reason. Only the first fault counts.
    pub(crate) fn set(&self, error: impl Error) {
        let mut why: &dyn Error = &error;
        while let Some(source) = why.source() {
            why = source;
        }
        if self.0.set(why.to_string()).is_ok() {
            tracing::error!(%why, "the log cannot be written; refusing all writes");
        }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.initialized()
    }

    /// The reason, once there is a fault.
    pub(crate) fn why(&self) -> Option<String> {
        self.0.get().cloned()
    }

    /// Waits for a fault, and returns the reason.
    pub(crate) async fn wait(&self) -> String {
        self.0.wait().await.clone()
    }
}
