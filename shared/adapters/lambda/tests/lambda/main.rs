//! The Lambda adapter's answers to events and to HTTP requests, without the Runtime API.

mod answers;
mod golden;
mod url;
