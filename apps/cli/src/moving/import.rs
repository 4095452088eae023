//! `triad import`: imports a file of `triad export` into another installation.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::json;
use triad_kafka::{KafkaBus, Topic, create_topics};
use triad_operator::moving::{Imported, MovedCounts, Reader, TOPICS, Tally, import};
use triad_runtime::settings::Settings;
use triad_runtime::supervisor::Supervisor;
use triad_runtime::system::{SystemClock, SystemEntropy};

use super::endpoint::Endpoint;
use super::progress::Progress;
use crate::connection::{KafkaArgs, StoreArgs};
use crate::moved_mark;
use crate::output::{Usage, count, print_line};
use crate::user_files;

/// Partitions of new topics, as `triad serve` creates them.
const PARTITIONS: i32 = 4;

/// Put a file of triad export into a data directory, or into DynamoDB
///
/// The whole file is checked before anything is written. What is there already is left as it is: the same is
/// counted, something else is listed. An import that did not come to its end is simply run again. Alive
/// orders go on as soon as handlers run: what they wait for is sent again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad import --from shop.jsonl --data ./new --dry-run      is the file whole? what would come of it?
  triad import --from shop.jsonl --data ./new                into a directory, made if it is missing
  triad import --from shop.jsonl --aws --brokers b1:9092     into DynamoDB and Kafka, made by the templates

docs/how-to/grow.md has the whole move, step by step.

Exit codes: 0 all of the file is there, 1 something is not, 2 the options are wrong.")]
pub struct ImportArgs {
    /// The file
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// Check what the import would do, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print a JSON line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    kafka: KafkaArgs,
}

impl ImportArgs {
    /// Whether the import writes anything, because it is no dry run.
    pub fn changes(&self) -> bool {
        !self.dry_run
    }
}

/// Runs `triad import`. The exit code is 0 if all that the file holds is in the installation, otherwise 1.
///
/// # Errors
/// [`Usage`] if the file cannot be opened, or another process runs on the data directory; if the file is
/// damaged, with the line, in which case nothing was written; if the store or the brokers fail.
pub async fn run(args: ImportArgs) -> Result<ExitCode> {
    let progress = Progress::new(args.json);
    let counts = check(&args.from, &progress)?;
    let data = args.store.data.data.as_deref();
    if let Some(moved) = data.map(moved_mark::read_mark).transpose()?.flatten() {
        return Err(Usage(format!(
            "the orders of this directory were moved to {} on {}: import into another, new one",
            moved.to, moved.at
        ))
        .into());
    }
    if args.dry_run && data.is_some_and(|dir| !dir.exists()) {
        progress.end();
        let tally = |new| Tally {
            new,
            ..Tally::default()
        };
        let imported = Imported {
            orders: tally(counts.orders),
            workflows: tally(counts.workflows + counts.present),
            control: tally(counts.control),
            messages: counts.submissions + counts.replies,
            named: Vec::new(),
        };
        return print_summary(&args, &imported);
    }
    let place = Endpoint::open(&args.store, &args.kafka, true).await?;
    let imported = put(&args, &place, &progress).await;
    progress.end();
    let imported = imported.context(
        "the import has not come to its end; what was written stays: run the command again",
    );
    place.close().await?;
    print_summary(&args, &imported?)
}

fn open(path: &Path) -> Result<Reader<BufReader<File>>> {
    let file = File::open(path).map_err(|e| {
        let why = user_files::why(path, &e);
        Usage(format!("--from {}: {why}", path.display()))
    })?;
    Reader::begin(BufReader::new(file)).with_context(|| path.display().to_string())
}

/// Reads and checks the whole file before anything is written.
fn check(path: &Path, progress: &Progress) -> Result<MovedCounts> {
    let mut reader = open(path)?;
    let named = || path.display().to_string();
    while reader.read().with_context(named)?.is_some() {
        progress.counts("checked", reader.counts());
    }
    Ok(reader.counts())
}

async fn put(args: &ImportArgs, place: &Endpoint, progress: &Progress) -> Result<Imported> {
    let mut reader = open(&args.from)?;
    let bus = match args.dry_run {
        true => None,
        false => Some(bus(place).await?),
    };
    let ports = (&place.store, bus.as_ref(), &SystemClock);
    let say = |counts| progress.counts("imported", counts);
    let imported = import(ports, &mut reader, args.dry_run, say).await?;
    // In a data directory the next start drives the orders on.
    if let Some(bus) = bus.filter(|_| place.is_shared()) {
        drive_on(args, place, bus).await?;
    }
    Ok(imported)
}

/// Drives alive orders on: no topic of this installation has the messages that they wait for.
async fn drive_on(args: &ImportArgs, place: &Endpoint, bus: KafkaBus) -> Result<()> {
    let settings = Settings {
        timing: args.store.spans()?.timing,
        ..Settings::default()
    };
    let store = place.store.clone();
    let supervisor = Supervisor::new(store, bus, SystemClock, SystemEntropy, settings);
    let driven = supervisor.drive_on().await;
    if !driven.is_whole() {
        eprintln!(
            "triad import: not every alive order could be driven on at once; the Supervisor does so when they are overdue"
        );
    }
    Ok(())
}

/// A producer; creates the topics of a new directory.
async fn bus(place: &Endpoint) -> Result<KafkaBus> {
    if !place.is_shared() {
        let topic = |name: &str| Topic {
            name: name.to_owned(),
            partitions: PARTITIONS,
        };
        create_topics(&place.kafka, &TOPICS.map(topic)).await?;
    }
    Ok(KafkaBus::new(&place.kafka)?)
}

fn print_summary(args: &ImportArgs, imported: &Imported) -> Result<ExitCode> {
    for (what, why) in &imported.named {
        eprintln!("triad import: {what}: {why}");
    }
    let code = match imported.is_whole() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    };
    if args.json {
        let mut line = serde_json::to_value(imported)?;
        line["kind"] = json!("summary");
        line["dry_run"] = args.dry_run.into();
        print_line(&line)?;
        return Ok(code);
    }
    let Tally {
        new,
        same,
        different,
        refused,
        expired,
    } = imported.orders;
    println!(
        "{}: {new} new, {same} there already, {different} there with another content, {refused} refused, {expired} expired",
        count(
            new + same + different + refused + expired,
            "order",
            "orders"
        ),
    );
    println!("{}", count(imported.messages, "message", "messages"));
    if args.dry_run {
        println!("(dry run: nothing was written)");
    }
    Ok(code)
}
