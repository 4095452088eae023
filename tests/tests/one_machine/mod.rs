//! `triad dev` and `triad serve` as processes.

mod dev;
mod dev_agents;
mod described;
mod dev_sqlite;
mod moving_commands;
mod power;
pub mod serve;
