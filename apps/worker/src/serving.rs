//! Log lines about the functions and agents that a worker serves, and about agents without a worker, whose orders
//! wait.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use triad_bootstrap::{Config, ConfigError, Served, WholeStore, Wiring, needed_agents};
use triad_consume::Broker;
use triad_runtime::agent::Remotes;
use triad_workflow::AgentName;

use crate::{Function, names};

/// Interval between two looks for agents without a worker.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Longest look.
const LOOK_WITHIN: Duration = Duration::from_secs(10);

/// Checks that a worker with these handlers and these remote services has anything to do.
///
/// # Errors
/// [`ConfigError`] if `functions` has only [`Function::Agent`], or nothing, and `remotes` has no service.
pub fn check(functions: &[Function], remotes: &Remotes) -> Result<(), ConfigError> {
    let agents_alone = functions.iter().all(|f| *f == Function::Agent);
    if agents_alone && remotes.names().next().is_none() {
        return Err(ConfigError(vec![
            "TRIAD_AGENTS: names no agent, so this worker would serve nothing; name one, such as {\"payment\": {\"base_url\": \"https://pay.example\"}}, or run other functions".to_owned(),
        ]));
    }
    Ok(())
}

/// Writes into the log which handlers this worker runs and, if the agents are among them, each agent of
/// `config` with its address, or a warning if there is none.
pub fn print_functions(functions: &[Function], config: &Config) {
    tracing::info!(functions = names(functions), "running");
    if !functions.contains(&Function::Agent) {
        return;
    }
    if config.agents.is_empty() {
        tracing::warn!("TRIAD_AGENTS names no agent: this worker serves none");
    }
    for (agent, settings) in &config.agents {
        let address = settings.address();
        tracing::info!(%agent, %address, "serves an agent");
    }
}

/// Looks at once and then once a minute, until `stop` is cancelled, for agents that the present workflows name and no
/// process serves. A failed look changes nothing. The log gets a warning when such an agent is first found, and a
/// line when it is served again. If `functions` has [`Function::Agent`], the agents of the configuration count as
/// served.
pub async fn watch<S: WholeStore, B: Broker>(
    wiring: Wiring<S, B>,
    functions: Vec<Function>,
    stop: CancellationToken,
) {
    let serves = functions.contains(&Function::Agent);
    let mut missing = BTreeSet::new();
    loop {
        match unserved(&wiring, serves).await {
            Ok(now) => {
                for agent in now.difference(&missing) {
                    tracing::warn!(
                        %agent,
                        "no process serves an agent that a published workflow names: its steps wait"
                    );
                }
                for agent in missing.difference(&now) {
                    tracing::info!(%agent, "an agent without a process is served again");
                }
                missing = now;
            }
            // The loops of the agents log this, and keep trying.
            Err(error) => tracing::debug!("the served agents cannot be listed: {error:#}"),
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn unserved<S: WholeStore, B: Broker>(
    wiring: &Wiring<S, B>,
    serves: bool,
) -> anyhow::Result<BTreeSet<AgentName>> {
    let needed = needed_agents(&wiring.store).await?;
    let others = needed
        .into_keys()
        .filter(|agent| !(serves && wiring.config.agents.contains_key(agent)));
    let others: Vec<AgentName> = others.collect();
    if others.is_empty() {
        return Ok(BTreeSet::new());
    }
    let served = Served::discover(&wiring.config.kafka, LOOK_WITHIN).await?;
    Ok(served.by_nobody(others).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_alone_without_one_is_refused() {
        let none = Remotes::new();
        let said = check(&[Function::Agent], &none).expect_err("it serves nothing");
        assert!(said.to_string().contains("TRIAD_AGENTS"), "{said}");
        assert!(check(&[Function::Agent, Function::Supervisor], &none).is_ok());
    }
}
