//! `triad dead-letters replay`: letters are sent again to where they came from, and marked.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use triad_bootstrap::environment;
use triad_kafka::KafkaError;
use triad_operator::Rate;
use triad_operator::dead_letters::{Chosen, Outcome, Replay, ReplayError, Tally, replay};
use triad_runtime::Clock;
use triad_runtime::dead_letter::replay::{ReplayAct, ReplayRefusal};
use triad_runtime::dead_letter::{Letter, MAX_VALUE_BYTES};
use triad_runtime::system::SystemClock;

use super::topic::KafkaLetters;
use super::{FilterArgs, text};
use crate::commands::connection::KafkaArgs;
use crate::output::{Usage, moment, print_line};

/// Send dead letters again to the topics that they came from, and mark them as replayed
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad dead-letters replay --all --cause unknown-workflow --why 'workflow published' --dry-run
  triad dead-letters replay --all --cause unknown-workflow --why 'workflow published' --rate 20/s
  triad dead-letters show orders/3/42 --value > record.json
  triad dead-letters replay orders/3/42 --value record.json --why 'comma added'

A letter is sent with its record's key, value and headers. One that was replayed is not replayed
again without --again. Exit code 1 if one could not be replayed.")]
pub struct ReplayArgs {
    /// Letters: topic, partition and offset of their records
    #[arg(
        value_name = "TOPIC/PARTITION/OFFSET",
        required_unless_present = "all",
        conflicts_with_all = ["all", "cause", "topic", "since"]
    )]
    ids: Vec<String>,
    /// All letters, or all of this cause, topic or time
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    filter: FilterArgs,
    /// Why they are replayed; kept in the marker
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// Who replays them; kept in the marker. Default: the variable USER
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// A file with the corrected value of a single letter; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    value: Option<PathBuf>,
    /// Replay also what was replayed before
    #[arg(long)]
    again: bool,
    /// Say what would be replayed and send nothing
    #[arg(long)]
    dry_run: bool,
    /// Most letters a second
    #[arg(long, value_name = "N/s", default_value = "100/s", value_parser = rate)]
    rate: Rate,
    /// Print a JSON line for each letter, and a summary
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kafka: KafkaArgs,
}

fn rate(text: &str) -> Result<Rate, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let rate = number.parse().ok().and_then(|n| Rate::new(n).ok());
    rate.ok_or_else(|| "is not a rate from 1/s to 10000/s".to_owned())
}

