//! One run for each role: every path of its function that sends a request to AWS or Kafka.
//!
//! A run continues after denials, and notes results. Its records, and the surrounding handlers, are the same in every
//! run of a role, so that two runs differ only by the role's permissions.

mod agent;
mod console;
mod function;
mod scheduler;
mod submission;
mod supervisor;

use super::policy::{Installation, Policy};
use super::world::Run;

/// Runs a role's function; `None` for a role without a function of Triad.
///
/// # Panics
/// If the surroundings of the function do not work.
pub async fn work(installation: &Installation, role: &str, policy: &Policy) -> Option<Run> {
    let run = match role {
        "submission" => submission::run(installation, policy).await,
        "scheduler" => scheduler::run(installation, policy).await,
        "supervisor" => supervisor::run(installation, policy).await,
        "console" => console::run(installation, policy).await,
        "alerts" => function::alerts(installation, policy).await,
        role => match role.strip_prefix("agent-") {
            Some(agent) => agent::run(installation, agent, policy).await,
            None => return None,
        },
    };
    Some(run)
}

/// Starts a role's function and its login to Kafka; `None` for a role without a function of Triad, and if the
/// installation logs in without secrets.
///
/// # Panics
/// If the surroundings of the function do not work.
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
