//! A checked copy of a data directory that may be in use: for `triad backup`, and for the backups of `triad serve`.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use rustix::process::geteuid;
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use triad_operator::moving::{Exported, MovedCounts, Writer, export};
use triad_runtime::Clock as _;
use triad_runtime::moving::MovingStore;
use triad_runtime::system::SystemClock;
use triad_sqlite::{SqliteStore, snapshot};
use triad_workflow::Millis;

use crate::data;
use crate::machine::directory::refuse_root;
use crate::machine::topic_settings;
use crate::output::Usage;

/// A copy that is complete, and has no name yet. It is deleted when this is dropped.
pub struct Unnamed {
    dir: TempDir,
    /// What is in it.
    pub content: Content,
}

/// What is in a copy.
pub struct Content {
    /// Numbers of what can be read.
    pub counts: MovedCounts,
    /// What cannot be read, which is damaged in the original too.
    pub unreadable: Exported,
    /// Messages of its topics.
    pub messages: u64,
}

/// Fails unless a directory has a store of SQLite.
///
/// # Errors
/// [`Usage`] with what the directory has instead.
pub fn require_store(data: &Path) -> Result<(), Usage> {
    let shown = data.display();
    if data::has_tables(data) {
        return Err(Usage(format!(
            "--data {shown}: it has the tables of --store dynamodb, which are for development: stop triad dev, and copy the directory"
        )));
    }
    if !data::has_store(data) {
        return Err(Usage(format!(
            "--data {shown}: this directory has no store; give the data directory of triad serve"
        )));
    }
    Ok(())
}

/// Whether a path lies in a directory, once links are resolved. False if one of them does not exist.
pub fn is_inside(path: &Path, dir: &Path) -> bool {
    let real = |path: &Path| path.canonicalize();
    matches!((real(path), real(dir)), (Ok(path), Ok(dir)) if path.starts_with(&dir))
}

/// Copies the data directory `data` into a new directory in `folder`, whose name begins with `prefix`, and reads the
/// whole copy. Orders go on meanwhile. `progress` is called with the number of pages that are copied and of all pages.
/// Ends soon after `stop` is cancelled. Blocks the thread, which must belong to a runtime.
///
/// # Errors
/// [`Usage`] if root would copy another user's directory on which no process runs; otherwise what failed, or that
/// it was stopped. Nothing is left of the copy then.
pub fn make(
    data: &Path,
    folder: &Path,
    prefix: &str,
    stop: &CancellationToken,
    progress: impl FnMut(u64, u64),
) -> Result<Unnamed> {
    // Root's files would keep the owner's process from starting.
    if !triad_sqlite::is_taken(data) {
        refuse_root(data)?;
    }
    let dir = tempfile::Builder::new().prefix(prefix).tempdir_in(folder);
    let dir = dir.map_err(|e| {
        let (folder, why) = (folder.display(), crate::user_files::plain(&e));
        Usage(format!("{folder}: nothing can be made there: {why}"))
    })?;
    snapshot(data, dir.path(), stop, progress)?;
    let checked = Handle::current().block_on(stop.run_until_cancelled(check(dir.path())));
    let content = checked.context("it was stopped")??;
    Ok(Unnamed { dir, content })
}

/// Reads everything that a store keeps, each record with its checksum and its outputs, and counts it.
///
/// # Errors
/// If the store cannot be read at all. What is damaged is in the answer.
pub async fn read_whole(
    store: &impl MovingStore,
    progress: impl FnMut(MovedCounts),
) -> Result<(MovedCounts, Exported)> {
    let mut nowhere = Writer::begin(std::io::sink(), "backup", SystemClock.now())?;
    let read = export(store, &SystemClock, &mut nowhere, progress).await?;
    Ok((nowhere.counts(), read))
}

/// Reads the whole copy and counts the messages of its topics. A record that is damaged in the original is damaged in
/// the copy, which is kept all the same.
async fn check(copy: &Path) -> Result<Content> {
    let store = SqliteStore::open(copy, SystemClock, Millis(0))?;
    let (counts, unreadable) = read_whole(&store, |_| {}).await?;
    let topics = store.open_topics(topic_settings()).await?;
    let mut messages = 0;
    for topic in topics.all() {
        let marks = (0..topic.partitions).filter_map(|at| topics.marks(&topic.name, at));
        let counts = marks.map(|marks| u64::try_from(marks.end - marks.start).unwrap_or(0));
        messages += counts.sum::<u64>();
    }
    Ok(Content {
        counts,
        unreadable,
        messages,
    })
}

impl Unnamed {
    /// Syncs the copy and gives it its name, which must lie in the directory in which it was made. Only its owner may
    /// read it; root gives it to the owner of the original.
    ///
    /// # Errors
    /// If the copy cannot be synced or renamed.
    pub fn name(self, data: &Path, to: &Path) -> Result<Content> {
        let of = std::fs::metadata(data).with_context(|| data.display().to_string())?;
        let owner = geteuid().is_root().then(|| (of.uid(), of.gid()));
        close_off(self.dir.path(), owner, 0)?;
        let named = || format!("{} cannot be made", to.display());
        let path = self.dir.keep();
        std::fs::rename(&path, to).with_context(named)?;
        let folder = std::fs::File::open(folder_of(to));
        folder.and_then(|f| f.sync_all()).with_context(named)?;
        Ok(self.content)
    }
}

/// The directory in which a path lies.
pub fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
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
