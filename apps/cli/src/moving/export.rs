//! `triad export`: an installation in one file.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use serde_json::json;
use tempfile::NamedTempFile;
use triad_operator::moving::{Exported, Message, MovedCounts, Writer, export};
use triad_runtime::system::SystemClock;
use triad_runtime::{Clock as _, StateStore as _};

use super::endpoint::Endpoint;
use super::progress::Progress;
use super::topics;
use crate::connection::{KafkaArgs, StoreArgs};
use crate::machine::directory::take;
use crate::moved_mark::{self, Moved};
use crate::output::{Usage, count, moment, print_line};

/// Write everything of an installation into a file: orders alive and finished, workflows, the call ledger
///
/// What is exported must stand still: stop triad serve first; of an installation in the cloud disable the
/// triggers of the functions. Orders and replies that were sent and not yet taken are exported too. The file
/// holds the details of orders: keep it as you keep those.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad export --data /var/lib/triad --to shop.jsonl          look at it, keep it
  triad export --data /var/lib/triad --to shop.jsonl --move   the orders go on elsewhere
  triad export --data /var/lib/triad --revert                   they go on here after all
  triad export --aws --brokers b1:9092 --to shop.jsonl        from DynamoDB and Kafka

With --move the directory is marked: triad serve and triad dev refuse to run on it, because its orders would
otherwise run twice. docs/how-to/grow.md has the whole move, step by step.

Exit codes: 0 all is in the file, 1 something is not, 2 the options are wrong.")]
pub struct ExportArgs {
    /// The file; made, never overwritten
    #[arg(long, value_name = "FILE", required_unless_present = "revert")]
    to: Option<PathBuf>,
    /// Mark the data directory: its orders go on elsewhere
    #[arg(long = "move")]
    moves: bool,
    /// Take the mark away again, and export nothing: the file was imported nowhere
    #[arg(long, conflicts_with_all = ["to", "moves"])]
    revert: bool,
    /// Print a JSON line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    kafka: KafkaArgs,
}

