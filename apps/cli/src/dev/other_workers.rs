//! Finds other processes that serve agents of `triad dev`, and reports them.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use triad_bootstrap::Served;
use triad_kafka::KafkaConfig;
use triad_workflow::AgentName;

use super::output::Say;
use crate::output::command;

/// Interval between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// Longest look.
const LOOK_WITHIN: Duration = Duration::from_secs(5);

/// Agents already reported, so that each is reported once.
#[derive(Debug, Default)]
struct AgentsReported {
    shared: BTreeSet<AgentName>,
    missing: BTreeSet<AgentName>,
}

impl AgentsReported {
    /// Reports to print after a look. `by`: how many processes read each agent's requests.
    fn report_new(
        &mut self,
        ours: &BTreeSet<AgentName>,
        external: &BTreeSet<AgentName>,
        by: impl Fn(&AgentName) -> usize,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        for agent in ours {
            if by(agent) <= 1 {
                self.shared.remove(agent);
            } else if self.shared.insert(agent.clone()) {
                lines.push(format!(
                    "another process serves the agent {agent}, too: each of its requests is carried out by both, under one key. To leave them to the other one, start it by: {}",
                    command(["triad", "dev", "--external-agent", agent.as_str()])
                ));
            }
        }
        for agent in external {
            if by(agent) == 0 {
                if self.missing.insert(agent.clone()) {
                    lines.push(format!(
                        "no process serves the agent {agent} yet: start a triad-worker that has it in TRIAD_AGENTS"
                    ));
                }
            } else if self.missing.remove(agent) {
                lines.push(format!("the agent {agent} is served now"));
            }
        }
        lines
    }
}

/// Looks until `stop`, and reports changes: an agent of this process that another process serves, too, and an
/// external agent that is served or not served now.
pub async fn watch(
    kafka: KafkaConfig,
    ours: BTreeSet<AgentName>,
    external: BTreeSet<AgentName>,
    say: Say,
    stop: CancellationToken,
) {
    let mut said = AgentsReported::default();
    loop {
        match Served::discover(&kafka, LOOK_WITHIN).await {
            Ok(served) => {
                for line in said.report_new(&ours, &external, |agent| served.by(agent)) {
                    say.warning(&line);
                }
            }
            Err(e) => tracing::debug!("the served agents cannot be listed: {e}"),
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = stop.cancelled() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> BTreeSet<AgentName> {
        let name = |n: &&str| AgentName::new(n).expect("a name");
        names.iter().map(name).collect()
    }

    #[test]
    fn what_changes_is_said_once() {
        let (ours, external) = (named(&["bank"]), named(&["hotel"]));
        let mut said = AgentsReported::default();
        let mut look = |bank, hotel| {
            said.report_new(&ours, &external, |agent| match agent.as_str() {
                "bank" => bank,
                _ => hotel,
            })
        };
        assert_eq!(look(0, 0).len(), 1, "nobody serves hotel");
        assert_eq!(look(1, 0), Vec::<String>::new());
        assert_eq!(look(1, 1), ["the agent hotel is served now"]);
        let shared = look(2, 1);
        assert!(shared[0].contains("--external-agent bank"), "{shared:?}");
        assert_eq!(look(2, 1), Vec::<String>::new());
        assert_eq!(look(1, 0).len(), 1, "nobody serves hotel any more");
        assert_eq!(look(2, 0).len(), 1, "bank is shared anew");
    }
}
