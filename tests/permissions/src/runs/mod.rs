//! A run for each role, with every path of the function that sends a request to AWS or Kafka.
//!
//! A run continues after denied requests, and records the results. Its input and the other handlers are the same in
//! each run of a role, so two runs differ only by the role's permissions.

mod agent;
mod console;
mod function;
mod scheduler;
mod submission;
mod supervisor;

use super::policy::{Installation, Policy};
use super::world::Run;

/// Runs the function of a role; `None` if the role belongs to no function of Triad.
///
/// # Panics
/// If the environment of the function fails.
pub async fn work(installation: &Installation, role: &str, policy: &Policy) -> Option<Run> {
    let run = match role {
        "submission" => submission::run(installation, policy).await,
        "scheduler" => scheduler::run(installation, policy).await,
        "supervisor" => supervisor::run(installation, policy).await,
        "console" => console::run(installation, policy).await,
        "alerts" => function::alerts(installation, policy).await,
        "setup" => function::setup(installation, policy).await,
        role => match role.strip_prefix("agent-") {
            Some(agent) => agent::run(installation, agent, policy).await,
            None => return None,
        },
    };
    Some(run)
}

/// Starts the function of a role and logs in to Kafka; `None` if the role belongs to no function of Triad, or if the
/// installation logs in without secrets.
///
/// # Panics
/// If the environment of the function fails.
pub async fn start(installation: &Installation, role: &str, policy: &Policy) -> Option<Run> {
    let has_secret = installation
        .variables
        .get(role)?
        .contains_key("TRIAD_KAFKA_SECRET");
    match has_secret {
        true => Some(function::start(installation, role, policy).await),
        false => None,
    }
}
