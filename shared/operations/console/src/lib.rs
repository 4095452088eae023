//! Operations over HTTP: an API in JSON for programs, and pages for a browser.
//!
//! | path | is |
//! |---|---|
//! | `/v1/operate/…` | the API; `/v1/operate/openapi.json` describes it |
//! | `/console/…` | the pages |
//!
//! The console is a function from a request to an answer, over [`triad_operator`] and the ports. The server
//! that owns a listener calls it, and names the callers to accept ([`Keys`]). The command line reads, refuses
//! and acts by the same functions. Every act is stored with its operator and reason in the record that it changes.
//!
//! **Bounds**: concurrent requests, the orders and the time of one request's acts, rows and records read for
//! a page, listeners to events, sessions, bodies; see [`MAX_BODY_BYTES`] and [`MAX_AT_ONCE`]. Where no index
//! answers a question, the answer is a sample and says so.
//!
//! | module | owns |
//! |---|---|
//! | `api` | paths of the API, and its answers |
//! | `site` | the pages |
//! | `acts` | acts of operators, carried out |
//! | `events` | changes, sent to listeners |
//! | `session`, `seal`, `caller` | callers and their roles |
//! | [`tokens`] | the file of tokens |
//! | `hidden` | fields that no answer shows |
//! | `trace` | the link to an order's trace |
//! | `shared_state` | the state that all requests share |
//! | `topic_reads` | recent alerts and dead letters |
//!
//! Architecture invariant: this crate has no rule about orders, no listener and no TLS, and does not depend
//! on DynamoDB, Kafka or SQLite.

mod acts;
mod answer;
mod api;
mod caller;
mod console;
mod events;
mod hidden;
mod installation;
mod letters;
mod params;
mod problem;
mod random;
mod seal;
mod session;
mod settings;
mod shared_state;
mod site;
pub mod tokens;
mod topic_reads;
mod trace;
mod versions;

pub use answer::{Answer, Body};
pub use caller::{Caller, Digest, Keys, Role};
pub use console::{Answers, Console, elsewhere};
pub use hidden::Hidden;
pub use installation::{Installation, Parts};
pub use random::NoRandom;
pub use seal::{MIN_SECRET_BYTES, SessionKey, ShortSecret};
pub use settings::{MAX_AT_ONCE, MAX_BODY_BYTES, STRANGER_BODY_BYTES, SessionForm, Settings};
pub use trace::{InvalidTraceUrl, TraceUrl};
