//! The reference service over HTTP.

mod contract;
mod faults;
mod ledger;
mod process;
mod support;
