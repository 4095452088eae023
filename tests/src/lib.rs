//! Tests that cross crates: real processes, real protocols.
