//! The independent judge: what clients asked of the store and were answered, and what followed in
//! topics and at the remote service, decided on by a checker that is not ours.
//!
//! [`endpoint`] stands between the workers and the store and writes each operation down as its
//! client saw it ([`wire`], [`recorder`]); on request it lies ([`lies`]), to show that the judge
//! convicts, or denies access. [`history`] is the form of the file. [`object`] says what one object
//! of the store is as a sequential program: the conditions that clients sent ([`condition`]) and
//! the pattern's own rules of a process record. [`verdict`] has stateright's linearizability tester
//! decide whether any order of the recorded operations, each within its time, explains what the
//! clients saw.
//!
//! Architecture invariant: nothing here uses the code under test to judge it. Items, conditions and
//! states are read from what is on the wire, by their names.
//!
//! What is judged: consistent reads, conditional puts and transactions of the tables `orders`,
//! `order-state` and `control`; and that each request, reply and effect is of an attempt that a
//! write had put in force. What is not: eventually consistent reads and queries of indexes, scans,
//! the table `workflows`, and whether an effect should have been applied at all when its attempt
//! was no longer in force: a call that lands late is in doubt, and the idempotency key's concern.

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
