//! The state store on DynamoDB.
//!
//! Contents: the tables and their keys, the form of stored items, conditions, and the classification of the SDK's
//! errors. The crate makes no decisions: the core decides each write, and a lost race is a typed outcome.
//!
//! Architecture invariant: attribute values do not leave this crate.

mod capacity;
mod connect;
mod control;
mod definitions;
mod error;
mod examine;
mod item;
mod moving;
mod operator;
mod orders;
mod outputs;
mod store;
mod tables;
mod write;

/// The client of AWS's SDK, made by [`connect`]. Only this crate calls it; others pass it on.
pub use aws_sdk_dynamodb::Client;
pub use capacity::{Capacity, Units};
pub use connect::{Endpoint, Unreached, connect, reach};
pub use examine::{Examined, examine};
pub use item::{Item, decode as read_record};
pub use store::DynamoStore;
pub use tables::{Tables, create_tables};
