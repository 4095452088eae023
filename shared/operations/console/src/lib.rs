//! Operations over HTTP: an API in JSON for programs, and pages for a browser.
//!
//! | path | is |
//! |---|---|
//! | `/v1/operate/…` | the API; `/v1/operate/openapi.json` describes it |
//! | `/console/…` | the pages |
//!
//! The console is a function from a request to an answer, over [`triad_operator::operations`]. The server
//! that owns a listener calls it, and names the callers to accept ([`Keys`]). The command line reads, refuses
//! and acts by the same functions. Every act is stored with its operator and reason in the record that it changes.
//!
//! **Bounds**: concurrent requests, the orders and the time of one request's acts, rows and records read for
//! a page, listeners to events, sessions, bodies; see [`MAX_BODY_BYTES`] and [`MAX_AT_ONCE`]. Where no index
//! answers a question, the answer is a sample and says so.
//!
//! | module | owns |
//! |---|---|
//! | `api`, `open_api` | paths of the API, and the document that describes it |
//! | [`answer`], [`request`] | answers and problems over HTTP; tokens, media types and paths of requests |
//! | [`describe`] | OpenAPI documents, made from types |
//! | `site` | the pages |
//! | `events` | changes, sent to listeners |
//! | `session`, `seal`, `caller` | callers |
//! | [`tokens`] | the file of tokens |
//! | `desk` | the state that all requests share |
//!
//! A server for other callers too uses what both do in the same way: [`answer`], [`request`], [`describe`] and
//! [`tokens`].
//!
//! Architecture invariant: this crate has no rule about orders, no listener and no TLS, and does not depend
//! on DynamoDB, Kafka or SQLite.

pub mod answer;
mod api;
mod caller;
mod console;
pub mod describe;
mod desk;
mod events;
mod open_api;
mod params;
mod random;
pub mod request;
mod seal;
mod session;
mod settings;
mod site;
pub mod tokens;

pub use answer::Answer;
pub use api::{no_path, not_allowed};
pub use axum::body::Body;
pub use caller::{Digest, Keys};
pub use console::{Answers, Console, elsewhere};
pub use open_api::document;
pub use random::NoRandom;
pub use seal::{MIN_SECRET_BYTES, SessionKey, ShortSecret};
pub use settings::{MAX_AT_ONCE, MAX_BODY_BYTES, STRANGER_BODY_BYTES, SessionForm, Settings};
pub use triad_operator::operations::{Caller, Hidden, InvalidTraceUrl, Parts, Role, TraceUrl};
