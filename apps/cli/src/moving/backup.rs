//! `triad backup`: copies a data directory while it is in use.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use rustix::process::geteuid;
use serde_json::json;
use tempfile::TempDir;
use triad_operator::moving::{Exported, MovedCounts, Writer, export};
use triad_runtime::Clock as _;
use triad_runtime::system::SystemClock;
use triad_sqlite::{SqliteStore, snapshot};
use triad_workflow::Millis;

use super::progress::Progress;
use crate::data;
use crate::machine::directory::refuse_root;
use crate::machine::topic_settings;
use crate::output::{Usage, command, count, print_line};

/// Copy the data directory of triad serve while it runs
///
/// The copy is a data directory: triad serve runs on it, there is nothing to restore. It holds everything as it
/// was at one moment: orders, topics and what consumers have committed. It is checked before it gets its name.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad backup --data /var/lib/triad --to /backup/triad-monday
  triad serve --data /backup/triad-monday                       run on the copy

A copy has the state of its moment: orders that finished later run to their end again, with the same
idempotency keys. Use it only when the original is lost or stopped for good. The configuration, the workflows
and the tokens are your own files, and not in the copy.

Exit codes: 0 the copy is there and sound, 1 there is none or a record in it is damaged, 2 the options
are wrong.")]
pub struct BackupArgs {
    /// The data directory
    #[arg(long, value_name = "DIR", env = "TRIAD_DATA")]
    data: PathBuf,
    /// Directory of the copy; made, never overwritten
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Print a JSON line
    #[arg(long)]
    json: bool,
}

/// Runs `triad backup`. The exit code is 0 if every record of the copy can be read, otherwise 1.
///
/// # Errors
/// [`Usage`] if there is no store of SQLite in the directory, or something at the copy's place; if the copy
/// cannot be made or is not sound.
pub async fn run(args: BackupArgs) -> Result<ExitCode> {
    let new = begin(&args)?;
    let progress = Progress::new(args.json);
    let copied = store_to(&args.data, new.path(), &progress);
    progress.end();
    copied?;
    let (counts, exported, messages) = check(new.path()).await?;
    finish(new, &args)?;
    print_summary(&args, counts, &exported, messages)
}

/// Creates a temporary directory beside the target, which is renamed once it is complete.
fn begin(args: &BackupArgs) -> Result<TempDir> {
    let (data, to) = (args.data.display(), args.to.display());
    if data::has_tables(&args.data) {
        return Err(Usage(format!(
            "--data {data}: it has the tables of --store dynamodb, which are for development: stop triad dev, and copy the directory"
        ))
        .into());
    }
    if !data::has_store(&args.data) {
        return Err(Usage(format!(
            "--data {data}: this directory has no store; give the data directory of triad serve"
        ))
        .into());
    }
    if args.to.exists() {
        return Err(Usage(format!(
            "--to {to}: is there already; name a directory that is not there"
        ))
        .into());
    }
    let folder = args.to.parent().filter(|p| !p.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    // Links are resolved; a missing directory is reported below.
    let real = |path: &Path| path.canonicalize();
    if let (Ok(folder), Ok(data)) = (real(folder), real(&args.data))
        && folder.starts_with(&data)
    {
        return Err(Usage(format!(
            "--to {to}: is inside of --data, and would be lost with it; name a directory elsewhere"
        ))
        .into());
    }
    let made = tempfile::Builder::new()
        .prefix(".triad-backup-")
        .tempdir_in(folder);
    made.map_err(|e| {
        let why = crate::user_files::plain(&e);
        Usage(format!("--to {to}: cannot be made: {why}")).into()
    })
}

/// Copies the store. If no process runs, root must not: its files would keep the owner's process from starting.
fn store_to(from: &Path, to: &Path, progress: &Progress) -> Result<()> {
    if !triad_sqlite::is_taken(from) {
        refuse_root(from)?;
    }
    let copy = || {
        snapshot(from, to, |done, of| {
            progress.say(format!("{done} of {of} pages copied"));
        })
    };
    // Blocks; no other task is waiting.
    tokio::task::block_in_place(copy)?;
    Ok(())
}

/// Reads the whole copy, each record with its checksum, and counts the messages of its topics. A record that is
/// damaged in the original is damaged in the copy, which is kept all the same.
async fn check(copy: &Path) -> Result<(MovedCounts, Exported, u64)> {
    let store = SqliteStore::open(copy, SystemClock, Millis(0))?;
    let mut nowhere = Writer::begin(std::io::sink(), "backup", SystemClock.now())?;
    let read = export(&store, &SystemClock, &mut nowhere, |_| {}).await?;
    let topics = store.open_topics(topic_settings()).await?;
    let mut messages = 0;
    for topic in topics.all() {
        let marks = (0..topic.partitions).filter_map(|at| topics.marks(&topic.name, at));
        let counts = marks.map(|marks| u64::try_from(marks.end - marks.start).unwrap_or(0));
        messages += counts.sum::<u64>();
    }
    Ok((nowhere.counts(), read, messages))
}

/// Syncs the copy and renames it. Only its owner may read it; root gives it to the owner of the original.
fn finish(copy: TempDir, BackupArgs { data, to, .. }: &BackupArgs) -> Result<()> {
    let of = std::fs::metadata(data).with_context(|| data.display().to_string())?;
    let owner = geteuid().is_root().then(|| (of.uid(), of.gid()));
    close_off(copy.path(), owner, 0)?;
    let named = || format!("{} cannot be made", to.display());
    let path = copy.keep();
    std::fs::rename(&path, to).with_context(named)?;
    let folder = to.parent().filter(|p| !p.as_os_str().is_empty());
    let folder = std::fs::File::open(folder.unwrap_or(Path::new(".")));
    folder.and_then(|f| f.sync_all()).with_context(named)
}

/// Most levels of directories in a copy.
const MAX_LEVELS: u32 = 8;

fn close_off(path: &Path, owner: Option<(u32, u32)>, level: u32) -> Result<()> {
    let named = || path.display().to_string();
    if level > MAX_LEVELS {
        bail!("{}: too many directories in each other", named());
    }
    let mode = if path.is_dir() { 0o700 } else { 0o600 };
    std::fs::set_permissions(path, Permissions::from_mode(mode)).with_context(named)?;
    if let Some((user, group)) = owner {
        chown(path, Some(user), Some(group)).with_context(named)?;
    }
    if path.is_dir() {
        for entry in std::fs::read_dir(path).with_context(named)? {
            close_off(&entry.with_context(named)?.path(), owner, level + 1)?;
        }
    }
    let file = std::fs::File::open(path).with_context(named)?;
    file.sync_all().with_context(named)
}

fn print_summary(
    args: &BackupArgs,
    counts: MovedCounts,
    exported: &Exported,
    messages: u64,
) -> Result<ExitCode> {
    for damaged in &exported.named {
        eprintln!(
            "triad backup: {} cannot be read, and neither in the original: {}",
            damaged.order_id, damaged.why
        );
    }
    let unreadable = exported.unreadable;
    if args.json {
        let mut line = json!({"kind": "summary", "messages": messages, "unreadable": unreadable, "to": args.to});
        line["counts"] = serde_json::to_value(counts)?;
        print_line(&line)?;
    } else {
        println!(
            "{}: {}, {} of them alive, {}; {} runs on it",
            args.to.display(),
            count(counts.orders, "order", "orders"),
            counts.alive,
            count(messages, "message", "messages"),
            command(["triad", "serve", "--data", &args.to.display().to_string()]),
        );
    }
    Ok(match unreadable {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}
