//! State that all requests share.

use std::sync::Arc;

use tokio::sync::{Mutex, Semaphore, watch};
use triad_core::Timestamp;
use triad_operator::operations::Operations;

use crate::random::NoRandom;
use crate::session::Sessions;
use crate::settings::{LISTENERS, Settings};

/// A cached text, and when it was read.
pub(crate) type CachedText = Mutex<Option<(Timestamp, Arc<str>)>>;

/// The operations, the settings, and the bounds of the work on them.
pub(crate) struct Desk {
    pub(crate) operations: Arc<dyn Operations>,
    pub(crate) settings: Settings,
    /// The last look at counts and breakers.
    pub(crate) seen: CachedText,
    /// The last look at the campaigns.
    pub(crate) seen_campaigns: CachedText,
    pub(crate) sessions: Sessions,
    pub(crate) listeners: Arc<Semaphore>,
    pub(crate) stopping: watch::Sender<bool>,
}

impl Desk {
    pub(crate) fn new(
        operations: Arc<dyn Operations>,
        settings: Settings,
    ) -> Result<Self, NoRandom> {
        Ok(Self {
            operations,
            sessions: Sessions::new(&settings.sessions)?,
            settings,
            seen: CachedText::default(),
            seen_campaigns: CachedText::default(),
            listeners: Arc::new(Semaphore::new(LISTENERS)),
            stopping: watch::Sender::new(false),
        })
    }
}
