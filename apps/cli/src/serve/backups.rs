//! Copies of the data directory on a schedule.
//!
//! Each is a directory named by its time, such as `2026-11-29T19-52-12Z`. A copy with a damaged record, which is damaged
//! in the original too, is named `…Z-damaged`; it takes the place of an earlier one of its kind, and of no sound one.
//!
//! Architecture invariant: only directories with such names are deleted, and none on which a process runs.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use tokio_util::sync::CancellationToken;
use triad_core::Timestamp;
use triad_runtime::Clock as _;
use triad_runtime::metric;
use triad_runtime::system::SystemClock;

use crate::moving::copy::{is_inside, make};
use crate::output::Usage;

/// The wait for the first copy, if there is none or its time has come.
const SOON: Duration = Duration::from_secs(1);
/// Longest wait for another try after a failure.
const MAX_RETRY: Duration = Duration::from_secs(3_600);
/// How the name of a directory begins in which a copy is under way.
const UNDER_WAY: &str = ".triad-serve-";
/// How the name of a copy with a damaged record ends.
const DAMAGED: &str = "-damaged";

/// When copies are made, and where.
#[derive(Debug, Clone)]
pub struct Backups {
    /// The directory in which each copy is a directory.
    pub to: PathBuf,
    /// Time between two copies.
    pub every: Duration,
    /// Most sound copies that are kept.
    pub keep: usize,
}

/// A copy by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Copied {
    at: Timestamp,
    is_damaged: bool,
}

impl Copied {
    fn name(&self) -> String {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(self.at.0);
        let at = humantime::format_rfc3339_seconds(at).to_string();
        let end = if self.is_damaged { DAMAGED } else { "" };
        format!("{}{end}", at.replace(':', "-"))
    }

    /// The copy with this name; `None` if no copy is named so.
    fn of(name: &str) -> Option<Self> {
        let (time, is_damaged) = match name.strip_suffix(DAMAGED) {
            Some(time) => (time, true),
            None => (name, false),
        };
        let (day, hour) = time.split_once('T')?;
        let at = humantime::parse_rfc3339(&format!("{day}T{}", hour.replace('-', ":"))).ok()?;
        let at = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let at = Timestamp(u64::try_from(at.as_millis()).ok()?);
        let copied = Self { at, is_damaged };
        (copied.name() == name).then_some(copied)
    }
}

impl Backups {
    /// Checks that the copies are not lost with the original.
    ///
    /// # Errors
    /// [`Usage`] if their directory lies in the data directory.
    pub fn check(&self, data: &Path) -> Result<(), Usage> {
        // A directory that cannot be made is an error of the first copy, and holds up no order.
        let _ = self.prepare();
        match is_inside(&self.to, data) {
            false => Ok(()),
            true => Err(Usage(format!(
                "TRIAD_BACKUP_TO: {} is inside of the data directory, and would be lost with it; name a directory elsewhere",
                self.to.display()
            ))),
        }
    }

    fn prepare(&self) -> Result<()> {
        use std::os::unix::fs::DirBuilderExt as _;
        let mut made = std::fs::DirBuilder::new();
        made.recursive(true).mode(0o700);
        let made = made.create(&self.to);
        made.with_context(|| format!("{} cannot be made", self.to.display()))
    }

    /// The copies that are there, the oldest first.
    fn copies(&self) -> Result<Vec<Copied>> {
        let named = || self.to.display().to_string();
        let mut copies = Vec::new();
        for entry in std::fs::read_dir(&self.to).with_context(named)? {
            let entry = entry.with_context(named)?;
            let name = entry.file_name();
            let copied = name.to_str().and_then(Copied::of);
            // A link is no directory.
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            copies.extend(copied.filter(|_| is_dir));
        }
        copies.sort();
        Ok(copies)
    }

    /// The time of the newest sound copy. Blocks.
    fn newest(&self) -> Option<Timestamp> {
        let copies = self.copies().ok()?;
        let sound = copies.into_iter().filter(|copy| !copy.is_damaged);
        sound.map(|copy| copy.at).max()
    }

