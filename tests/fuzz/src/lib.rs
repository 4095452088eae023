//! A target for each decoder of bytes from outside: a function that panics if a requirement is violated.
//!
//! A fuzzer runs the targets (`tests/fuzz/libfuzzer`), and a test runs each on its seeds with random [damage].

pub mod damage;
pub mod seeds;
mod targets;

pub use targets::{Target, all, run};
