//! Kafka credentials from AWS.
//!
//! Owns: secrets of Secrets Manager in the forms that Lambda's event source mappings use, and
//! signed tokens for MSK's access control. The one crate that sees either's API.

mod msk;
mod secrets;

pub use msk::MskTokens;
pub use secrets::{SecretError, Secrets};
