//! How Triad's programs reach AWS.
//!
//! Owns: where credentials and region come from, how long a call may take, and the HTTP client
//! below the SDK. Every client of an AWS service is made from an [`Account`].

mod account;
mod http;
#[cfg(feature = "secrets")]
mod secrets;

pub use account::{Account, endpoint, limits};
pub use aws_types::SdkConfig;
#[cfg(feature = "secrets")]
pub use secrets::{SecretError, Secrets};
