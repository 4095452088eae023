//! Contracts of the ports, as functions to be run on every implementation.

pub mod store;
