//! `triad agent`: writes, tries and checks descriptions of services.

mod call;
mod check;
mod import;
mod target;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Describe a service, and call it as its agent does
#[derive(Debug, Args)]
pub struct AgentCommandArgs {
    #[command(subcommand)]
    command: AgentCommand,
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    Import(import::ImportArgs),
    Call(Box<call::CallArgs>),
    Check(Box<check::CheckArgs>),
}

/// Runs `triad agent`.
///
/// # Errors
/// Those of its commands.
pub async fn run(args: AgentCommandArgs) -> Result<ExitCode> {
    match args.command {
        AgentCommand::Import(args) => import::run(&args),
        AgentCommand::Call(args) => call::run(*args).await,
        AgentCommand::Check(args) => check::run(*args).await,
    }
}
