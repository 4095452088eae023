//! `triad dead-letters show`: one letter with its headers, value and replays.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use triad_operator::dead_letters::{LetterView, show};
use triad_operator::operations::GetDeadLetter;
use triad_runtime::dead_letter::LetterId;

use super::text;
use super::topic::KafkaLetters;
use crate::connection::KafkaAloneArgs;
use crate::output::{self, Usage, moment, stream};
use crate::place::Place;

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
    kafka: KafkaAloneArgs,
}

/// Runs `triad dead-letters show`. The exit code is 1 if there is no such letter, otherwise 0.
///
/// # Errors
/// [`Usage`] if the id has another form; if the topic cannot be read, or standard output fails.
pub async fn run(args: ShowArgs) -> Result<ExitCode> {
    let id: LetterId = args.id.parse().map_err(|e| Usage(format!("{e}")))?;
    let found = match args.kafka.data.far()? {
        Some(far) => {
            let asked = GetDeadLetter {
                topic: id.topic.clone(),
                partition: id.partition,
                offset: id.offset,
                written: None,
            };
            Place::of(Arc::new(far))
                .find(asked)
                .await?
                .map(|found| found.0)
        }
        None => {
            let topic = KafkaLetters::of(&args.kafka, args.json).await?;
            show(&topic, &id, None).await?
        }
    };
    let Some(shown) = found else {
        eprintln!(
            "triad: there is no dead letter {id}: triad dead-letters list shows those that are there"
        );
        return Ok(ExitCode::FAILURE);
    };
    if args.value {
        write_value(&shown);
    } else if args.json {
        output::print("letter", &shown)?;
    } else {
        print(&shown);
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the bytes unchanged; ignores a reader that has closed its end.
fn write_value(letter: &LetterView) {
    stream::out_bytes(&letter.value.0);
    if let Some(note) = note(letter) {
        eprintln!("triad: {note}");
    }
}

/// Notes what of the value is missing or changed.
fn note(letter: &LetterView) -> Option<String> {
    match letter.cut_from {
        _ if letter.tombstone => Some("the record had no value (a tombstone)".to_owned()),
        None => None,
        Some(of) => Some(format!(
            "only the first {} of {of} bytes were kept; the whole is at {}, while that topic keeps it",
            letter.bytes, letter.id
        )),
    }
}

fn print(letter: &LetterView) {
    println!("Letter    {}", text::line(&letter.id.to_string()));
    println!("Cause     {}", text::line(&letter.cause));
    println!("          {}", text::line(&letter.message));
    println!("Written   {}", moment(letter.at));
    let key = letter.key.as_ref().map(|key| text::bytes(&key.0));
    println!("Key       {}", key.unwrap_or_else(|| "none".to_owned()));
    if let Some(of) = letter.key_of {
        println!("          the beginning of {of} bytes");
    }
    let mut title = "Headers ";
    for (name, value) in &letter.headers {
        let value = value
            .as_ref()
            .map_or("null".to_owned(), |value| text::bytes(&value.0));
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
    for mark in &letter.replays {
        let (by, why) = (text::line(&mark.by), text::line(&mark.why));
        println!("Replayed  {}   by {by}: {why}", moment(mark.at));
        if let Some(corrected) = &mark.corrected {
            println!(
                "          with a corrected value of {} bytes",
                corrected.0.len()
            );
        }
    }
    if let Some(mark) = &letter.dismissed {
        let (by, why) = (text::line(&mark.by), text::line(&mark.why));
        println!("Dismissed {}   by {by}: {why}", moment(mark.at));
    }
    let bytes = &letter.value.0;
    if let Some(note) = note(letter) {
        println!("Note      {note}");
    }
    if !letter.tombstone {
        let (what, shown) = text::value(bytes);
        println!("Value     {} bytes, {what}\n\n{shown}", bytes.len());
    }
}
