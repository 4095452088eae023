//! An exhaustive model: visits every reachable state of one order, with claim, expiry, completion, late reply and
//! compensation.
//!
//! The simulated world samples states; this model visits all of them, for a small installation: two Schedulers, two
//! Supervisors, one agent and its remote service, a partition of the topic `scheduler`, one crash. The core's own
//! [`Pass`] decides on events, writes, sends and confirms; the agent's [`budget`] is the core's too. The model adds
//! only the scheduling: which process acts next, and when time passes. A process may stop for any time between two
//! tasks of a pass, so a process that continues after it was replaced needs no extra case.
//!
//! Limited by [`Bounds`]: time, crashes, rebalances, and faults of the service. Not modelled, but part of the
//! simulated world: batches of several orders, operators, breakers and pauses, throttled or lost answers of the
//! store.
//!
//! [`Pass`]: triad_core::Pass [`budget`]: triad_core::agent::budget

mod agent;
mod canonical;
mod moves;
mod processes;
mod properties;
mod scheduler;
mod service;
mod supervisor;
mod time;
mod world;

pub use canonical::Canonical;
pub use moves::Action;
pub use processes::{Agent, CallEnd, Scheduler, Supervisor};
pub use world::{Bounds, Installation, Policy, World};
