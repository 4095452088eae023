//! The first fault of the disk, which ends a broker.

use std::error::Error;

use tokio::sync::SetOnce;

/// Why nothing more can be written, once something could not. What was in hand then is in memory and perhaps on the
/// disk; only recovery, at the next start, knows what is.
#[derive(Debug, Default)]
pub(crate) struct Fault(SetOnce<String>);

impl Fault {
    /// Says why. Only the first fault counts.
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

    /// Why, once there is a fault.
    pub(crate) fn why(&self) -> Option<String> {
        self.0.get().cloned()
    }

    /// Waits for a fault, and says why.
    pub(crate) async fn wait(&self) -> String {
        self.0.wait().await.clone()
    }
}
