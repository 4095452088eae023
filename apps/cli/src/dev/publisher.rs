//! Publishes workflows in `triad dev`, and creates the topics and settings of their agents.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use triad_bootstrap::{AgentConfig, agents_of, http_remotes, needed_agents};
use triad_core::topics;
use triad_kafka::{KafkaConfig, Topic, create_topics};
use triad_runtime::agent::Remotes;
use triad_runtime::definitions::publish;
use triad_workflow::{AgentName, Millis, Workflow, WorkflowName};

use super::agents::{AgentRow, Agents, ServiceAddress};
use crate::machine;
use crate::machine::Wired;

/// How long Submission may use a cached present version, in milliseconds.
pub const REFRESH_DEFINITIONS: Millis = Millis(200);

/// Publishes workflows, and has the agents that they name and the address of each one's service.
#[derive(Clone)]
pub struct Publisher {
    /// The clients of the broker and the store, with the settings of the agents that this process serves.
    pub wiring: Wired,
    /// Addresses of the agents' services.
    pub agents: Agents,
    /// The address of the reference service.
    pub service: SocketAddr,
    /// Partitions of new topics.
    pub partitions: i32,
    /// The agents that published workflows name, with these workflows.
    pub needed: BTreeMap<AgentName, BTreeSet<WorkflowName>>,
}

/// Newly served agents: their rows, and the clients for their handlers.
pub struct New {
    /// The agents and the addresses of their services.
    pub rows: Vec<AgentRow>,
    /// The clients, with the settings of only these agents.
    pub wiring: Wired,
    /// The HTTP clients of these agents.
    pub remotes: Remotes,
}

impl Publisher {
    /// Publishes the first workflows, and serves the agents of all stored workflows: orders of an earlier run
    /// continue.
    ///
    /// # Errors
    /// If the store or the broker fails.
    pub async fn begin(&mut self, workflows: &[Arc<Workflow>]) -> Result<()> {
        for workflow in workflows {
            self.store(workflow).await?;
        }
        self.needed = needed_agents(&self.wiring.store).await?;
        let named = self.needed.keys().chain(self.agents.addressed.keys());
        let named = named.chain(&self.agents.external).cloned().collect();
        self.take_in(&named).await?;
        Ok(())
    }

    /// Publishes a workflow while the handlers run; orders that are submitted later use this version. Returns the
    /// agents that it names and that were not served yet.
    ///
    /// # Errors
    /// If the store or the broker fails.
    pub async fn publish(&mut self, workflow: &Workflow) -> Result<Option<New>> {
        let named = agents_of(workflow);
        let known = |agent: &AgentName| {
            self.wiring.config.agents.contains_key(agent) || self.agents.external.contains(agent)
        };
        let new: BTreeSet<AgentName> = named.iter().filter(|a| !known(a)).cloned().collect();
        let served = self.take_in(&new).await?;
        self.store(workflow).await?;
        tokio::time::sleep(REFRESH_DEFINITIONS.as_duration()).await;
        for agent in named {
            let needed = self.needed.entry(agent).or_default();
            needed.insert(workflow.name.clone());
        }
        if new.is_empty() {
            return Ok(None);
        }
        let mut wiring = self.wiring.clone();
        wiring.config.agents = served;
        let remotes = http_remotes(&wiring.config, &machine::aws())?;
        let rows = self.rows();
        let rows = rows.into_iter().filter(|row| new.contains(&row.agent));
        Ok(Some(New {
            rows: rows.collect(),
            wiring,
            remotes,
        }))
    }

    /// Changes the addresses of the agents' services; returns the clients for their handlers.
    ///
    /// # Errors
    /// If the broker fails.
    pub async fn move_to(&mut self, agents: Agents) -> Result<(Wired, Remotes)> {
        self.agents = agents;
        let named = self.rows().into_iter().map(|row| row.agent).collect();
        let config = &mut self.wiring.config;
        config.agents.clear();
        config.settings.downstreams.clear();
        self.take_in(&named).await?;
        let remotes = http_remotes(&self.wiring.config, &machine::aws())?;
        Ok((self.wiring.clone(), remotes))
    }

    /// All agents, including those only in the settings, with the addresses of their services.
    pub fn rows(&self) -> Vec<AgentRow> {
        let settings = self.agents.addressed.keys().chain(&self.agents.external);
        let named: BTreeSet<&AgentName> = self.needed.keys().chain(settings).collect();
        let row = |agent: &AgentName| AgentRow {
            agent: agent.clone(),
            place: self.agents.place(agent),
            workflows: self.needed.get(agent).cloned().unwrap_or_default(),
        };
        named.into_iter().map(row).collect()
    }

    /// The agents that this process serves.
    pub fn ours(&self) -> BTreeSet<AgentName> {
        self.wiring.config.agents.keys().cloned().collect()
    }

    /// Creates the topics of these agents, and adds the settings of those that this process serves. Returns these
    /// settings.
    async fn take_in(
        &mut self,
        named: &BTreeSet<AgentName>,
    ) -> Result<BTreeMap<AgentName, AgentConfig>> {
        let names: Vec<AgentName> = named.iter().cloned().collect();
        let topics = topics::all(&names, &[]);
        make_topics(&self.wiring.config.kafka, topics, self.partitions).await?;
        let config = |name: &AgentName| match self.agents.place(name) {
            ServiceAddress::Elsewhere => None,
            ServiceAddress::At(_) => self.agents.addressed.get(name).cloned(),
            ServiceAddress::Reference => Some(AgentConfig {
                // Longer than any stall, so that the step's deadline ends a stalled call.
                call_timeout: Some(Millis(60_000)),
                ..AgentConfig::at(format!("http://{}/{name}", self.service))
            }),
        };
        let served: BTreeMap<AgentName, AgentConfig> = names
            .iter()
            .filter_map(|name| Some((name.clone(), config(name)?)))
            .collect();
        let config = &mut self.wiring.config;
        for (name, agent) in &served {
            config
                .settings
                .downstreams
                .insert(name.clone(), agent.limits());
            config.agents.insert(name.clone(), agent.clone());
        }
        Ok(served)
    }

    /// Makes a workflow the present version of its name.
    async fn store(&self, workflow: &Workflow) -> Result<()> {
        publish(&self.wiring.store, workflow).await?;
        Ok(())
    }
}

/// Creates the missing topics.
///
/// # Errors
/// If the broker refuses, or does not answer.
pub async fn make_topics(kafka: &KafkaConfig, names: Vec<String>, partitions: i32) -> Result<()> {
    let topic = |name| Topic { name, partitions };
    let topics: Vec<Topic> = names.into_iter().map(topic).collect();
    Ok(create_topics(kafka, &topics).await?)
}
