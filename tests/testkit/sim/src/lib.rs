//! The simulated world: the production handlers run over simulated ports, in virtual time, with one seed.
//!
//! [`run`] builds a world from a seed: several instances of every actor; a state store, a control store, a bus and
//! remote services that fail, stall, lose answers and deliver twice; operators with random acts; and fault injection
//! that kills and freezes instances, moves partitions and changes clocks. Every write is checked against
//! [`triad_core::invariants`]; at the end the whole world is checked against the guarantees.
//!
//! Architecture invariant: one thread, one random generator, only ordered collections, and only the virtual clock; so
//! the same seed gives the same trace, byte for byte.
//!
//! There are three special kinds of worlds: under load (`overload`), with a single fault that lasts for many minutes
//! (`isolation`), and on one machine, which dies as a whole (`machine`).
//!
//! The modules in layers, from the lowest; each depends only on earlier ones: `kernel` (time, tasks, chance, faults,
//! counts); `definitions`, `setup` and `scenario` (drawn inputs); the parts, each with its own state (`store`,
//! `control`, `lazy_commits`, `bus`, `service`, `history`); `world`, which puts them together; `checks` (the guarantees
//! over all parts); `machine`; `ports`, `consumer` and `remote` (an instance's access to them); `actors` and
//! `operators`; the drivers of a world (`senders`, `callbacks`, `fault_injection`, `chaos`, `overload`, `isolation`);
//! and `run`.
//!
//! [`fleet`] runs many seeds on several threads, [`crashes`] enumerates every crash point of a reference workload and
//! every pair of them, and [`first_breach`] searches for the first seed that fails, by which the mutants of
//! `tests/testkit/mutants` are caught.
//!
//! [`contract`] contains the contracts of the ports, as functions with which every implementation is tested.

mod actors;
mod bus;
mod callbacks;
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
mod lazy_commits;
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
mod world;

pub use kernel::Crash;
pub use kernel::coverage::{self, Coverage};
pub use ports::Ports;
pub use run::{Options, WorldResult, calm_machine, calm_ports, of_seed, replay, run, run_on};
pub use saved::{NoOrder, Saved};
