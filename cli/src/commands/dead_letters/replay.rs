//! `triad dead-letters replay`: letters are sent again to where they came from, and marked.
//!
//! The topic is read twice: first to know which letters there are and which of them were
//! replayed, then to send. Nothing but the letter in hand is kept of their content. Each is sent
//! and acknowledged before its marker is: whoever dies between the two leaves a letter that may
//! be replayed again, never one that looks replayed and is not.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use tokio::time::{Interval, MissedTickBehavior};
use triad_bootstrap::environment;
use triad_core::{Envelope, Timestamp};
use triad_kafka::KafkaBus;
use triad_runtime::dead_letter::index::Index;
use triad_runtime::dead_letter::replay::{Act, Refusal, marker, replay};
use triad_runtime::dead_letter::{Entry, Letter, LetterId, MAX_VALUE_BYTES};
use triad_runtime::system::SystemClock;
use triad_runtime::{Bus, Clock};

use super::topic::Letters;
use super::{Filter, FilterArgs, text};
use crate::commands::connection::KafkaArgs;
use crate::output::{Usage, moment, print_line};

/// Longest wait for the acknowledgement of one message.
const PATIENCE: Duration = Duration::from_secs(15);

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
    rate: u32,
    /// Print a JSON line for each letter, and a summary
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kafka: KafkaArgs,
}

fn rate(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    match number.parse() {
        Ok(n) if (1..=10_000).contains(&n) => Ok(n),
        _ => Err("is not a rate from 1/s to 10000/s".to_owned()),
    }
}

/// Which letters are meant.
enum Chosen {
    Named(BTreeSet<LetterId>),
    All(Filter),
}

impl Chosen {
    fn takes(&self, letter: &Letter) -> bool {
        match self {
            Self::Named(ids) => ids.contains(&letter.id),
            Self::All(filter) => filter.takes(letter),
        }
    }

    /// Whether a letter's marker matters.
    fn concerns(&self, id: &LetterId) -> bool {
        match self {
            Self::Named(ids) => ids.contains(id),
            Self::All(_) => true,
        }
    }

    /// Markers are younger than their letters: what is older need not be read.
    fn since(&self) -> Option<Timestamp> {
        match self {
            Self::Named(_) => None,
            Self::All(filter) => filter.since,
        }
    }
}

/// What became of one letter.
enum Outcome {
    Replayed,
    /// `--dry-run`: it would be.
    WouldBe,
    /// It was replayed before, and `--again` is not given.
    Before(Timestamp),
    Failed(String),
}

/// How many letters had which outcome.
#[derive(Default)]
struct Counts {
    replayed: u64,
    before: u64,
    failed: u64,
}

