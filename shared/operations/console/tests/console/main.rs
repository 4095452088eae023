//! The console's API and pages over a SQLite store, called without a listener.

mod acts;
mod campaigns;
mod common;
mod decision;
mod open_api;
mod pages;
mod traces;
mod who;
