//! The HTTP interface of Submission over real sockets, with the SQLite store.

mod access;
mod acts;
mod batch;
mod callbacks;
mod common;
mod groups;
mod hidden;
mod hostile;
mod limits;
mod open_api;
mod operators;
mod stop;
mod submit;
mod tls;
mod wait;
