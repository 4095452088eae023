//! Tests that cross crates, but for the long ones (`long.rs`). One binary: each of its own would link
//! everything once more.

mod admission;
mod alerts;
mod bus_bounds;
mod bus_contract;
mod cli;
mod dead_letters;
mod deaths;
mod dev;
mod foreign;
mod foreign_orders;
mod golden;
mod guard;
mod hand_written_agent;
mod judge;
mod lambda;
mod lanes;
mod layout;
mod localstack;
mod mapping_emulator;
mod metrics;
mod obligations;
mod operate;
mod retention;
mod runtime_api;
mod skips;
mod store_contract;
mod unreadable;
mod worker;
