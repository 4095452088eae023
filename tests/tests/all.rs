//! Tests that cross crates, except the long ones. One binary, because each binary would link everything again.

mod browser;
mod bus;
mod deployed;
mod one_machine;
mod operators;
mod pages;
mod stores;
mod telemetry;
