//! The SQLite store: alone, and with guests.

mod common;
mod guests;
mod store;
