//! `triad dead-letters`: records that could not be taken are listed, shown and replayed.
//!
//! The topic `dead-letter` is read as a whole, or from `--since` on: Kafka has no other index. What
//! is kept in memory of it is bounded; what a letter is, and what a replay sends, is
//! `triad_runtime::dead_letter`'s.

mod list;
mod replay;
mod show;
mod text;
mod topic;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use triad_core::Timestamp;
use triad_runtime::Clock;
use triad_runtime::dead_letter::Letter;
use triad_runtime::system::SystemClock;
use triad_workflow::Millis;

/// List, show and replay records that could not be taken
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
}

pub async fn run(args: DeadLettersArgs) -> Result<ExitCode> {
    match args.command {
        DeadLettersCommand::List(args) => list::run(args).await,
        DeadLettersCommand::Show(args) => show::run(args).await,
        DeadLettersCommand::Replay(args) => replay::run(args).await,
    }
}

/// Which letters.
#[derive(Debug, Clone, Default, Args)]
pub struct FilterArgs {
    /// Only letters with this cause
    #[arg(long, value_name = "CODE")]
    cause: Option<String>,
    /// Only letters of records of this topic
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// Only letters not older than this, such as 2h; the topic is read from there on
    #[arg(long, value_name = "TIME", value_parser = |t: &str| Millis::try_from(t.to_owned()))]
    since: Option<Millis>,
}

/// The same, with the moment fixed.
#[derive(Debug, Clone)]
struct Filter {
    cause: Option<String>,
    topic: Option<String>,
    since: Option<Timestamp>,
}

impl FilterArgs {
    fn fixed(self) -> Filter {
        Filter {
            cause: self.cause,
            topic: self.topic,
            since: self.since.map(|span| SystemClock.now().minus(span)),
        }
    }
}

impl Filter {
    fn takes(&self, letter: &Letter) -> bool {
        let is = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|w| w == is);
        is(&self.cause, &letter.cause)
            && is(&self.topic, &letter.id.topic)
            && self.since.is_none_or(|since| letter.at >= since)
    }
}
