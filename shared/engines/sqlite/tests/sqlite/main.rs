//! The SQLite store in one process, and shared with guest processes.

mod common;
mod guests;
mod place;
mod store;
mod topics;
mod with_topics;
