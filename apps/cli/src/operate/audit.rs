//! `triad audit`: all stored acts of operators.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use triad_core::Timestamp;
use triad_operator::audit::{AuditEntry, AuditError, AuditTarget, LettersError, export, letters};
use triad_runtime::Clock;
use triad_runtime::system::SystemClock;
use triad_workflow::Millis;

use crate::commands::connection::{KafkaArgs, LoginArgs, StoreArgs};
use crate::commands::dead_letters::topic::KafkaLetters;
use crate::output::{self, moment, print};

/// Export what operators did: on orders, downstreams, campaigns and dead letters, with who and why
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad audit --json > audit.jsonl
  triad audit --since 30d --json | jq 'select(.by == \"ann\")'

It reads the whole table of process records. A record keeps its acts until it expires. For a
downstream the last 21 changes are listed, and the settings in force; the topic of alerts has all changes. Acts
on dead letters are listed from their topic, if Kafka's address is given (--brokers).")]
pub struct AuditArgs {
    /// Only acts that are not older than this
    #[arg(long, value_name = "TIME", value_parser = str::parse::<Millis>)]
    since: Option<Millis>,
    /// Print a JSON line for each, and a summary
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
    /// Kafka bootstrap addresses, for replays and dismissals of dead letters
    #[arg(long, value_name = "HOST:PORT", env = "TRIAD_BROKERS")]
    brokers: Option<String>,
    #[command(flatten)]
    login: LoginArgs,
}

/// Runs `triad audit`. The exit code is always 0.
///
/// # Errors
/// If the store, the topic of dead letters or standard output fails.
pub async fn run(args: AuditArgs) -> Result<ExitCode> {
    let store = args.store.store().await?;
    let since = args
        .since
        .map_or(Timestamp(0), |span| SystemClock.now().minus(span));
    let mut shown = 0;
    let told = export(&store, since, |line| {
        shown += 1;
        print_entry(line, args.json)
    });
    let skipped = match told.await {
        Ok(skipped) => skipped,
        Err(AuditError::Report(e)) => return Err(e),
        Err(AuditError::Store(e)) => return Err(e.into()),
        Err(AuditError::Downstreams(e)) => return Err(e.into()),
    };
    super::list::warn_skipped(&skipped);
    let is_of_letters = args.brokers.is_some();
    match args.brokers {
        Some(brokers) => {
            let login = args.login;
            let kafka = KafkaArgs { brokers, login };
            let topic = KafkaLetters::of(&kafka, args.json).await?;
            let told = letters(&topic, since, |line| {
                shown += 1;
                print_entry(line, args.json)
            });
            match told.await {
                Ok(()) => {}
                Err(LettersError::Report(e)) => return Err(e),
                Err(LettersError::Topic(e)) => return Err(e.into()),
            }
        }
        None => eprintln!(
            "triad: acts on dead letters are not included: give --brokers, or set TRIAD_BROKERS"
        ),
    }
    if args.json {
        output::summary(shown, false, None, json!({"dead_letters": is_of_letters}))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_entry(line: &AuditEntry, json: bool) -> Result<()> {
    if json {
        return print("audit", line);
    }
    let on = match &line.on {
        AuditTarget::Order { order_id } => order_id.to_string(),
        AuditTarget::Downstream { downstream } => format!("downstream {downstream}"),
        AuditTarget::Campaign { campaign_id } => campaign_id.to_string(),
        AuditTarget::DeadLetter { dead_letter } => format!("dead letter {dead_letter}"),
    };
    let within = line
        .operator
        .campaign
        .as_ref()
        .map(|id| format!(" ({id})"))
        .unwrap_or_default();
    let (at, what) = (moment(line.at), &line.what);
    println!(
        "{at}  {on}  {what} by {}{within}: {}",
        line.operator.by, line.operator.why
    );
    Ok(())
}
