//! `triad dead-letters list`: what could not be taken, by cause, then the newest letters.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde_json::{Value, json};
use triad_core::Timestamp;
use triad_runtime::dead_letter::index::Index;
use triad_runtime::dead_letter::letter::Content;
use triad_runtime::dead_letter::{Entry, Letter, LetterId};

use super::topic::Letters;
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

/// What a line of the list says of a letter.
struct Line {
    cause: String,
    message: String,
    key: Option<Vec<u8>>,
    bytes: usize,
    cut_from: Option<usize>,
    tombstone: bool,
}

pub async fn run(args: ListArgs) -> Result<ExitCode> {
    let filter = args.filter.fixed();
    let mut letters = Letters::open(&args.kafka, filter.since, args.json).await?;
    let mut index = Index::default();
    // The newest, oldest first.
    let mut lines: BTreeMap<(Timestamp, LetterId), Line> = BTreeMap::new();
    let mut more = false;
    while let Some(entry) = letters.next().await? {
        if matches!(&entry, Entry::Letter(letter) if !filter.takes(letter)) {
            continue;
        }
        let new = index
            .note(&entry)
            .context("give a shorter time with --since")?;
        if let Entry::Letter(letter) = entry
            && new
        {
            lines.insert((letter.at, letter.id.clone()), Line::of(letter));
            if lines.len() > args.limit as usize {
                lines.pop_first();
                more = true;
            }
        }
    }
    if args.json {
        print_json(&index, &lines)?;
    } else {
        print(&index, &lines);
        if more {
            println!("and older ones: raise --limit {}", args.limit);
        }
    }
    if letters.unreadable() > 0 {
        let count = letters.unreadable();
        eprintln!("triad: {count} records of the topic are not of Triad's making");
    }
    Ok(ExitCode::SUCCESS)
}

impl Line {
    fn of(letter: Letter) -> Self {
        Self {
            bytes: letter.value.bytes().len(),
            cut_from: match letter.value {
                Content::Cut { of, .. } => Some(of),
                Content::Whole(_) | Content::Tombstone => None,
            },
            tombstone: letter.value == Content::Tombstone,
            cause: letter.cause,
            message: letter.message,
            key: letter.key,
        }
    }
}

type Lines = BTreeMap<(Timestamp, LetterId), Line>;

fn print_json(index: &Index, lines: &Lines) -> Result<()> {
    for group in index.groups() {
        print_line(&json!({
            "kind": "cause",
            "cause": group.cause,
            "letters": group.letters,
            "replayed": group.replayed,
            "newest": group.newest,
        }))?;
    }
    for ((at, id), line) in lines {
        print_line(&json!({
            "kind": "letter",
            "id": id.to_string(),
            "topic": id.topic,
            "partition": id.partition,
            "offset": id.offset,
            "at": at,
            "cause": line.cause,
            "message": line.message,
            "key": line.key.as_deref().map_or(Value::Null, text::as_json),
            "bytes": line.bytes,
            "cut_from": line.cut_from,
            "tombstone": line.tombstone,
            "replayed_at": index.replayed(id),
        }))?;
    }
    Ok(())
}

fn print(index: &Index, lines: &Lines) {
    let groups = index.groups();
    if groups.is_empty() {
        println!("no dead letters");
        return;
    }
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_header(["Cause", "Letters", "Replayed", "Newest"]);
    for group in groups {
        table.add_row([
            text::short(&group.cause, SHOWN),
            group.letters.to_string(),
            group.replayed.to_string(),
            moment(group.newest),
        ]);
    }
    println!("{table}");
    if lines.is_empty() {
        return;
    }
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_header(["Letter", "Written", "Key", "Bytes", "Replayed", "Cause"]);
    for ((at, id), line) in lines {
        let cause = format!("{}: {}", line.cause, line.message);
        table.add_row([
            text::line(&id.to_string()),
            moment(*at),
            line.key
                .as_deref()
                .map_or_else(String::new, |k| text::short(&text::bytes(k), SHOWN_KEY)),
            match (line.cut_from, line.tombstone) {
                (_, true) => "tombstone".to_owned(),
                (Some(of), _) => format!("{} of {of}", line.bytes),
                (None, _) => line.bytes.to_string(),
            },
            index.replayed(id).map_or_else(String::new, moment),
            text::short(&cause, SHOWN),
        ]);
    }
    println!("\n{table}");
}
