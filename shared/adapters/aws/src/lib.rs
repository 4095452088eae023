//! How Triad's programs reach AWS.
//!
//! Owns: where credentials and region come from, how long a call may take, and the HTTP client
//! below the SDK. Every client of an AWS service is made from an [`Account`].

mod account;
mod http;

pub use account::{Account, limits};
pub use aws_types::SdkConfig;
