//! The independent judge: a third-party checker decides on the clients' operations on the store, and on the evidence
//! in topics and at the remote service.
//!
//! [`endpoint`] is between the workers and the store and records each operation as its client saw it ([`wire`],
//! [`recorder`]); on request it answers wrongly ([`broken_store`]), to show that the judge finds that, or denies
//! access. [`history`] is the form of the file. [`object`] models one object of the store as a sequential program:
//! the conditions that clients sent ([`condition`]) and the pattern's own rules of a process record. [`verdict`] has
//! stateright's linearizability tester decide whether any order of the recorded operations, each within its time,
//! explains the answers.
//!
//! Architecture invariant: the judge does not use the code under test. Items, conditions and states are read from the
//! wire, by their names.
//!
//! Judged are: consistent reads, conditional puts and transactions of the tables `orders`, `order-state` and
//! `control`; and that each request, reply and effect is of an attempt that a write had put in force. Not judged are:
//! eventually consistent reads and queries of indexes, scans, the table `workflows`, and whether an effect should
//! have been applied when its attempt was no longer in force: a late call is in doubt, and its idempotency key
//! handles that.

pub mod broken_store;
pub mod condition;
pub mod endpoint;
pub mod history;
pub mod item;
pub mod object;
pub mod recorder;
mod relevant_operations;
pub mod verdict;
pub mod wire;
