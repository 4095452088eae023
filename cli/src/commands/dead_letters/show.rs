//! `triad dead-letters show`: one letter with everything that is known of it.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use triad_runtime::dead_letter::letter::{Content, Marker};
use triad_runtime::dead_letter::{Entry, Letter, LetterId};

use super::text;
use super::topic::Letters;
use crate::commands::connection::KafkaArgs;
use crate::output::{Usage, moment, print_line};

/// Replays of one letter that are shown: the last ones.
const REPLAYS: usize = 100;

/// Show a dead letter: its cause, its headers, its value, and whether it was replayed
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad dead-letters show orders/3/42
  triad dead-letters show orders/3/42 --value > record.json     its bytes, to be corrected

Exit code 1 if there is no such letter.")]
pub struct ShowArgs {
    /// The letter: topic, partition and offset of its record
    #[arg(value_name = "TOPIC/PARTITION/OFFSET")]
    id: String,
    /// Write the value's bytes, and nothing else
    #[arg(long, conflicts_with = "json")]
    value: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kafka: KafkaArgs,
}

pub async fn run(args: ShowArgs) -> Result<ExitCode> {
    let id: LetterId = args.id.parse().map_err(|e| Usage(format!("{e}")))?;
    let mut letters = Letters::open(&args.kafka, None, args.json).await?;
    let mut found: Option<Letter> = None;
    let mut replays: Vec<Marker> = Vec::new();
    while let Some(entry) = letters.next().await? {
        match entry {
            // A redelivered record makes the same letter again.
            Entry::Letter(letter) if letter.id == id => {
                found.get_or_insert(letter);
            }
            Entry::Replayed(marker) if marker.of == id => {
                if replays.len() == REPLAYS {
                    replays.remove(0);
                }
                replays.push(marker);
            }
            Entry::Letter(_) | Entry::Replayed(_) => {}
        }
    }
    let Some(letter) = found else {
        eprintln!("triad: there is no dead letter {id}");
        return Ok(ExitCode::FAILURE);
    };
    replays.sort_by_key(|m| m.act.at);
    if args.value {
        write_value(&letter)?;
    } else if args.json {
        print_line(&as_json(&letter, &replays))?;
    } else {
        print(&letter, &replays);
    }
    Ok(ExitCode::SUCCESS)
}

/// The bytes as they are; a reader that has gone away is no error.
fn write_value(letter: &Letter) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(letter.value.bytes());
    match written.and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => return Err(e.into()),
        _ => {}
    }
    if let Some(note) = note(letter) {
        eprintln!("triad: {note}");
    }
    Ok(())
}

/// What is not as it came.
fn note(letter: &Letter) -> Option<String> {
    match &letter.value {
        Content::Whole(_) => None,
        Content::Cut { beginning, of } => Some(format!(
            "only the first {} of {of} bytes were kept; the whole is at {}, while that topic keeps it",
            beginning.len(),
            letter.id
        )),
        Content::Tombstone => Some("the record had no value (a tombstone)".to_owned()),
    }
}

fn as_json(letter: &Letter, replays: &[Marker]) -> Value {
    let bytes = letter.value.bytes();
    let headers: Vec<Value> = letter
        .headers
        .iter()
        .map(|(name, value)| json!([name, value.as_deref().map_or(Value::Null, text::as_json)]))
        .collect();
    let replays: Vec<Value> = replays
        .iter()
        .map(|m| {
            json!({
                "at": m.act.at, "by": m.act.by, "why": m.act.why,
                "corrected": m.corrected.as_deref().map_or(Value::Null, text::as_json),
            })
        })
        .collect();
    json!({
        "id": letter.id.to_string(),
        "topic": letter.id.topic,
        "partition": letter.id.partition,
        "offset": letter.id.offset,
        "at": letter.at,
        "cause": letter.cause,
        "message": letter.message,
        "key": letter.key.as_deref().map_or(Value::Null, text::as_json),
        "headers": headers,
        "headers_of": letter.headers_of,
        "tombstone": letter.value == Content::Tombstone,
        "bytes": bytes.len(),
        "cut_from": match letter.value {
            Content::Cut { of, .. } => Some(of),
            Content::Whole(_) | Content::Tombstone => None,
        },
        "value": text::as_json(bytes),
        "replays": replays,
    })
}

fn print(letter: &Letter, replays: &[Marker]) {
    println!("Letter    {}", text::line(&letter.id.to_string()));
    println!("Cause     {}", text::line(&letter.cause));
    println!("          {}", text::line(&letter.message));
    println!("Written   {}", moment(letter.at));
    let key = letter.key.as_deref().map(text::bytes);
    println!("Key       {}", key.unwrap_or_else(|| "none".to_owned()));
    let mut title = "Headers ";
    for (name, value) in &letter.headers {
        let value = value.as_deref().map_or("null".to_owned(), text::bytes);
        println!("{title}  {}: {value}", text::line(name));
        title = "        ";
    }
    if letter.headers.is_empty() {
        println!("{title}  none");
    }
    if let Some(of) = letter.headers_of {
        println!(
            "          and {} more that were not kept",
            of - letter.headers.len()
        );
    }
    for Marker { act, corrected, .. } in replays {
        let (by, why) = (text::line(&act.by), text::line(&act.why));
        println!("Replayed  {}   by {by}: {why}", moment(act.at));
        if let Some(corrected) = corrected {
            println!(
                "          with a corrected value of {} bytes",
                corrected.len()
            );
        }
    }
    let bytes = letter.value.bytes();
    if let Some(note) = note(letter) {
        println!("Note      {note}");
    }
    if letter.value != Content::Tombstone {
        let (what, shown) = text::value(bytes);
        println!("Value     {} bytes, {what}\n\n{shown}", bytes.len());
    }
}
