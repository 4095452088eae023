//! The agents that `triad dev` serves, and the address of each one's service.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde_json::{Value, json};
use triad_bootstrap::agents::{self, AgentErrors};
use triad_bootstrap::{AgentConfig, environment, remotes_of};
use triad_workflow::{AgentName, Workflow, WorkflowName};

use crate::answers::Answers;
use crate::machine;
use crate::output::Usage;

/// Options for the services that the agents call.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Agents")]
pub struct AgentArgs {
    /// Address of an agent's service, such as bank=http://127.0.0.1:8080; may be given several times, and takes
    /// precedence over the address in TRIAD_AGENTS. Agents without one use the reference service
    #[arg(long, value_name = "NAME=URL", value_parser = named_address)]
    pub agent: Vec<(AgentName, String)>,
    /// Agent that another process serves, such as a triad-worker beside this one; may be given several times
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = agent_name)]
    pub external_agent: Vec<AgentName>,
    /// Answers that the reference service plays, in YAML or JSON, by agent and action: outputs, or what
    /// `triad agent call --record` has kept
    #[arg(long, value_name = "FILE")]
    pub answers: Option<PathBuf>,
}

/// An agent on a command line.
///
/// # Errors
/// Why it is no name of an agent.
pub fn agent_name(text: &str) -> Result<AgentName, String> {
    AgentName::new(text).map_err(|e| e.to_string())
}

/// An agent and the address of its service on a command line.
///
/// # Errors
/// Why it is none.
pub fn named_address(text: &str) -> Result<(AgentName, String), String> {
    let (name, url) = text
        .split_once('=')
        .ok_or("is not NAME=URL, such as bank=http://127.0.0.1:8080")?;
    Ok((agent_name(name)?, url.to_owned()))
}

/// Addresses of the agents' services. Agents that are not named use the reference service.
#[derive(Debug, Clone, Default)]
pub struct Agents {
    /// Settings of the agents that have an address.
    pub addressed: BTreeMap<AgentName, AgentConfig>,
    /// The agents that another process serves.
    pub external: BTreeSet<AgentName>,
    /// Answers that the reference service plays for the other agents.
    pub answers: Answers,
}

impl AgentArgs {
    /// Merges the project, `TRIAD_AGENTS` and the options; the later of these takes precedence. `answers` is the
    /// project's file of answers.
    ///
    /// # Errors
    /// [`Usage`] naming every setting that cannot be used, or that contradicts another one.
    pub fn resolve(
        &self,
        project: BTreeMap<AgentName, AgentConfig>,
        answers: Option<PathBuf>,
    ) -> Result<Agents, Usage> {
        let mut problems = Vec::new();
        let mut addressed = project;
        if let Some(text) = environment("TRIAD_AGENTS") {
            match agents::parse(&text) {
                Ok(read) => addressed.extend(read),
                Err(AgentErrors(found)) => {
                    problems.extend(found.iter().map(|why| format!("TRIAD_AGENTS: {why}")));
                }
            }
        }
        for (name, url) in &self.agent {
            match addressed.get_mut(name) {
                Some(agent) => agent.move_to(url.clone()),
                None => {
                    addressed.insert(name.clone(), AgentConfig::at(url.clone()));
                }
            }
        }
        let external: BTreeSet<AgentName> = self.external_agent.iter().cloned().collect();
        for (name, _) in &self.agent {
            if external.contains(name) {
                problems.push(format!(
                    "agent {name} has an address by --agent and is served elsewhere by --external-agent: leave one out"
                ));
            }
        }
        addressed.retain(|name, _| !external.contains(name));
        problems.extend(
            remotes_of(&addressed, &machine::aws())
                .err()
                .map_or_else(Vec::new, |e| e.0),
        );
        let answers = match self.answers.clone().or(answers) {
            Some(file) => Answers::read(&file).unwrap_or_else(|found| {
                problems.extend(found);
                Answers::default()
            }),
            None => Answers::default(),
        };
        for name in answers.0.keys() {
            let named = |agent: &AgentName| agent.as_str() == name;
            let who = if addressed.keys().any(named) {
                "its own service answers"
            } else if external.iter().any(named) {
                "another process serves it"
            } else {
                continue;
            };
            problems.push(format!("the answers name agent {name}, but {who}"));
        }
        if problems.is_empty() {
            Ok(Agents {
                addressed,
                external,
                answers,
            })
        } else {
            Err(Usage(problems.join("\n")))
        }
    }
}

