//! Every reachable state of one order: claim, expiry, completion, late reply, undo.
//!
//! The simulated world samples; this goes through all of them, for a small installation: two
//! Schedulers, two Supervisors, one agent and its remote service, a partition of the topic
//! `scheduler`, one crash. What an event makes of the record is the core's own [`decide`],
//! [`plan::verdict`], [`outbox::messages`] and [`agent::budget`]; the model adds only what moves
//! them: who may act next, and when time passes. A process may stop between any two of its
//! effects for any time, so a zombie needs no case of its own.
//!
//! What is bounded ([`Bounds`]): time, crashes, rebalances, faults of the service. What is left
//! out: batches of several orders, operators, breakers and pauses, throttled or lost answers of
//! the store. The simulated world has those.
//!
//! [`decide`]: triad_core::decide
//! [`plan::verdict`]: triad_core::plan::verdict
//! [`outbox::messages`]: triad_core::outbox::messages
//! [`agent::budget`]: triad_core::agent::budget

mod agent;
mod canonical;
mod properties;
mod scheduler;
mod service;
mod supervisor;
mod time;
mod world;

pub use canonical::Canonical;
pub use world::{Action, Bounds, Installation, Policy, World};
