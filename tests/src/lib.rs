//! Tests that cross crates: real processes, real protocols.

pub mod runtime_api;