impl Agents {
    /// Checks that the answers are for agents and actions in these workflows: any other is a typing error, and the
    /// steps would lack their outputs.
    ///
    /// # Errors
    /// [`Usage`] naming every agent and action that no workflow names.
    pub fn check(&self, workflows: &[Workflow]) -> Result<(), Usage> {
        let mut actions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for step in workflows.iter().flat_map(|w| &w.steps) {
            let compensation = step.compensation.as_ref();
            let compensation = compensation.map(|c| (c.agent.as_str(), c.action.as_str()));
            let call = step
                .call()
                .map(|call| (call.agent.as_str(), call.action.as_str()));
            for (agent, action) in call.into_iter().chain(compensation) {
                actions.entry(agent).or_default().insert(action);
            }
        }
        let mut problems = Vec::new();
        for (agent, answers) in &self.answers.0 {
            let Some(known) = actions.get(agent.as_str()) else {
                let known: Vec<&str> = actions.keys().copied().collect();
                problems.push(format!(
                    "the answers name agent {agent}, and no workflow does; there are {}",
                    known.join(", ")
                ));
                continue;
            };
            let unknown = answers.keys().filter(|a| !known.contains(a.as_str()));
            problems.extend(unknown.map(|action| {
                let known: Vec<&str> = known.iter().copied().collect();
                format!(
                    "the answers name action {action} of agent {agent}, and no workflow does; there are {}",
                    known.join(", ")
                )
            }));
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Usage(problems.join("\n")))
        }
    }

    /// The address of this agent's service.
    pub fn place(&self, agent: &AgentName) -> ServiceAddress {
        if self.external.contains(agent) {
            return ServiceAddress::Elsewhere;
        }
        match self.addressed.get(agent) {
            Some(config) => ServiceAddress::At(config.address()),
            None => ServiceAddress::Reference,
        }
    }
}

/// The address of an agent's service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceAddress {
    /// The agent calls this address, which contains no secret.
    At(String),
    /// The reference service.
    Reference,
    /// Another process serves the agent.
    Elsewhere,
}

impl std::fmt::Display for ServiceAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::At(address) => f.write_str(address),
            Self::Reference => f.write_str("the reference service"),
            Self::Elsewhere => f.write_str("another process"),
        }
    }
}

/// One agent, where its service is, and the workflows that need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRow {
    /// The agent's name.
    pub agent: AgentName,
    /// The address of its service.
    pub place: ServiceAddress,
    /// The workflows that name the agent; empty if only the settings name it.
    pub workflows: BTreeSet<WorkflowName>,
}

impl AgentRow {
    /// The row as JSON.
    pub fn json(&self) -> Value {
        json!({
            "agent": self.agent.as_str(),
            "served_by": match self.place {
                ServiceAddress::At(_) => "address",
                ServiceAddress::Reference => "reference-service",
                ServiceAddress::Elsewhere => "external",
            },
            "address": match &self.place {
                ServiceAddress::At(address) => Some(address),
                ServiceAddress::Reference | ServiceAddress::Elsewhere => None,
            },
            "workflows": self.workflows.iter().map(WorkflowName::as_str).collect::<Vec<_>>(),
        })
    }
}

/// The rows as a table for people.
pub fn table(rows: &[AgentRow]) -> Table {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_header(["Agent", "Service", "Needed by"]);
    for row in rows {
        let needed: Vec<&str> = row.workflows.iter().map(WorkflowName::as_str).collect();
        let needed = if needed.is_empty() {
            "no workflow".to_owned()
        } else {
            needed.join(", ")
        };
        table.add_row([row.agent.to_string(), row.place.to_string(), needed]);
    }
    table
}
