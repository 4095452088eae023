//! Cold start: reads the configuration once, and makes clients and handlers.
//!
//! All programs that run the handlers (the Lambda functions, the worker, the embedded run) use this crate, so that a
//! setting has one name and one meaning.

pub mod agents;
mod auth;
mod config;
#[cfg(feature = "console")]
pub mod console;
mod export;
mod instance;
#[cfg(feature = "lambda")]
pub mod lambda;
mod letters;
pub mod logging;
pub mod memory;
mod reader;
#[cfg(feature = "http")]
mod remotes;
mod served;
mod spans;
mod traces;
mod wiring;

pub use instance::instance_name;
#[cfg(feature = "aws")]
pub use triad_aws::Account;
#[cfg(feature = "http")]
pub use triad_http::AwsAccount;

pub use agents::AgentConfig;
#[cfg(feature = "aws")]
pub use auth::LoginError;
pub use auth::{AuthConfig, UnknownWay, Way};
pub use config::Config;
#[cfg(feature = "aws")]
pub use export::deployed_engines;
pub use export::{Sending, export_traces, traces_to};
pub use letters::KafkaTopics;
pub use reader::{ConfigError, environment};
#[cfg(feature = "http")]
pub use remotes::{http_remotes, http_service, remotes_of};
pub use served::{Served, agents_of, needed_agents};
pub use spans::Spans;
pub use traces::TraceConfig;
#[cfg(feature = "aws")]
pub use wiring::Store;
pub use wiring::{Bus, SchedulerHandler, SubmissionHandler, WholeStore, Wiring};
