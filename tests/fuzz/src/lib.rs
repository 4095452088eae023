//! Every decoder of bytes from outside, as a target: a function that panics if a requirement is violated.
//!
//! A fuzzer drives the targets (`tests/fuzz/libfuzzer`), and a test runs each on its seeds with random [damage].

pub mod damage;
pub mod seeds;
mod targets;

pub use targets::{Target, all, run};
