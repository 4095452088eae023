//! The agents that are served, and the agents that the present workflows need.
//!
//! A process that serves an agent is a member of the consumer group of its topic. The result is valid for the moment of
//! the request: a worker that is starting is not a member yet.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use triad_core::{Priority, topics};
use triad_kafka::{KafkaConfig, KafkaError, group_members};
use triad_runtime::ports::OperatorStore;
use triad_runtime::{DefinitionStore, StoreError};
use triad_workflow::{AgentName, Workflow, WorkflowName};

/// How many processes read the requests of each agent, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    prefix: String,
    groups: BTreeMap<String, usize>,
}

impl Served {
    /// Asks the brokers for the members of their consumer groups. Takes at most about `within`, and at most 6 s more
    /// for a token of the login and for the reason of a failure.
    ///
    /// # Errors
    /// [`KafkaError::Unreachable`] or [`KafkaError::Login`] if a broker does not answer in time or refuses the login,
    /// [`KafkaError::Settings`] if librdkafka refuses the settings.
    pub async fn discover(kafka: &KafkaConfig, within: Duration) -> Result<Self, KafkaError> {
        let (kafka, prefix) = (kafka.clone(), kafka.prefix.clone());
        // `group_members` blocks.
        let look = tokio::task::spawn_blocking(move || group_members(&kafka, within));
        match look.await {
            Ok(groups) => Ok(Self {
                prefix,
                groups: groups?,
            }),
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }

    /// How many processes read this agent's requests of normal priority: the members of its topic's group. 0 if there is
    /// no such group.
    #[must_use]
    pub fn by(&self, agent: &AgentName) -> usize {
        let group = topics::group(&self.prefix, &topics::agent(agent, Priority::Normal));
        self.groups.get(&group).copied().unwrap_or_default()
    }

    /// Those of `agents` whose requests no process reads, in order.
    #[must_use]
    pub fn by_nobody(&self, agents: impl IntoIterator<Item = AgentName>) -> Vec<AgentName> {
        let agents = agents.into_iter();
        agents.filter(|agent| self.by(agent) == 0).collect()
    }
}

/// The agents that a workflow names for its steps and for their compensations, each once.
#[must_use]
pub fn agents_of(workflow: &Workflow) -> BTreeSet<AgentName> {
    let workflows = workflow.with_parts().into_iter();
    let steps = workflows.flat_map(|workflow| &workflow.steps);
    let named = steps.flat_map(|step| {
        let compensation = step.compensation.as_ref().map(|c| &c.agent);
        step.call()
            .map(|call| &call.agent)
            .into_iter()
            .chain(compensation)
    });
    named.cloned().collect()
}

/// The agents that the present versions of all published workflows name, each with the names of the workflows
/// that need it. A definition that is missing or cannot be compiled is left out: its orders show the error.
/// The list of all versions is read, and then the definition of each present version.
///
/// # Errors
/// [`StoreError`] if the versions or a definition cannot be read.
pub async fn needed_agents<S>(
    store: &S,
) -> Result<BTreeMap<AgentName, BTreeSet<WorkflowName>>, StoreError>
where
    S: OperatorStore + DefinitionStore,
{
    let mut needed: BTreeMap<AgentName, BTreeSet<WorkflowName>> = BTreeMap::new();
    for version in store.versions().await? {
        if !version.is_current {
            continue;
        }
        let Some(json) = store.definition(version.definition).await? else {
            continue;
        };
        let Ok(workflow) = Workflow::from_published(&json) else {
            continue;
        };
        for agent in agents_of(&workflow) {
            needed
                .entry(agent)
                .or_default()
                .insert(workflow.name.clone());
        }
    }
    Ok(needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_served_by_the_members_of_its_groups_and_of_no_other() {
        let groups = [
            ("triad-agent.bank", 1),
            ("shop-agent.bank", 2),
            ("triad-agent.bank.high", 4),
            ("triad-agent.the-bank", 8),
            ("triad-agent.hotel", 0),
        ];
        let served = |prefix: &str| Served {
            prefix: prefix.to_owned(),
            groups: groups.map(|(name, n)| (name.to_owned(), n)).into(),
        };
        let agent = |name| AgentName::new(name).expect("a name");
        assert_eq!(served("shop-").by(&agent("bank")), 2);
        let served = served("");
        assert_eq!(served.by(&agent("bank")), 1);
        let asked = ["bank", "hotel", "flights"].map(agent);
        assert_eq!(
            served.by_nobody(asked),
            ["hotel", "flights"].map(agent).to_vec()
        );
    }
}
