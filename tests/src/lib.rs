//! What tests over real processes and protocols share: processes, engines, topics, orders.

pub mod bad;
pub mod browser;
pub mod bus;
pub mod case;
pub mod cli;
pub mod clock;
pub mod detective;
pub mod dev;
pub mod engines;
pub mod event_source;
pub mod foreign;
pub mod guide;
mod guide_text;
pub mod http;
pub mod ledger;
pub mod mapped;
pub mod mcp;
pub mod orders;
pub mod poll;
pub mod process;
pub mod project;
pub mod runtime_api;
pub mod skipped;
pub mod told;
pub mod topics;
