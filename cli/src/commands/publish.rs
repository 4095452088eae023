//! `triad publish`: makes workflow files the present versions of their names.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use triad_core::WorkflowRef;
use triad_runtime::DefinitionStore;
use triad_workflow::Limits;
use triad_workflow::hash::canonical_json;

use super::connection::StoreArgs;
use super::validate::read_all;

/// Publish workflow files; orders under way end on the version they began with
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad publish workflows/*.yaml
  triad publish --agents payment,inventory order.yaml")]
pub struct PublishArgs {
    /// Workflow files; none is published unless all are sound
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Agents that exist; a step of any other is a problem
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    agents: Vec<String>,
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs `triad publish`: checks all files, then publishes one after the other. The exit code is
/// always 0.
///
/// # Errors
/// [`Usage`] naming every problem of the files, and then none is published; a failure of the store,
/// and then earlier files are published.
pub async fn run(args: PublishArgs) -> Result<ExitCode> {
    let limits = Limits {
        agents: (!args.agents.is_empty()).then(|| args.agents.iter().cloned().collect()),
        skew: args.store.spans()?.timing.skew,
    };
    let workflows = read_all(&args.files, &limits)?;
    let store = args.store.store().await?;
    for workflow in &workflows {
        let definition = WorkflowRef {
            name: workflow.name.clone(),
            hash: workflow.hash.clone(),
        };
        println!("{definition}");
        store
            .publish(definition, canonical_json(&workflow.definition))
            .await?;
    }
    Ok(ExitCode::SUCCESS)
}
