//! Tests that cross crates, but for the long ones. One binary: each of its own would link everything once more.

mod browser;
mod bus;
mod deployed;
mod one_machine;
mod operators;
mod pages;
mod stores;
mod telemetry;
