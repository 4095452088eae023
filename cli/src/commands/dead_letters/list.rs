//! `triad dead-letters list`: what could not be taken, by cause, then the newest letters.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde_json::Value;
use triad_operator::dead_letters::{LetterError, Listing, list};

use super::topic::KafkaLetters;
use super::{FilterArgs, text};
use crate::commands::connection::KafkaArgs;
use crate::output::{moment, print_line};

/// Characters of a cause and of a key in the table; `show` has all of them.
const SHOWN: usize = 72;
const SHOWN_KEY: usize = 24;

/// List dead letters: how many of each cause, then the newest ones
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad dead-letters list
  triad dead-letters list --cause unknown-workflow --since 2h
  triad dead-letters list --json | jq 'select(.kind == \"letter\" and .replayed_at == null) | .id'")]
pub struct ListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Most letters to list; all are counted
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    limit: u32,
    /// Print a JSON line for each cause and each letter
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kafka: KafkaArgs,
}

/// Runs `triad dead-letters list`. The exit code is always 0.
///
/// # Errors
/// If the topic cannot be read, holds more letters than an index takes, or standard output fails.
pub async fn run(args: ListArgs) -> Result<ExitCode> {
    let topic = KafkaLetters::of(&args.kafka, args.json).await?;
    let listing = list(&topic, &args.filter.filter(), args.limit as usize).await;
    let listing = match listing {
        Ok(listing) => listing,
        Err(LetterError::Topic(error)) => return Err(error.into()),
        Err(LetterError::Full(full)) => {
            return Err(anyhow::Error::new(full).context("give a shorter time with --since"));
        }
    };
    if args.json {
        print_json(&listing)?;
    } else {
        print(&listing);
        if listing.more {
            println!("and older ones: raise --limit {}", args.limit);
        }
    }
    if listing.unreadable > 0 {
        let count = listing.unreadable;
        eprintln!("triad: {count} records of the topic are not of Triad's making");
    }
    Ok(ExitCode::SUCCESS)
}

fn print_json(listing: &Listing) -> Result<()> {
    let print = |kind: &str, mut line: Value| {
        line["kind"] = kind.into();
        print_line(&line)
    };
    for group in &listing.causes {
        print("cause", serde_json::to_value(group)?)?;
    }
    for letter in &listing.letters {
        print("letter", serde_json::to_value(letter)?)?;
    }
    Ok(())
}

fn print(listing: &Listing) {
    if listing.causes.is_empty() {
        println!("no dead letters");
        return;
    }
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_header(["Cause", "Letters", "Replayed", "Newest"]);
    for group in &listing.causes {
        table.add_row([
            text::short(&group.cause, SHOWN),
            group.letters.to_string(),
            group.replayed.to_string(),
            moment(group.newest),
        ]);
    }
    println!("{table}");
    if listing.letters.is_empty() {
        return;
    }
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_header(["Letter", "Written", "Key", "Bytes", "Replayed", "Cause"]);
    for letter in &listing.letters {
        let cause = format!("{}: {}", letter.cause, letter.message);
        let key = letter.key.as_ref();
        table.add_row([
            text::line(&letter.id.to_string()),
            moment(letter.at),
            key.map_or_else(String::new, |k| text::short(&text::bytes(&k.0), SHOWN_KEY)),
            match (letter.cut_from, letter.tombstone) {
                (_, true) => "tombstone".to_owned(),
                (Some(of), _) => format!("{} of {of}", letter.bytes),
                (None, _) => letter.bytes.to_string(),
            },
            letter.replayed_at.map_or_else(String::new, moment),
            text::short(&cause, SHOWN),
        ]);
    }
    println!("\n{table}");
}