/// Runs `triad export`. The exit code is 0 if all that the installation keeps is in the file, otherwise 1.
///
/// # Errors
/// [`Usage`] if the options do not fit together, the file is there, or another process runs on the data
/// directory; if the store or the brokers fail, or the file cannot be written.
pub async fn run(args: ExportArgs) -> Result<ExitCode> {
    if args.revert {
        return revert(&args);
    }
    let data = args.store.data.data.as_deref();
    if args.moves && data.is_none() {
        return Err(Usage(
            "--move marks a data directory; of an installation in the cloud keep the triggers of its functions disabled instead: see docs/how-to/grow.md".into(),
        )
        .into());
    }
    let to = args.to.clone().unwrap_or_default();
    let file = begin(&to)?;
    let place = Endpoint::open(&args.store, &args.kafka, false).await?;
    let progress = Progress::new(args.json);
    let written = write(&place, file, &progress).await;
    progress.end();
    let (file, counts, exported) = match written {
        Ok(written) => written,
        Err(e) => {
            place.close().await?;
            return Err(e);
        }
    };
    let is_whole = exported.unreadable == 0;
    let file = file.into_inner().map_err(|e| anyhow!("{}", e.error()))?;
    finish(file, &to)?;
    if let (Some(dir), true) = (data, args.moves && is_whole) {
        let at = moment(SystemClock.now());
        let to = std::path::absolute(&to).unwrap_or(to);
        let to = to.display().to_string();
        moved_mark::note(dir, &Moved { to, at })?;
    }
    place.close().await?;
    print_summary(&args, counts, &exported)?;
    Ok(if is_whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn revert(args: &ExportArgs) -> Result<ExitCode> {
    let Some(dir) = args.store.data.data.as_deref().filter(|dir| dir.exists()) else {
        return Err(Usage("--revert: name the data directory: --data DIR".into()).into());
    };
    let _lock = take(dir)?;
    let was = moved_mark::forget(dir)?;
    if args.json {
        print_line(&json!({"kind": "summary", "reverted": was}))?;
    } else {
        println!(
            "{}",
            match was {
                true => "the orders of this directory go on here",
                false => "the directory was not marked; nothing was done",
            }
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Creates a temporary file beside the target, which is renamed once it is complete.
fn begin(to: &Path) -> Result<NamedTempFile> {
    if to.exists() {
        return Err(Usage(format!(
            "--to {}: is there already; name another file, or remove it",
            to.display()
        ))
        .into());
    }
    NamedTempFile::new_in(folder(to)).map_err(|e| {
        let why = crate::user_files::plain(&e);
        Usage(format!("--to {}: cannot be made: {why}", to.display())).into()
    })
}

/// Directory of a file.
fn folder(of: &Path) -> &Path {
    let folder = of.parent().filter(|p| !p.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn finish(file: NamedTempFile, to: &Path) -> Result<()> {
    let named = || format!("{} cannot be written", to.display());
    file.as_file().sync_all().with_context(named)?;
    file.persist_noclobber(to).with_context(named)?;
    // Syncs the name, too: the data directory is marked as moved only after this.
    let folder = File::open(folder(to));
    folder
        .and_then(|folder| folder.sync_all())
        .with_context(named)
}

type ExportWritten = (BufWriter<NamedTempFile>, MovedCounts, Exported);

async fn write(
    place: &Endpoint,
    file: NamedTempFile,
    progress: &Progress,
) -> Result<ExportWritten> {
    let (from, now) = (place.kind.name(), SystemClock.now());
    let mut writer = Writer::begin(BufWriter::new(file), from, now)?;
    let before = at_work(place).await?;
    let say = |counts| progress.counts("exported", counts);
    let exported = export(&place.store, &SystemClock, &mut writer, say).await?;
    for topic in topics::moved(&place.kafka).await? {
        let mut held = topics::untaken(&place.kafka, topic).await?;
        while let Some(record) = held.next().await? {
            writer.message(Message::of(&record))?;
        }
        progress.counts("exported", writer.counts());
    }
    if at_work(place).await? != before {
        bail!(
            "orders progressed during the export: disable the triggers of the functions and stop all workers, wait until what is under way has ended, and export again; nothing was written"
        );
    }
    let (file, counts) = writer.finish()?;
    Ok((file, counts, exported))
}

/// A checksum that changes when any order of a shared installation progresses: the sum over all records of a hash of
/// id and version.
async fn at_work(place: &Endpoint) -> Result<u64> {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut sum = 0_u64;
    if !place.is_shared() {
        return Ok(sum);
    }
    let mut page = None;
    loop {
        let found = place.store.list(None, page).await?;
        for order in &found.orders {
            let mut hash = DefaultHasher::new();
            (order.id.as_str(), order.version.0).hash(&mut hash);
            sum = sum.wrapping_add(hash.finish());
        }
        match found.next {
            Some(next) => page = Some(next),
            None => return Ok(sum),
        }
    }
}

fn print_summary(args: &ExportArgs, counts: MovedCounts, exported: &Exported) -> Result<()> {
    for unreadable in &exported.named {
        eprintln!(
            "triad export: {} cannot be read: {}",
            unreadable.order_id, unreadable.why
        );
    }
    let is_moved = args.moves && exported.unreadable == 0;
    if args.json {
        let mut line =
            json!({"kind": "summary", "unreadable": exported.unreadable, "moved": is_moved});
        line["counts"] = serde_json::to_value(counts)?;
        return print_line(&line);
    }
    println!(
        "exported: {}, {} of them alive, {}",
        count(counts.orders, "order", "orders"),
        counts.alive,
        count(counts.submissions, "submission", "submissions"),
    );
    if exported.unreadable > 0 {
        println!(
            "left out, because they cannot be read: {}; the directory is not marked as moved",
            exported.unreadable
        );
    } else if is_moved {
        println!("triad serve and triad dev refuse to run on this directory from now on");
    }
    Ok(())
}
