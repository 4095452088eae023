//! Every decoder of bytes that others send, as a target: a function that panics where something
//! does not hold.
//!
//! A fuzzer drives them (`tests/fuzz/libfuzzer`), and a test gives each its seeds with random
//! [damage].

pub mod damage;
pub mod seeds;
mod targets;

pub use targets::{Target, all, run};
