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
use triad_broker::BrokerHandle;
use triad_kafka::KafkaConfig;
use triad_operator::moving::{Exported, MovedCounts, Writer, export};
use triad_runtime::Clock as _;
use triad_runtime::system::SystemClock;
use triad_sqlite::{SqliteStore, snapshot};
use triad_workflow::Millis;

use super::endpoint::broker;
use super::progress::Progress;
use super::topics;
use crate::data::{self, RunningProcess};
use crate::machine::directory::{refuse_root, take};
use crate::output::{Usage, command, count, print_line};

/// Copy the data directory of triad serve while it runs
///
/// The copy is a data directory: triad serve runs on it, there is nothing to restore. It holds the store as it
/// was at one moment, and what of the topics was not handled yet. It is checked before it gets its name.
/// Statuses and alerts that others had not read yet are not in it.
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
    let source = BackupSource::open(&args.data)?;
    let records = topics_to(&source.kafka, new.path(), &progress).await;
    let copied = match records {
        Ok(records) => store_to(&args.data, new.path(), &progress)
            .await
            .map(|()| records),
        Err(e) => Err(e),
    };
    progress.end();
    source.close().await?;
    let records = copied?;
    let (counts, exported) = check(new.path()).await?;
    finish(new, &args)?;
    print_summary(&args, counts, &exported, records)
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

/// The brokers of a data directory: those of its running process, or an embedded one.
struct BackupSource {
    kafka: KafkaConfig,
    own: Option<(BrokerHandle, std::fs::File)>,
}

impl BackupSource {
    fn open(dir: &Path) -> Result<Self> {
        if let Some(running) = RunningProcess::read_connection_file(dir)? {
            return Ok(Self {
                kafka: running.kafka(),
                own: None,
            });
        }
        refuse_root(dir)?;
        let lock = take(dir).context("it is just being started or stopped; try again")?;
        let broker = broker(dir)?;
        Ok(Self {
            kafka: KafkaConfig::new(broker.addr().to_string()),
            own: Some((broker, lock)),
        })
    }

    async fn close(self) -> Result<()> {
        if let Some((broker, _lock)) = self.own {
            broker.shutdown().await?;
        }
        Ok(())
    }
}

/// Copies the topics, before the store is copied: the copy of the store is then not older than that of the topics. A
/// message that is handled between the two copies is handled again after a restore, which is harmless.
async fn topics_to(from: &KafkaConfig, to: &Path, progress: &Progress) -> Result<u64> {
    let broker = broker(to)?;
    let say = |records| progress.say(format!("{records} messages copied"));
    let copied = topics::copy(from, &broker, say).await;
    broker.shutdown().await?;
    copied
}

async fn store_to(from: &Path, to: &Path, progress: &Progress) -> Result<()> {
    let (from, to) = (data::store_in(from), data::store_in(to));
    std::fs::create_dir(&to).context("the copy's directory cannot be made")?;
    let copy = |progress: &Progress| {
        snapshot(&from, &to, |done, of| {
            progress.say(format!("{done} of {of} pages copied"));
        })
    };
    // Blocks; no other task is waiting.
    tokio::task::block_in_place(|| copy(progress))?;
    Ok(())
}

/// Reads the whole copy, each record with its checksum. A record that is damaged in the original is damaged in the
/// copy, which is kept all the same.
async fn check(copy: &Path) -> Result<(MovedCounts, Exported)> {
    let store = SqliteStore::open(&data::store_in(copy), SystemClock, Millis(0))?;
    let mut nowhere = Writer::begin(std::io::sink(), "backup", SystemClock.now())?;
    let read = export(&store, &SystemClock, &mut nowhere, |_| {}).await?;
    Ok((nowhere.counts(), read))
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