/// Runs `triad dead-letters replay`. The exit code is 1 if a letter could not be replayed, or if a
/// letter that was named had been replayed before and `--again` is missing; otherwise 0.
///
/// # Errors
/// [`Usage`] if ids, `--by`, `--why` or `--value` cannot be used; if the topic cannot be read or
/// holds too many letters, no broker answers, or standard output fails.
pub async fn run(args: ReplayArgs) -> Result<ExitCode> {
    let act = act(&args)?;
    let corrected = corrected(&args)?;
    let letters = if args.all {
        Chosen::All(args.filter.clone().filter())
    } else {
        let parsed: Result<_, _> = args.ids.iter().map(|id| id.parse()).collect();
        Chosen::Named(parsed.map_err(|e| Usage(format!("{e}")))?)
    };
    let what = Replay {
        letters,
        act,
        corrected,
        again: args.again,
        dry_run: args.dry_run,
        rate: args.rate,
    };
    let topic = KafkaLetters::of(&args.kafka, args.json).await?;
    let bus = args.kafka.bus().await?;
    let done = replay(&topic, &bus, &SystemClock, &what, |letter, outcome| {
        tell(&args, &topic, letter, outcome)
    });
    let tally = match done.await {
        Ok(tally) => tally,
        Err(ReplayError::Unknown(ids)) => {
            for id in ids {
                eprintln!("triad: there is no dead letter {id}");
            }
            eprintln!("triad: nothing was replayed");
            return Ok(ExitCode::FAILURE);
        }
        Err(other) => return Err(failed(other, &args.kafka.brokers)),
    };
    sum(&args, tally)?;
    let refused = !args.all && tally.before > 0;
    Ok(if tally.failed > 0 || refused {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// A fault of the whole run.
fn failed(error: ReplayError<KafkaError, anyhow::Error>, brokers: &str) -> anyhow::Error {
    match error {
        ReplayError::Topic(error) => error.into(),
        ReplayError::Full(full) => {
            anyhow::Error::new(full).context("replay them in parts, with --since or --topic")
        }
        ReplayError::NoAnswer => anyhow::anyhow!(
            "no broker at {brokers} has answered in 15 s; the letter in hand may have been sent"
        ),
        ReplayError::Report(error) => error,
        ReplayError::Unknown(_) => anyhow::anyhow!("some of the letters do not exist"),
    }
}

fn act(args: &ReplayArgs) -> Result<ReplayAct> {
    let by = args.by.clone().or_else(|| environment("USER"));
    let by = by.ok_or_else(|| {
        Usage("who replays is not known: give --by, or set the variable USER".to_owned())
    })?;
    Ok(ReplayAct::new(&by, &args.why, SystemClock.now()).map_err(|e| Usage(e.to_string()))?)
}

/// The corrected value, if one is given.
fn corrected(args: &ReplayArgs) -> Result<Option<Vec<u8>>, Usage> {
    let Some(file) = &args.value else {
        return Ok(None);
    };
    if args.ids.len() != 1 {
        return Err(Usage("--value is for a single letter".to_owned()));
    }
    let value = read(file).map_err(|e| Usage(format!("{}: {e}", file.display())))?;
    if value.len() > MAX_VALUE_BYTES {
        return Err(Usage(format!(
            "{} has more than {MAX_VALUE_BYTES} bytes",
            file.display()
        )));
    }
    Ok(Some(value))
}

/// A file's bytes, or a byte more than a letter may have.
fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let most = MAX_VALUE_BYTES as u64 + 1;
    let mut value = Vec::new();
    if file.as_os_str() == "-" {
        std::io::stdin().lock().take(most).read_to_end(&mut value)?;
    } else {
        std::fs::File::open(file)?
            .take(most)
            .read_to_end(&mut value)?;
    }
    Ok(value)
}

fn with_advice(refusal: &ReplayRefusal) -> String {
    match refusal {
        ReplayRefusal::Elsewhere(_) => refusal.to_string(),
        ReplayRefusal::Cut { .. }
        | ReplayRefusal::Tombstone
        | ReplayRefusal::OfAnEvent
        | ReplayRefusal::OfABatch => {
            format!("{refusal}: --value FILE")
        }
    }
}

/// The sum of all letters.
fn sum(args: &ReplayArgs, tally: Tally) -> Result<()> {
    if args.json {
        let mut line = serde_json::to_value(tally)?;
        line["kind"] = "summary".into();
        line["dry_run"] = args.dry_run.into();
        return print_line(&line);
    }
    let did = if args.dry_run {
        "would be replayed"
    } else {
        "replayed"
    };
    let Tally {
        replayed,
        before,
        failed,
    } = tally;
    println!("{replayed} {did}, {before} replayed before, {failed} failed");
    Ok(())
}

/// The result line of one letter. Of all letters, those replayed before are only counted.
fn tell(args: &ReplayArgs, topic: &KafkaLetters, letter: &Letter, outcome: &Outcome) -> Result<()> {
    if args.all && matches!(outcome, Outcome::Before(_)) {
        return Ok(());
    }
    let (name, why) = match outcome {
        Outcome::Replayed => ("replayed", None),
        Outcome::WouldBe => ("would-be-replayed", None),
        Outcome::Before(at) => {
            let why = format!("it was replayed at {}; --again replays it", moment(*at));
            ("replayed-before", Some(why))
        }
        Outcome::Refused(refusal) => ("failed", Some(with_advice(refusal))),
        Outcome::NotSent(why) => ("failed", Some(why.to_string())),
        Outcome::NotMarked(why) => {
            let why = format!("it was sent, but could not be marked: {why}");
            ("failed", Some(why))
        }
    };
    let id = letter.id.to_string();
    if args.json {
        return print_line(&json!({
            "kind": "letter", "id": id, "cause": letter.cause, "outcome": name, "why": why,
        }));
    }
    let shown = match outcome {
        Outcome::Before(_) => "not replayed".to_owned(),
        _ => name.replace('-', " "),
    };
    let why = why.map_or_else(String::new, |why| format!(": {}", text::line(&why)));
    topic.print(&format!("{}  {shown}{why}", text::line(&id)));
    Ok(())
}
