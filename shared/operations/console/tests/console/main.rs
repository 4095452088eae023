//! The API and the pages over a SQLite store, called as a server calls them.

mod acts;
mod campaigns;
mod common;
mod open_api;
mod pages;
mod traces;
mod who;
