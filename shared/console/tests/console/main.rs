//! The API and the pages, asked as a server asks them, over a SQLite store.

mod acts;
mod campaigns;
mod common;
mod open_api;
mod pages;
mod traces;
mod who;
