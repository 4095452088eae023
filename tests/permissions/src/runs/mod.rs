//! What each function does, every path of it that asks something of AWS or Kafka, as one run a role.
//!
//! A run goes on whatever is denied: it notes what was done. Its records, and the handlers around, are the
//! same in every run of a role, so that two runs differ by what the role may do alone.

mod agent;
mod console;
mod function;
mod scheduler;
mod submission;
mod supervisor;

use super::policy::{Installation, Policy};
use super::world::Run;

/// Goes through what a role's function does; none for a role that no function of ours has.
///
/// # Panics
/// When what is around the function does not work.
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

/// Starts a role's function as it logs in to Kafka; none for a role that no function of ours has, and
/// where the installation logs in without secrets.
///
/// # Panics
/// When what is around the function does not work.
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
