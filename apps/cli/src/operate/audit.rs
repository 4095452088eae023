//! `triad audit`: all stored acts of operators.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use triad_operator::audit::{AuditEntry, AuditTarget};
use triad_operator::operations::ListActs;
use triad_operator::operations::audit::MAX_ACTS;

use crate::connection::{KafkaArgs, LoginArgs, StoreArgs};
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
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
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
    let place = match args.brokers {
        Some(brokers) => {
            let login = args.login;
            args.store.place_with(&KafkaArgs { brokers, login }).await?
        }
        None => args.store.place().await?,
    };
    let asked = ListActs {
        since: args.since,
        limit: Some(MAX_ACTS),
    };
    let found = place.ask(asked).await?;
    for line in &found.acts {
        print_entry(line, args.json)?;
    }
    super::list::warn_skipped(&found.unreadable, 0);
    if let Some(why) = &found.without_dead_letters {
        eprintln!("triad: acts on dead letters are not included: {why}");
    }
    if found.more {
        eprintln!("triad: only {MAX_ACTS} acts are listed: give a shorter time with --since");
    }
    if args.json {
        let further = json!({"dead_letters": found.without_dead_letters.is_none()});
        output::summary(found.acts.len(), found.more, None, further)?;
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
