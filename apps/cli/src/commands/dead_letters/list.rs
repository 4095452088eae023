//! `triad dead-letters list`: the causes with their numbers, then the newest letters.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use triad_operator::dead_letters::{LetterError, LetterFilter, list};
use triad_operator::operations::letters::LettersFound;
use triad_operator::operations::{DeadLetterFilter, ListDeadLetters};
use triad_operator::pages::MAX_PAGE;
use triad_runtime::Clock;
use triad_runtime::system::SystemClock;

use super::text;
use super::topic::KafkaLetters;
use crate::connection::KafkaAloneArgs;
use crate::output::{self, count, count_text, relative_time};
use crate::place::{Place, explained};

/// Most characters of a cause and of a key in the table; `show` prints them whole.
const SHOWN: usize = 72;
const SHOWN_KEY: usize = 24;

/// List dead letters: how many of each cause, then the newest ones
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad dead-letters list
  triad dead-letters list --cause unknown-workflow --since 2h
  triad dead-letters list --not-replayed
  triad dead-letters list --json | jq 'select(.kind == \"letter\" and .replayed_at == null) | .id'")]
pub struct ListArgs {
    #[command(flatten)]
    filter: DeadLetterFilter,
    /// Only letters that were never replayed
    #[arg(long)]
    not_replayed: bool,
    /// Letters that were dismissed, too
    #[arg(long)]
    dismissed: bool,
    /// Most letters to list; all are counted. 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Print a JSON line for each cause and each letter
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kafka: KafkaAloneArgs,
}

/// Runs `triad dead-letters list`. The exit code is always 0.
///
/// # Errors
/// If the topic cannot be read, holds more letters than an index takes, or standard output fails.
pub async fn run(args: ListArgs) -> Result<ExitCode> {
    let listing = match args.kafka.data.far()? {
        Some(far) => {
            let asked = ListDeadLetters {
                filter: args.filter,
                not_replayed: args.not_replayed,
                dismissed: args.dismissed,
                limit: Some(output::limit(args.limit).min(MAX_PAGE)),
            };
            Place::of(Arc::new(far)).ask(asked).await?
        }
        None => here(&args).await?,
    };
    if args.json {
        print_json(&listing)?;
    } else {
        print(&listing);
    }
    if listing.unreadable > 0 {
        let count = listing.unreadable;
        eprintln!("triad: {count} records of the topic dead-letter are not of Triad's making");
    }
    Ok(ExitCode::SUCCESS)
}

/// The listing, read from the broker.
async fn here(args: &ListArgs) -> Result<LettersFound> {
    let topic = KafkaLetters::of(&args.kafka, args.json).await?;
    let filter = args.filter.read(SystemClock.now());
    let filter = LetterFilter {
        not_replayed: args.not_replayed,
        dismissed: args.dismissed,
        ..filter.map_err(explained)?
    };
    match list(&topic, &filter, output::limit(args.limit)).await {
        Ok(found) => Ok(found.into()),
        Err(LetterError::Topic(error)) => Err(error.into()),
        Err(LetterError::Full(full)) => {
            Err(anyhow::Error::new(full).context("give a shorter time with --since"))
        }
    }
}

fn print_json(listing: &LettersFound) -> Result<()> {
    for group in &listing.causes {
        output::print("cause", group)?;
    }
    for letter in &listing.letters {
        output::print("letter", letter)?;
    }
    let further = json!({"causes": listing.causes.len(), "unreadable": listing.unreadable});
    let of = Some(letters(listing));
    output::summary(listing.letters.len(), listing.more, of, further)
}

/// How many letters there are, listed or not.
fn letters(listing: &LettersFound) -> u64 {
    listing
        .causes
        .iter()
        .map(|group| group.letters as u64)
        .sum()
}

fn print(listing: &LettersFound) {
    let now = SystemClock.now();
    if listing.causes.is_empty() {
        println!("no dead letters");
        return;
    }
    let mut table = output::table(["Cause", "Letters", "Replayed", "Newest"]);
    for group in &listing.causes {
        table.add_row([
            text::short(&group.cause, SHOWN),
            group.letters.to_string(),
            group.replayed.to_string(),
            relative_time(group.newest, now),
        ]);
    }
    table.print();
    let mut table = output::table(["Letter", "Written", "Key", "Bytes", "Replayed", "Cause"]);
    for letter in &listing.letters {
        let cause = format!("{}: {}", letter.cause, letter.message);
        let key = letter.key.as_ref();
        table.add_row([
            text::line(&letter.id.to_string()),
            relative_time(letter.at, now),
            key.map_or_else(String::new, |k| text::short(&text::bytes(&k.0), SHOWN_KEY)),
            match (letter.cut_from, letter.tombstone) {
                (_, true) => "tombstone".to_owned(),
                (Some(of), _) => format!("{} of {of}", letter.bytes),
                (None, _) => letter.bytes.to_string(),
            },
            match (letter.replayed_at, letter.dismissed_at) {
                (_, Some(_)) => "dismissed".to_owned(),
                (Some(at), None) => relative_time(at, now),
                (None, None) => String::new(),
            },
            text::short(&cause, SHOWN),
        ]);
    }
    println!();
    table.print();
    let of = Some(letters(listing));
    let number = count_text(listing.letters.len(), listing.more, of, "letter", "letters");
    let causes = count(listing.causes.len() as u64, "cause", "causes");
    println!("{causes}, {number}");
}
