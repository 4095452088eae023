//! The front door over real sockets, with the SQLite store.

mod access;
mod batch;
mod common;
mod groups;
mod hostile;
mod limits;
mod open_api;
mod stop;
mod submit;
mod tls;
mod wait;
