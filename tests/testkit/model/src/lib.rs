//! Every reachable state of one order: claim, expiry, completion, late reply, compensation.
//!
//! The simulated world samples states; this model visits all of them, for a small installation: two Schedulers, two
//! Supervisors, one agent and its remote service, a partition of the topic `scheduler`, one crash. The core's own
//! [`Pass`] decides on events, writes, sends and confirms; the agent's [`budget`] is the core's too. The model adds
//! only the scheduling: which process acts next, and when time passes. A process may stop between any two tasks of a
//! pass for any time, so a zombie needs no case of its own.
//!
//! Bounded ([`Bounds`]): time, crashes, rebalances, faults of the service. Left out: batches of several orders,
//! operators, breakers and pauses, throttled or lost answers of the store. The simulated world has those.
//!
//! [`Pass`]: triad_core::Pass
//! [`budget`]: triad_core::agent::budget

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
