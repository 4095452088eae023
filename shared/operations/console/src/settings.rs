//! Settings and bounds of the console.

use http::HeaderName;
use triad_workflow::Millis;

use triad_operator::operations::{Hidden, TraceUrl};

use crate::seal::SessionKey;

/// Largest body of a request, in bytes, inclusive: 3 MiB. A form with the corrected value of a dead letter
/// has to fit into it.
pub const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;
/// Largest body of an unknown caller, in bytes, inclusive: 8 KiB. The log-in form fits into it.
pub const STRANGER_BODY_BYTES: usize = 8 * 1024;
/// Most orders that one request of the API acts on, and most dead letters.
pub use triad_operator::bulk::MAX_AT_ONCE;
/// Concurrent listeners to events; the console refuses more with `Retry-After`.
pub(crate) const LISTENERS: usize = 64;
/// Interval between two looks for changes; all listeners share a look.
pub(crate) const LOOK_EVERY: Millis = Millis(2_000);
/// Interval after which a silent stream sends a keep-alive.
pub(crate) const QUIET: Millis = Millis(15_000);
/// Longest time of one listener; then the browser reconnects.
pub(crate) const LISTEN_FOR: Millis = Millis(600_000);
/// Interval after which a browser asks again where no answer can be streamed.
pub(crate) const ASK_AGAIN: Millis = Millis(10_000);
/// Concurrent sessions; beyond it the oldest ends.
pub(crate) const SESSIONS: usize = 1_000;
/// Longest time of a session.
pub(crate) const SESSION_FOR: Millis = Millis(12 * 3_600_000);

/// Settings of the API and the pages. The default lets those act who have the role for it, hides nothing,
/// believes no header, and keeps sessions in memory.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// If true, every act is refused, whatever role the caller has.
    pub read_only: bool,
    /// Fields of payloads whose values are not shown. Default: none.
    pub hidden: Hidden,
    /// The header in which a proxy gives the name of the caller, whom it has authenticated. Such a caller may act.
    /// Every client that reaches the listener can send this header, so set it only if the proxy alone reaches the
    /// listener. A request with an `Authorization` header is judged by its token alone, and one with the cookie of a
    /// session by the session, where sessions count. If a header is set here, a request that has none of the three is
    /// refused, even where [`Keys::is_open`](crate::Keys::is_open) is true. `None`: no header is believed.
    pub user_header: Option<HeaderName>,
    /// Whether browsers reach the pages only over TLS. The session's cookie is then `Secure`.
    pub secure: bool,
    /// Where the pages link to for the trace of an order. `None`: they show the trace's id without a link.
    pub trace_url: Option<TraceUrl>,
    /// The name of the installation, which the pages show. If empty, they show none.
    pub name: String,
    /// Where the sessions of browsers are kept.
    pub sessions: SessionForm,
    /// Whether an answer can only be sent as a whole, as from a function's URL. A request for events is then
    /// answered with the events of that moment, and the browser asks again after ten seconds.
    pub whole_answers: bool,
}

/// Where the sessions of browsers are kept. A session ends after 12 hours.
#[derive(Debug, Clone, Default)]
pub enum SessionForm {
    /// In the memory of this process. All sessions end with the process, and the oldest ends if there are more
    /// than 1,000. A log-out ends the session, so that a copy of its cookie is worth nothing.
    #[default]
    InMemory,
    /// In the cookies, for processes that share this key and nothing else. A log-out only makes the browser
    /// forget its cookie: a copy of the cookie stays valid until the session's time is over.
    Sealed(SessionKey),
}
