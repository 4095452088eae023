//! State that all requests share.

use std::sync::Arc;

use tokio::sync::{Mutex, Semaphore, SemaphorePermit, watch};
use triad_core::Timestamp;
use triad_runtime::Clock;

use crate::caller::{Caller, Role};
use crate::installation::Installation;
use crate::problem::Problem;
use crate::random::NoRandom;
use crate::session::Sessions;
use crate::settings::{HEARD_FOR, LISTENERS, READINGS, REQUESTS, Settings};
use crate::topic_reads::TopicReads;

/// A cached text, and when it was read.
pub(crate) type CachedText = Mutex<Option<(Timestamp, Arc<str>)>>;

/// The installation, the settings, and the bounds of the work on it.
pub(crate) struct Desk<I> {
    pub(crate) of: I,
    pub(crate) settings: Settings,
    /// The last look at counts and breakers.
    pub(crate) seen: CachedText,
    /// The last look at the campaigns.
    pub(crate) seen_campaigns: CachedText,
    /// The latest reading of alerts and dead letters, and when it was made.
    heard: Mutex<Option<(Timestamp, TopicReads)>>,
    pub(crate) sessions: Sessions,
    pub(crate) listeners: Arc<Semaphore>,
    pub(crate) stopping: watch::Sender<bool>,
    requests: Semaphore,
    readings: Semaphore,
}

impl<I: Installation> Desk<I> {
    pub(crate) fn new(of: I, settings: Settings) -> Result<Self, NoRandom> {
        Ok(Self {
            of,
            sessions: Sessions::new(&settings.sessions)?,
            settings,
            seen: CachedText::default(),
            seen_campaigns: CachedText::default(),
            heard: Mutex::default(),
            listeners: Arc::new(Semaphore::new(LISTENERS)),
            stopping: watch::Sender::new(false),
            requests: Semaphore::new(REQUESTS),
            readings: Semaphore::new(READINGS),
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.of.clock().now()
    }

    /// Takes one of the [`REQUESTS`](crate::settings::REQUESTS) permits.
    pub(crate) fn enter(&self) -> Result<SemaphorePermit<'_>, Problem> {
        let text = "too many requests are being answered";
        let place = self.requests.try_acquire();
        place.map_err(|_| Problem::later("busy", text, 1))
    }

    /// The latest reading of alerts and dead letters, at most [`HEARD_FOR`] old.
    pub(crate) async fn topic_reads(&self) -> TopicReads {
        let mut last = self.heard.lock().await;
        let now = self.now();
        if let Some((at, heard)) = &*last
            && now.since(*at) < HEARD_FOR
        {
            return heard.clone();
        }
        let heard = TopicReads::read(self.of.topics(), now).await;
        *last = Some((self.now(), heard.clone()));
        heard
    }

    /// Takes one of the permits for reading a topic of dead letters or alerts.
    pub(crate) fn read_topics(&self) -> Result<SemaphorePermit<'_>, Problem> {
        let text = "the topics are being read by others";
        let place = self.readings.try_acquire();
        place.map_err(|_| Problem::later("busy", text, 2))
    }

    /// Refuses the caller unless its role and the settings allow acts.
    pub(crate) fn may_act(&self, caller: &Caller) -> Result<(), Problem> {
        let forbidden = http::StatusCode::FORBIDDEN;
        if self.settings.read_only {
            let text = "this console is read-only and refuses every act";
            return Err(Problem::new(forbidden, "read-only", text));
        }
        if caller.role < Role::Operate {
            let text = "this role permits only reading: the role operate is needed";
            return Err(Problem::new(forbidden, "role", text));
        }
        Ok(())
    }
}
