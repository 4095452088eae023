//! `triad publish`: makes workflow files the present versions of their workflows.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use triad_bootstrap::{Served, agents_of};
use triad_runtime::definitions::publish;
use triad_workflow::{AgentName, Limits, Workflow};

use super::validate::read_all;
use crate::connection::{KafkaArgs, LoginArgs, StoreArgs};
use crate::output::{self, print_line};

/// Publish workflow files; orders under way end on the version they began with
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad publish workflows/*.yaml
  triad publish --agents payment,inventory order.yaml

With --brokers it checks which agents of the workflows are served now, and warns of the others, whose steps
would wait.")]
pub struct PublishArgs {
    /// Workflow files; none is published unless all are sound
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Agents that exist; a step of any other is a problem
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    agents: Vec<String>,
    /// Print a JSON line for each file
    #[arg(long)]
    json: bool,
    /// Kafka bootstrap addresses, to check which agents are served
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "TRIAD_BROKERS",
        help_heading = "Connection"
    )]
    brokers: Option<String>,
    #[command(flatten)]
    login: LoginArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Longest check of the served agents.
const LOOK_WITHIN: Duration = Duration::from_secs(3);

/// Runs `triad publish`: checks all files, then publishes one after the other. The exit code is always 0.
///
/// # Errors
/// [`Usage`] naming every problem of the files, and then none is published; a failure of the store, and then earlier
/// files are published.
pub async fn run(args: PublishArgs) -> Result<ExitCode> {
    let limits = Limits {
        agents: (!args.agents.is_empty()).then(|| args.agents.iter().cloned().collect()),
        skew: args.store.spans()?.timing.skew,
    };
    let workflows = read_all(&args.files, &limits)?;
    let store = args.store.store().await?;
    for workflow in &workflows {
        let definition = publish(&store, workflow)
            .await
            .with_context(|| format!("{}@{} was not published", workflow.name, workflow.hash))?;
        if args.json {
            let name = workflow.name.as_str();
            print_line(
                &json!({"kind": "published", "workflow": name, "version": workflow.hash.as_str()}),
            )?;
        } else {
            println!("{definition}");
        }
    }
    if args.json {
        output::summary(workflows.len(), false, None, json!({}))?;
    }
    if let Some(brokers) = args.brokers {
        let kafka = KafkaArgs {
            brokers,
            login: args.login,
        };
        // Only a warning: the files are published all the same.
        if let Err(e) = warn_of_unserved(&kafka, &workflows).await {
            eprintln!("warning: the processes that serve its agents cannot be listed: {e:#}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Warns on standard error of agents that no process serves now.
async fn warn_of_unserved(kafka: &KafkaArgs, workflows: &[Workflow]) -> Result<()> {
    let needed: BTreeSet<AgentName> = workflows.iter().flat_map(agents_of).collect();
    let served = Served::discover(&kafka.config().await?, LOOK_WITHIN).await?;
    for agent in served.by_nobody(needed) {
        let named = workflows.iter().filter(|w| agents_of(w).contains(&agent));
        let named: Vec<&str> = named.map(|w| w.name.as_str()).collect();
        let named = named.join(", ");
        eprintln!(
            "warning: no process serves the agent {agent}: the steps of {named} that name it wait until a worker has it in TRIAD_AGENTS, or a function reads agent.{agent}"
        );
    }
    Ok(())
}
