//! The operators' API as tools of the Model Context Protocol, for agents that watch a system.
//!
//! A tool is a translation of its arguments to requests of the API ([`triad_console::Answers`]), and of their
//! answers to one bounded result. Who asks, what they may, which fields are hidden and what is kept of an act
//! is decided there, once for people, programs and models.
//!
//! | module | owns |
//! |---|---|
//! | `server` | the protocol's side: which tools there are, a call and its result |
//! | `visit` | what all callers share, and one who calls |
//! | `stdio`, `mount` | over standard input and output; at `/mcp` of a server for operators |
//! | `tools` | each tool: its arguments, and what it asks |
//! | `ask` | one request to the API, as the caller |
//! | `tried` | dry runs, each of which permits one act for five minutes |
//! | `bound` | how long a result is |
//! | `pages` | the documentation, which whoever runs this has |
//!
//! An act needs two calls: a dry run, which says what would happen and has an id, and `act` with that id. What
//! is done is the request that was tried, letter by letter: between the two a model can change nothing.
//!
//! Architecture invariant: there is no rule here about orders, roles or hidden fields, no listener, and no
//! store; what is remembered between two calls is which dry runs were made, and it may be lost.

mod api_request;
mod bound;
mod dry_runs;
mod mount;
mod pages;
mod request_context;
mod server;
mod stdio;
mod tools;

pub use bound::MAX_RESULT_BYTES;
pub use dry_runs::{MAX_TRIED, VALID_FOR};
pub use mount::{Mounted, PATH};
pub use pages::{DocsMatch, NoPages, Pages};
pub use request_context::{Mcp, Settings};
pub use stdio::{MAX_LINE_BYTES, StdioError, serve};
