//! The operators' API as tools of the Model Context Protocol, for agents that watch a system.
//!
//! A tool is a request of operations ([`triad_operator::operations`]), and its answer as one bounded result.
//! Operations decide about permissions, hidden fields and the record of an act, once for people, programs and
//! models.
//!
//! | module | owns |
//! |---|---|
//! | `server` | the protocol's server: the list of tools, a call and its result |
//! | `request_context` | the server's shared state, and one caller's access to it |
//! | `stdio`, `mount` | over standard input and output; at `/mcp` of a server for operators |
//! | `parse_errors` | answers to lines of standard input that are not JSON |
//! | `tools` | each tool: its arguments, and the part of the answer that a model gets |
//! | `told` | what a model is told: a result, or a problem |
//! | `dry_runs` | dry runs, each of which permits one act for five minutes |
//! | `bound` | the bound on a result's length |
//! | `pages` | the documentation, provided by the program |
//!
//! An act needs two calls: a dry run, which says what would happen and has an id, and `act` with that id. The
//! act sends exactly the request of the dry run: a model can change nothing between the two.
//!
//! Architecture invariant: this crate has no rule about orders, roles or hidden fields, no listener, and no
//! store. Between two calls it keeps only the dry runs, which may be lost.

mod bound;
mod dry_runs;
mod mount;
mod pages;
mod parse_errors;
mod request_context;
mod server;
mod stdio;
mod told;
mod tools;

pub use bound::MAX_RESULT_BYTES;
pub use dry_runs::{MAX_TRIED, VALID_FOR};
pub use mount::{Mounted, PATH};
pub use pages::{DocsMatch, NoPages, Pages};
pub use parse_errors::MAX_LINE_BYTES;
pub use request_context::{Mcp, Settings};
pub use stdio::{StdioError, serve};
