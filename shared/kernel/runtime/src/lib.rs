//! The handlers, and the ports through which they use everything else.
//!
//! A handler is a sequence of visible steps: decode, load, decide, commit, publish. Production shells, the embedded
//! run and the simulated world all run the same handlers.
//!
//! Architecture invariant: no handler depends on DynamoDB, Kafka, Lambda or HTTP, and none reads a clock or draws a
//! random number except through a port.

mod admission;
mod admission_queue;
pub mod agent;
mod alerts;
mod backlog;
pub mod beside;
pub mod cache;
pub mod control;
pub mod dead_letter;
mod decode;
pub mod definitions;
pub mod delivery;
mod downstream_record;
pub mod handled;
pub mod keys;
pub mod metric;
pub mod misconfigured;
pub mod moving;
pub mod operator;
mod passes;
pub mod ports;
pub mod pressure;
pub mod record;
pub mod remote;
mod revoke;
pub mod scheduler;
pub mod settings;
pub mod submission;
pub mod supervisor;
pub mod system;
pub mod traces;
mod unreadable;
mod waves;

pub use control::{ControlRecord, ControlStore, ControlWrite};
pub use handled::{Handled, Redelivery};
pub use ports::{
    Bus, BusError, Clock, Created, DefinitionStore, DuePage, DueRow, Entropy, NewOrder, OutputsOf,
    StateStore, StoreError, Write, Written,
};
pub use record::InputRecord;
pub use remote::{Call, CallNotes, Fault, RemoteService};
