//! The contracts of the ports, as functions with which every implementation is tested.
//!
//! [`store`] is the contract of a state store and its definitions, [`expiry`] that of its retention, [`operator`]
//! that of the operators' queries, [`control`] that of the control store, [`moving`] that of export and import,
//! [`bus`] that of the bus, [`topics`] that of a store with the topics. [`random`] compares two stores, call by call.

pub mod bus;
pub mod control;
pub mod expiry;
pub mod moving;
pub mod operator;
mod orders;
mod race;
pub mod random;
pub mod search;
mod simulated;
pub mod store;
mod timed;
pub mod topics;

pub use race::{OnThreads, Racer, Racers, TakingTurns};
pub use simulated::SimulatedBus;
pub use timed::{SimulatedStore, TimedStore};
