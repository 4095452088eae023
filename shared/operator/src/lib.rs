//! Reading and acting as an operator: what the command line and the web console have in common.
//!
//! | module | does | reads |
//! |---|---|---|
//! | [`find`] | finds orders by state, cause, workflow and age | what it finds; the whole table only for orders that ended well |
//! | [`causes`] | counts the orders that need an operator by cause | the attention index |
//! | [`order`], [`timeline`] | shows one order, with everything that happened to it | one record |
//! | [`bulk`], [`acts`], [`outcome`] | acts on many orders: dry run, rate, a report of each, stop between two | one record an order, and writes it |
//! | [`downstreams`] | shows and holds downstreams and step types, and says what waits for them | one control record a downstream |
//! | [`versions`] | shows the versions of workflows and removes those that no order needs | the whole table of process records |
//! | [`dead_letters`] | lists, shows and replays dead letters | the topic, from a moment on |
//!
//! Single acts on an order or a downstream are those of [`triad_runtime::operator::Operator`]; what
//! is here is around them.
//!
//! Everything is generic over the ports of `triad-runtime`, answers with typed values and fails
//! with typed errors. Values have the JSON form that the command line prints with `--json`, where
//! they have one. Each function says what bounds its work and its memory.
//!
//! Architecture invariant: nothing here prints, reads the environment, or knows of DynamoDB, Kafka,
//! HTTP or a terminal. Now is an argument, or comes from a [`Clock`](triad_runtime::Clock).

pub mod acts;
mod attention;
pub mod bulk;
pub mod causes;
pub mod dead_letters;
pub mod downstreams;
pub mod find;
pub mod order;
pub mod outcome;
mod pace;
mod skipped;
pub mod timeline;
pub mod versions;

pub use pace::{InvalidRate, Rate};
