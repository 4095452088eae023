//! Contracts of the ports, as functions to be run on every implementation.

pub mod bus;
mod simulated;
pub mod store;

pub use simulated::SimulatedBus;
