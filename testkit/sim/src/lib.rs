//! The simulated world: production handlers over simulated ports, one seed, virtual time.
//!
//! [`run`] builds a world from a seed: several instances of every actor, a state store, a
//! control store, a bus and remote services that fail, stall, lose answers and deliver twice,
//! operators who do anything at any moment, and a monkey that kills and freezes instances, moves
//! partitions and turns clocks. The handlers are the production ones. Every write is held
//! against [`triad_core::invariants`]; at the end the whole is held against the guarantees.
//!
//! Architecture invariant: one thread, one generator, ordered collections only, and no clock but
//! the virtual one; the same seed gives the same trace, byte for byte.
//!
//! Three kinds of worlds are apart: those under load (`overload`), those in which one thing alone is in
//! trouble for many minutes (`isolation`), and those of one machine, which loses its power (`machine`).
//!
//! The modules in layers, each naming only those above it: `kernel` (time, tasks, chance, faults,
//! counts); `definitions`, `setup` and `scenario` (what is drawn); the parts, each with its own state
//! (`store`, `control`, `unsynced`, `bus`, `service`, `history`); `world`, which puts them together;
//! `checks` (the guarantees over all parts); `machine`; `ports`, `consumer` and `remote` (what an instance has of them);
//! `actors` and `operators`; those who drive a world (`senders`, `monkey`, `chaos`, `overload`,
//! `isolation`); and `run`.
//!
//! [`fleet`] runs many seeds on several threads, [`crashes`] goes through every crash point of a
//! reference workload and every pair of them, and [`first`] looks for the first seed that fails,
//! which is how the mutants of `testkit/mutants` are caught.
//!
//! [`contract`] has the contracts of the ports as functions, to be run on every implementation.

mod actors;
mod bus;
mod campaigns;
mod chaos;
mod checks;
mod consumer;
pub mod contract;
mod control;
pub mod crashes;
mod definitions;
mod fault_injection;
pub mod first_breach;
pub mod fleet;
mod history;
mod isolation;
mod kernel;
mod load;
mod lone;
mod machine;
mod operators;
mod overload;
mod ports;
mod remote;
mod run;
mod saved;
mod scenario;
mod senders;
mod service;
mod setup;
mod store;
mod unsynced;
mod world;

pub use kernel::Crash;
pub use kernel::coverage::{self, Coverage};
pub use ports::Ports;
pub use run::{Options, WorldResult, calm_ports, of_seed, replay, run, run_on};
pub use saved::{NoOrder, Saved};