pub async fn run(args: ReplayArgs) -> Result<ExitCode> {
    let act = act(&args)?;
    let corrected = corrected(&args)?;
    let chosen = if args.all {
        Chosen::All(args.filter.clone().fixed())
    } else {
        let parsed: Result<_, _> = args.ids.iter().map(|id| id.parse()).collect();
        Chosen::Named(parsed.map_err(|e| Usage(format!("{e}")))?)
    };
    let mut index = survey(&args, &chosen).await?;
    if let Chosen::Named(ids) = &chosen {
        let unknown: Vec<_> = ids.iter().filter(|id| !index.holds(id)).collect();
        for id in &unknown {
            eprintln!("triad: there is no dead letter {id}");
        }
        if !unknown.is_empty() {
            eprintln!("triad: nothing was replayed");
            return Ok(ExitCode::FAILURE);
        }
    }
    let mut replayer = Replayer {
        bus: KafkaBus::new(&args.kafka.config().await?)?,
        pace: pace(args.rate),
        act,
        corrected,
        args: &args,
    };
    let mut letters = Letters::open(&args.kafka, chosen.since(), args.json).await?;
    let mut counts = Counts::default();
    while let Some(entry) = letters.next().await? {
        let Entry::Letter(letter) = entry else {
            continue;
        };
        // What has come since, and what comes twice, is not in the index.
        if !chosen.takes(&letter) || !index.take(&letter.id) {
            continue;
        }
        let outcome = match index.replayed(&letter.id) {
            Some(at) if !args.again => Outcome::Before(at),
            _ => replayer.replay(&letter).await?,
        };
        counts.count(&outcome);
        tell(&args, &letters, &letter, &outcome)?;
    }
    counts.tell(&args)?;
    let refused = !args.all && counts.before > 0;
    Ok(if counts.failed > 0 || refused {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn act(args: &ReplayArgs) -> Result<Act> {
    let by = args.by.clone().or_else(|| environment("USER"));
    let by = by.ok_or_else(|| {
        Usage("who replays is not known: give --by, or set the variable USER".to_owned())
    })?;
    Ok(Act::new(&by, &args.why, SystemClock.now()).map_err(|e| Usage(e.to_string()))?)
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

/// Which letters there are, and which of them were replayed.
async fn survey(args: &ReplayArgs, chosen: &Chosen) -> Result<Index> {
    let mut index = Index::default();
    let mut letters = Letters::open(&args.kafka, chosen.since(), args.json).await?;
    while let Some(entry) = letters.next().await? {
        let wanted = match &entry {
            Entry::Letter(letter) => chosen.takes(letter),
            Entry::Replayed(marker) => chosen.concerns(&marker.of),
        };
        if wanted {
            index
                .note(&entry)
                .context("replay them in parts, with --since or --topic")?;
        }
    }
    Ok(index)
}

fn pace(rate: u32) -> Interval {
    let mut pace = tokio::time::interval(Duration::from_secs(1) / rate);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pace
}

/// Sends and marks.
struct Replayer<'a> {
    bus: KafkaBus,
    pace: Interval,
    act: Act,
    corrected: Option<Vec<u8>>,
    args: &'a ReplayArgs,
}

impl Replayer<'_> {
    /// One letter. An error is one of the whole run: the broker is not there.
    async fn replay(&mut self, letter: &Letter) -> Result<Outcome> {
        let message = match replay(letter, self.corrected.clone()) {
            Ok(message) => message,
            Err(refusal) => return Ok(Outcome::Failed(with_advice(&refusal))),
        };
        if self.args.dry_run {
            return Ok(Outcome::WouldBe);
        }
        self.pace.tick().await;
        if let Err(why) = self.send(message).await? {
            return Ok(Outcome::Failed(why));
        }
        let act = Act {
            at: SystemClock.now(),
            ..self.act.clone()
        };
        let marker = marker(&letter.id, &act, self.corrected.clone());
        Ok(match self.send(marker).await? {
            Ok(()) => Outcome::Replayed,
            Err(why) => Outcome::Failed(format!("it was sent, but could not be marked: {why}")),
        })
    }

    async fn send(&self, message: Envelope) -> Result<Result<(), String>> {
        let brokers = &self.args.kafka.brokers;
        let sent = tokio::time::timeout(PATIENCE, self.bus.publish(vec![message])).await;
        let results = sent.with_context(|| {
            format!(
                "no broker at {brokers} has answered in 15 s; the letter in hand may have been sent"
            )
        })?;
        let failed = results.into_iter().find_map(Result::err);
        Ok(failed.map_or(Ok(()), |e| Err(e.to_string())))
    }
}

fn with_advice(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Elsewhere(_) => refusal.to_string(),
        Refusal::Cut { .. } | Refusal::Tombstone | Refusal::OfAnEvent | Refusal::OfABatch => {
            format!("{refusal}: --value FILE")
        }
    }
}

impl Counts {
    fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Replayed | Outcome::WouldBe => self.replayed += 1,
            Outcome::Before(_) => self.before += 1,
            Outcome::Failed(_) => self.failed += 1,
        }
    }

    fn tell(&self, args: &ReplayArgs) -> Result<()> {
        let Self {
            replayed,
            before,
            failed,
        } = self;
        if args.json {
            return print_line(&json!({
                "kind": "summary", "dry_run": args.dry_run,
                "replayed": replayed, "replayed_before": before, "failed": failed,
            }));
        }
        let did = if args.dry_run {
            "would be replayed"
        } else {
            "replayed"
        };
        println!("{replayed} {did}, {before} replayed before, {failed} failed");
        Ok(())
    }
}

/// The result line of one letter. Of all letters, those replayed before are only counted.
fn tell(args: &ReplayArgs, letters: &Letters, letter: &Letter, outcome: &Outcome) -> Result<()> {
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
        Outcome::Failed(why) => ("failed", Some(why.clone())),
    };
    let id = letter.id.to_string();
    if args.json {
        return print_line(&json!({
            "kind": "letter", "id": id, "cause": letter.cause, "outcome": name, "why": why,
        }));
    }
    let shown = match outcome {
        Outcome::Before(_) => "not replayed".to_owned(),
        Outcome::Replayed | Outcome::WouldBe | Outcome::Failed(_) => name.replace('-', " "),
    };
    let why = why.map_or_else(String::new, |why| format!(": {}", text::line(&why)));
    letters.print(&format!("{}  {shown}{why}", text::line(&id)));
    Ok(())
}
