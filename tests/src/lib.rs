//! Helpers for tests with real processes and protocols: processes, engines, topics, orders.

pub mod bad;
pub mod browser;
pub mod bus;
pub mod cli;
pub mod clock;
pub mod command_case;
pub mod dev;
pub mod engines;
pub mod event_source;
pub mod foreign;
pub mod guide;
mod guide_text;
pub mod http;
pub mod ledger;
pub mod mapped_function;
pub mod mcp;
pub mod mcp_client;
pub mod message_checks;
pub mod orders;
pub mod poll;
pub mod process;
pub mod project;
pub mod runtime_api;
pub mod skipped;
pub mod topics;
