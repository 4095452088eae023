//! Operators over real sockets: the API and the pages, over a SQLite store in this process.

mod acts;
mod campaigns;
mod common;
mod mcp;
mod open_api;
mod pages;
mod secrets;
mod traces;
mod who;
