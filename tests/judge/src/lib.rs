//! The independent judge: a third-party checker decides whether the clients' operations on the store, and the
//! evidence in topics and at the remote service, are consistent.
//!
//! [`endpoint`] sits between the workers and the store and records each operation as its client saw it ([`wire`],
//! [`recorder`]); on request it gives wrong answers ([`broken_store`]), to show that the judge finds them, or denies
//! access. [`history`] is the format of the recording. [`object`] models one object of the store as a sequential
//! program: the conditions that clients sent ([`condition`]) and the pattern's own rules of a process record.
//! [`verdict`] has stateright's linearizability tester decide whether any order of the recorded operations, each
//! within its time, explains the answers.
//!
//! Architecture invariant: the judge does not use the code under test. Items, conditions and states are read from the
//! wire, by their names.
//!
//! The judge checks consistent reads, conditional puts and transactions of the tables `orders`, `order-state` and
//! `control`; and that each request, reply and effect belongs to an attempt that an earlier write had started. It
//! does not check eventually consistent reads and queries of indexes, scans, the table `workflows`, nor whether an
//! effect came after the end of its attempt: such a late call is in doubt, and its idempotency key handles it.

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
