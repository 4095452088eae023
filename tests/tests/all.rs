//! All tests that involve several crates, except the long ones. They are one binary, because each binary must link
//! everything.

mod browser;
mod bus;
mod deployed;
mod one_machine;
mod operators;
mod pages;
mod stores;
mod telemetry;
