//! Events and requests in, answers out, without the Runtime API.

mod answers;
mod golden;
mod url;
