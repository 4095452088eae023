//! The store over one SQLite file: alone, and with guests.

mod common;
mod guests;
mod store;
