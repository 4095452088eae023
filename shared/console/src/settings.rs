//! What is set once, when it starts, and the bounds of everything.

use http::HeaderName;
use triad_workflow::Millis;

use crate::hidden::Hidden;
use crate::seal::SessionKey;
use crate::trace::TraceUrl;

/// Largest body of a request, in bytes: a corrected value of a dead letter has to fit, as a form has it.
pub const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;
/// Most orders that one request acts on, and most dead letters.
pub use triad_operator::bulk::MAX_AT_ONCE;
/// Longest time that one request acts for. What is left then is told.
pub(crate) const ACT_WITHIN: Millis = Millis(20_000);
/// Acts in a second where a request says nothing.
pub(crate) const RATE: u32 = 50;
/// Orders of a page where a request says nothing.
pub(crate) const PAGE: usize = 100;
/// Most campaigns of a list, the newest.
pub(crate) const CAMPAIGNS: usize = 50;
/// Requests that are answered at once; further ones are told to come again.
pub(crate) const REQUESTS: usize = 64;
/// Readings of the topic of dead letters at once: each reads all of it.
pub(crate) const READINGS: usize = 2;
/// Listeners to events at once; further ones are told to come again.
pub(crate) const LISTENERS: usize = 64;
/// Between two looks at what changes, shared by all listeners.
pub(crate) const LOOK_EVERY: Millis = Millis(2_000);
/// After how much silence a listener is told that nothing has changed.
pub(crate) const QUIET: Millis = Millis(15_000);
/// Longest time of one listener; a browser connects again by itself.
pub(crate) const LISTEN_FOR: Millis = Millis(600_000);
/// After how long a browser asks again where nothing streams.
pub(crate) const ASK_AGAIN: Millis = Millis(10_000);
/// Sessions at once; beyond it the oldest ends.
pub(crate) const SESSIONS: usize = 1_000;
/// Longest time of a session.
pub(crate) const SESSION_FOR: Millis = Millis(12 * 3_600_000);
/// Orders whose records are looked at to say what only the whole table would tell.
pub(crate) const SAMPLE: usize = 1_000;

/// For how long a sample of the table is shown.
pub(crate) const SAMPLE_FOR: Millis = Millis(15_000);

/// What is set once.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Whether nobody may act here, whatever their role.
    pub read_only: bool,
    /// Fields of payloads that are not shown.
    pub hidden: Hidden,
    /// The header in which an authenticating proxy says who asks; they may act. Whoever reaches the
    /// listener can send it, so it is for a listener that the proxy alone reaches. `None`: no header is
    /// believed.
    pub user_header: Option<HeaderName>,
    /// Whether browsers reach this over TLS alone, so that they are to send the session's cookie over nothing
    /// else.
    pub secure: bool,
    /// Where the trace of an order is looked at; `None`: pages show its id alone.
    pub trace_url: Option<TraceUrl>,
    /// What the pages call the installation; may be empty.
    pub name: String,
    /// Where the sessions of browsers are.
    pub sessions: SessionForm,
    /// Whether answers go out as a whole, so that nothing can stream: who listens to events is told what there
    /// is, and asks again after ten seconds.
    pub whole_answers: bool,
}

/// Where the sessions of browsers are.
#[derive(Debug, Clone, Default)]
pub enum SessionForm {
    /// In the memory of this process. They end with it, and a log-out ends one wherever its cookie is.
    #[default]
    InMemory,
    /// In the cookies, for processes that share this key and nothing else. A log-out has a browser forget its
    /// cookie; a copy of that would count until the session's time is over.
    Sealed(SessionKey),
}
