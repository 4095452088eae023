//! The setup of `triad dev`, from the options and the project.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use triad_workflow::Workflow;

use super::DevArgs;
use super::agents::{AgentArgs, Agents};
use super::engines::{self, EngineOptions};
use super::project::Project;
use super::services;
use crate::commands::validate::read_all;
use crate::output::Usage;

/// The setup of a run.
#[derive(Debug)]
pub struct Setup {
    /// The project, unless workflows are named on the command line or there is none.
    pub project: Option<Project>,
    /// The ports of the project's services.
    pub ports: BTreeMap<String, u16>,
    /// The workflows to publish.
    pub workflows: Vec<Arc<Workflow>>,
    /// The file of orders to submit, if any.
    pub orders: Option<PathBuf>,
    /// Addresses of the agents' services.
    pub agents: Agents,
    /// The command line's options for agents; they override the project's file.
    pub agent_args: AgentArgs,
    /// Directory for durable state; `None`: memory.
    pub data: Option<PathBuf>,
}

impl Setup {
    /// Reads the project, the workflows and the settings of the agents.
    ///
    /// # Errors
    /// [`Usage`] naming every problem of the first of these that is wrong.
    pub fn of(args: &DevArgs) -> Result<Self> {
        let project = match &args.project {
            Some(place) => {
                let none = || {
                    let (place, file) = (place.display(), super::project::FILE);
                    Usage(format!(
                        "there is no {file} in {place}: triad new makes one"
                    ))
                };
                Some(Project::find(place)?.ok_or_else(none)?)
            }
            None if args.workflow.is_empty() => Project::find(Path::new(""))?,
            None => None,
        };
        let workflows = match &project {
            Some(project) => read_all(&project.workflows, &engines::limits())?,
            None if args.workflow.is_empty() => vec![engines::built_in()?],
            None => read_all(&args.workflow, &engines::limits())?,
        };
        args.faults.fit(&workflows)?;
        let ports = match &project {
            Some(project) => services::ports(project, &BTreeMap::new())?,
            None => BTreeMap::new(),
        };
        let (of_project, answers) = match &project {
            Some(project) => (project.agents(&ports)?, project.answers.clone()),
            None => (BTreeMap::new(), None),
        };
        let agents = args.agents.resolve(of_project, answers)?;
        agents.check(&workflows)?;
        let asked = args.submit || args.until_done;
        let of_project = project.as_ref().and_then(|p| p.orders.clone());
        let orders = args.orders.clone().or(of_project.filter(|_| asked));
        if asked && orders.is_none() {
            let option = if args.submit {
                "--submit"
            } else {
                "--until-done"
            };
            return Err(Usage(format!(
                "{option} needs orders: give --orders FILE, or name a file of orders in a project's {}",
                super::project::FILE
            ))
            .into());
        }
        Ok(Self {
            project,
            ports,
            workflows: workflows.into_iter().map(Arc::new).collect(),
            orders,
            agents,
            agent_args: args.agents.clone(),
            data: args.data.clone(),
        })
    }

    /// Options of the engines.
    pub fn engine_options(&self, args: &DevArgs) -> EngineOptions {
        EngineOptions {
            data: self.data.clone(),
            store: args.store,
            ports: [args.kafka_port, args.dynamodb_port, args.service_port],
            partitions: args.partitions,
            workflows: self.workflows.clone(),
            agents: self.agents.clone(),
            reply_topics: args.reply_topic.clone(),
            faults: args.faults.faults(),
            service_keys: None,
        }
    }
}
