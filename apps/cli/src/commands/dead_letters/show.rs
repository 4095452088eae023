//! `triad dead-letters show`: one letter with its headers, value and replays.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use triad_operator::dead_letters::{LetterView, show};
use triad_runtime::dead_letter::letter::{Content, Marker};
use triad_runtime::dead_letter::{Letter, LetterId};

use super::text;
use super::topic::KafkaLetters;
use crate::commands::connection::KafkaAloneArgs;
use crate::output::{self, Usage, moment, stream};

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
    let topic = KafkaLetters::of(&args.kafka, args.json).await?;
    let Some(shown) = show(&topic, &id, None).await? else {
        eprintln!(
            "triad: there is no dead letter {id}: triad dead-letters list shows those that are there"
        );
        return Ok(ExitCode::FAILURE);
    };
    if args.value {
        write_value(&shown.letter);
    } else if args.json {
        output::print("letter", &shown)?;
    } else {
        print(&shown);
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the bytes unchanged; ignores a reader that has closed its end.
fn write_value(letter: &Letter) {
    stream::out_bytes(letter.value.bytes());
    if let Some(note) = note(letter) {
        eprintln!("triad: {note}");
    }
}

/// Notes what of the value is missing or changed.
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

fn print(shown: &LetterView) {
    let LetterView {
        letter,
        replays,
        dismissed,
    } = shown;
    println!("Letter    {}", text::line(&letter.id.to_string()));
    println!("Cause     {}", text::line(&letter.cause));
    println!("          {}", text::line(&letter.message));
    println!("Written   {}", moment(letter.at));
    let key = letter.key.as_deref().map(text::bytes);
    println!("Key       {}", key.unwrap_or_else(|| "none".to_owned()));
    if let Some(of) = letter.key_of {
        println!("          the beginning of {of} bytes");
    }
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
    if let Some(Marker { act, .. }) = dismissed {
        let (by, why) = (text::line(&act.by), text::line(&act.why));
        println!("Dismissed {}   by {by}: {why}", moment(act.at));
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