    /// Deletes what a process has left that ended during a copy.
    fn clear(&self) -> Result<()> {
        for entry in std::fs::read_dir(&self.to)? {
            let entry = entry?;
            let name = entry.file_name();
            if name
                .to_str()
                .is_some_and(|name| name.starts_with(UNDER_WAY))
            {
                std::fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    /// Makes a copy, and deletes the oldest ones beyond the number that is kept. Returns the new one. Blocks.
    fn make(&self, data: &Path, stop: &CancellationToken) -> Result<Copied> {
        self.prepare()?;
        self.clear()
            .with_context(|| self.to.display().to_string())?;
        let copy = make(data, &self.to, UNDER_WAY, stop, |_, _| {})?;
        let unreadable = &copy.content.unreadable;
        for damaged in &unreadable.named {
            tracing::error!(
                order = damaged.order_id,
                why = damaged.why,
                "a stored record is damaged"
            );
        }
        let copied = Copied {
            at: Timestamp(SystemClock.now().0 / 1_000 * 1_000),
            is_damaged: unreadable.unreadable > 0,
        };
        let to = self.to.join(copied.name());
        let content = copy.name(data, &to)?;
        let (orders, messages) = (content.counts.orders, content.messages);
        tracing::info!(to = %to.display(), orders, messages, "backed up");
        self.prune(&copied)?;
        Ok(copied)
    }

    /// Deletes the oldest copies of the kind of the newest one: all sound ones beyond `keep`, or all other damaged ones.
    fn prune(&self, newest: &Copied) -> Result<()> {
        let is_damaged = newest.is_damaged;
        let keep = if is_damaged { 1 } else { self.keep };
        let mut of_kind = self.copies()?;
        of_kind.retain(|copy| copy.is_damaged == is_damaged);
        let beyond = of_kind.len().saturating_sub(keep);
        for old in &of_kind[..beyond] {
            let old = self.to.join(old.name());
            if triad_sqlite::is_taken(&old) {
                tracing::warn!(copy = %old.display(), "an old backup is kept: a process runs on it");
                continue;
            }
            let named = || format!("the old backup {} cannot be deleted", old.display());
            std::fs::remove_dir_all(&old).with_context(named)?;
        }
        Ok(())
    }

    /// How long to wait for the next copy after one of this time.
    fn wait(&self, last: Option<Timestamp>, now: Timestamp) -> Duration {
        let Some(last) = last else { return SOON };
        let since = Duration::from_millis(now.since(last).0);
        self.every.saturating_sub(since).max(SOON)
    }

    /// Makes copies until `stop`. A failure is logged and counted, and tried again after `every`, an hour at most.
    pub async fn run(self, data: PathBuf, stop: CancellationToken) {
        let looked = self.clone();
        let newest = tokio::task::spawn_blocking(move || looked.newest()).await;
        let newest = newest.ok().flatten();
        metric::backed_up(newest.unwrap_or(Timestamp(0)));
        metric::backups_failed(0);
        let mut wait = self.wait(newest, SystemClock.now());
        loop {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = stop.cancelled() => return,
            }
            let (made, data, stopping) = (self.clone(), data.clone(), stop.clone());
            let made = tokio::task::spawn_blocking(move || made.make(&data, &stopping)).await;
            if stop.is_cancelled() {
                return;
            }
            let failed = match made.context("the backup panicked").and_then(|made| made) {
                Ok(copied) if copied.is_damaged => Some(
                    "a record is damaged: `triad check` names it; sound backups are kept"
                        .to_owned(),
                ),
                Ok(copied) => {
                    metric::backed_up(copied.at);
                    None
                }
                Err(error) => Some(format!("{error:#}")),
            };
            wait = self.every;
            if let Some(error) = failed {
                metric::backups_failed(1);
                wait = self.every.min(MAX_RETRY);
                tracing::error!(
                    error,
                    to = %self.to.display(),
                    again_in_s = wait.as_secs(),
                    "no good backup was made, and orders go on: mend what the error says, or set `backup` to another directory and start again"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backups(to: &Path) -> Backups {
        Backups {
            to: to.to_owned(),
            every: Duration::from_secs(60),
            keep: 2,
        }
    }

    #[test]
    fn a_name_sorts_by_time_and_nothing_else_is_taken_for_a_copy() {
        let copy = |at, is_damaged| Copied {
            at: Timestamp(at),
            is_damaged,
        };
        let name = copy(1_700_000_000_000, false).name();
        assert_eq!(name, "2023-11-14T22-13-20Z");
        assert!(name < copy(1_700_000_001_000, false).name());
        for copy in [copy(1_700_000_000_000, false), copy(0, true)] {
            assert_eq!(Copied::of(&copy.name()), Some(copy));
        }
        for other in [
            "",
            "state",
            "2023-11-14",
            "2023-11-14T22:13:20Z",
            "2023-11-14T22-13-20.5Z",
            "2023-11-14T22-13-20Z-mine",
            ".triad-serve-x",
        ] {
            assert_eq!(Copied::of(other), None, "{other}");
        }
    }

    #[test]
    fn the_oldest_beyond_those_kept_are_deleted_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let make = |name: &str| std::fs::create_dir(dir.path().join(name)).expect("a directory");
        let copies = [
            "2026-01-01T00-00-00Z",
            "2026-01-02T00-00-00Z",
            "2026-01-03T00-00-00Z",
        ];
        let damaged = [
            "2026-01-01T12-00-00Z-damaged",
            "2026-01-02T12-00-00Z-damaged",
        ];
        let others = ["mine", ".triad-serve-x"];
        copies
            .iter()
            .chain(&damaged)
            .chain(&others)
            .for_each(|name| make(name));
        let file = dir.path().join("2025-01-01T00-00-00Z");
        std::fs::write(&file, "no directory").expect("a file");
        let backups = backups(dir.path());
        let newest = |name| Copied::of(name).expect("a copy");
        backups
            .prune(&newest(copies[2]))
            .expect("it can be deleted");
        let there = |name: &str| dir.path().join(name).exists();
        assert!(!there(copies[0]) && there(copies[1]) && there(copies[2]));
        assert!(damaged.iter().chain(&others).all(|name| there(name)) && file.exists());
        backups
            .prune(&newest(damaged[1]))
            .expect("it can be deleted");
        assert!(!there(damaged[0]) && there(damaged[1]) && there(copies[1]));
        backups.clear().expect("it can be deleted");
        assert!(!there(".triad-serve-x") && there("mine"));
        assert_eq!(backups.newest(), Some(newest(copies[2]).at));
    }

    #[test]
    fn the_next_copy_is_made_when_the_newest_is_old_enough_and_soon_if_there_is_none() {
        let backups = backups(Path::new("x"));
        let at = |seconds: u64| Timestamp(seconds * 1_000);
        assert_eq!(backups.wait(None, at(100)), SOON);
        assert_eq!(backups.wait(Some(at(90)), at(100)), Duration::from_secs(50));
        assert_eq!(backups.wait(Some(at(10)), at(100)), SOON);
        assert_eq!(
            backups.wait(Some(at(900)), at(100)),
            Duration::from_secs(60)
        );
    }
}
