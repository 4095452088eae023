//! `triad dev` and `triad serve` as processes.

mod answers_later;
mod backups;
mod described;
mod described_examples;
mod described_keys;
mod dev;
mod dev_agents;
mod dev_sqlite;
mod moving_commands;
mod page;
mod power;
pub mod serve;
mod states;
