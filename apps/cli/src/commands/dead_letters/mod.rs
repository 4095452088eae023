//! `triad dead-letters`: lists, shows, replays and dismisses records that could not be handled.
//!
//! `triad_operator::dead_letters` does the work; this module has the options, the output and the reading of Kafka.

mod list;
mod replay;
#[cfg(feature = "aws")]
mod restore;
mod show;
mod text;
pub mod topic;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

/// List, show, replay and dismiss records that could not be handled
#[derive(Debug, Args)]
pub struct DeadLettersArgs {
    #[command(subcommand)]
    command: DeadLettersCommand,
}

#[derive(Debug, Subcommand)]
enum DeadLettersCommand {
    List(list::ListArgs),
    Show(show::ShowArgs),
    Replay(replay::ReplayArgs),
    Dismiss(replay::DismissArgs),
    #[cfg(feature = "aws")]
    Restore(restore::RestoreArgs),
}

impl DeadLettersArgs {
    /// Whether messages are sent, because it is no dry run.
    pub fn changes(&self) -> bool {
        match &self.command {
            DeadLettersCommand::List(_) | DeadLettersCommand::Show(_) => false,
            DeadLettersCommand::Replay(args) => !args.is_dry(),
            DeadLettersCommand::Dismiss(args) => !args.is_dry(),
            #[cfg(feature = "aws")]
            DeadLettersCommand::Restore(args) => !args.is_dry(),
        }
    }
}

/// Runs the given subcommand of `triad dead-letters`, and returns its exit code.
///
/// # Errors
/// Those of the subcommand.
pub async fn run(args: DeadLettersArgs) -> Result<ExitCode> {
    match args.command {
        DeadLettersCommand::List(args) => list::run(args).await,
        DeadLettersCommand::Show(args) => show::run(args).await,
        DeadLettersCommand::Replay(args) => replay::run(args).await,
        DeadLettersCommand::Dismiss(args) => replay::run(args.into()).await,
        #[cfg(feature = "aws")]
        DeadLettersCommand::Restore(args) => restore::run(args).await,
    }
}
