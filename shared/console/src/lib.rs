//! What operators do over HTTP: an API in JSON for programs, and pages for a browser.
//!
//! | path | is |
//! |---|---|
//! | `/v1/operate/…` | the API; `/v1/operate/openapi.json` describes it |
//! | `/console/…` | the pages |
//!
//! It is a function from a request to an answer, over [`triad_operator`] and the ports: whoever has a
//! listener calls it, and says who may come in ([`Keys`]). What is read, refused and done is what the
//! command line reads, refuses and does, by the same functions; every act is kept with who and why in the
//! record that it is about.
//!
//! **What is bounded**: requests at once, the orders that one request acts on and the time it takes, rows
//! and records that are looked at for a page, listeners to events, sessions, bodies; see [`MAX_BODY_BYTES`]
//! and [`MAX_AT_ONCE`]. Where no index answers a question the answer is a sample and says so.
//!
//! | module | owns |
//! |---|---|
//! | `api` | paths of the API, and its answers |
//! | `site` | the pages |
//! | `acts` | acts as they are asked for, carried out |
//! | `events` | what changes, told to those who listen |
//! | `session`, `seal`, `caller` | who asks, and what they may |
//! | [`tokens`] | the file of tokens |
//! | `hidden` | fields that are shown to nobody |
//! | `trace` | where an order's trace is looked at |
//! | `desk` | what all requests share |
//! | `heard` | what the topics of alerts and dead letters had of late |
//!
//! Architecture invariant: there is no rule about orders here, no listener and no TLS; nothing knows of
//! DynamoDB, Kafka or SQLite.

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
