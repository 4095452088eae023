//! Tests that cross crates: real processes, real protocols.

pub mod bad;
pub mod browser;
pub mod bus;
pub mod case;
pub mod chaos;
pub mod cli;
pub mod clock;
pub mod dev;
pub mod engines;
pub mod event_source;
pub mod foreign;
pub mod guide;
mod guide_text;
pub mod http;
pub mod judge;
pub mod ledger;
pub mod mapped;
pub mod orders;
pub mod permissions;
pub mod poll;
pub mod process;
pub mod project;
pub mod runtime_api;
pub mod skipped;
pub mod told;
pub mod topics;
pub mod walk;
