//! Watches the files of a project.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::user_files::{FileStamp, stamp, stamp_with_descriptions};

/// Watched files. An editor may write a file in several steps, or remove it for a moment: a change counts once two
/// consecutive looks agree.
#[derive(Debug)]
pub struct Files {
    seen: BTreeMap<PathBuf, StampPair>,
    /// What counts as a change of a file.
    stamp: fn(&Path) -> FileStamp,
}

#[derive(Debug)]
struct StampPair {
    /// State at the last reported change, or at first.
    told: FileStamp,
    /// State at the last look.
    last: FileStamp,
}

impl Files {
    /// Watches these files, starting with their present state.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Self::stamped(stamp, paths)
    }

    /// Workflow files to be watched, each together with the descriptions of services beside it.
    pub fn of_workflows() -> Self {
        Self::stamped(stamp_with_descriptions, [])
    }

    fn stamped(stamp: fn(&Path) -> FileStamp, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let pair = |path: PathBuf| {
            let now = stamp(&path);
            let pair = StampPair {
                told: now,
                last: now,
            };
            (path, pair)
        };
        Self {
            seen: paths.into_iter().map(pair).collect(),
            stamp,
        }
    }

    /// Watches exactly these files from now on. Files already watched keep their state, new ones start with their
    /// present state.
    pub fn watch(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        let mut before = std::mem::take(&mut self.seen);
        for (path, now) in Self::stamped(self.stamp, paths).seen {
            let seen = before.remove(&path).unwrap_or(now);
            self.seen.insert(path, seen);
        }
    }

    /// The files that have changed since the last report and are stable.
    pub fn changed(&mut self) -> Vec<PathBuf> {
        let mut changed = Vec::new();
        for (path, seen) in &mut self.seen {
            let now = (self.stamp)(path);
            if now.is_some() && now == seen.last && now != seen.told {
                seen.told = now;
                changed.push(path.clone());
            }
            seen.last = now;
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_once_and_only_when_the_file_is_at_rest() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("w.yaml");
        let write = |text: &str| std::fs::write(&path, text).expect("a file");
        write("a");
        let mut files = Files::new([path.clone()]);
        assert!(files.changed().is_empty(), "nothing has changed");
        write("a longer one");
        assert!(files.changed().is_empty(), "it may still be written");
        assert_eq!(files.changed(), std::slice::from_ref(&path));
        assert!(files.changed().is_empty(), "it was told");
        std::fs::remove_file(&path).expect("it is there");
        assert!(files.changed().is_empty() && files.changed().is_empty());
        write("another one, put in its place");
        assert!(files.changed().is_empty());
        assert_eq!(files.changed(), std::slice::from_ref(&path));
    }

    #[test]
    fn a_change_is_not_lost_when_other_files_are_watched_beside() {
        let dir = tempfile::tempdir().expect("a directory");
        let (one, other) = (dir.path().join("1"), dir.path().join("2"));
        let write = |path: &PathBuf, text: &str| std::fs::write(path, text).expect("a file");
        write(&one, "a");
        write(&other, "a");
        let mut files = Files::new([one.clone()]);
        write(&one, "another");
        files.watch([one.clone(), other.clone()]);
        assert!(files.changed().is_empty(), "it may still be written");
        assert_eq!(files.changed(), std::slice::from_ref(&one));
        files.watch([other.clone()]);
        write(&one, "yet another");
        write(&other, "another");
        assert!(files.changed().is_empty());
        assert_eq!(files.changed(), std::slice::from_ref(&other));
    }

    #[test]
    fn a_description_beside_a_workflow_is_a_change_of_the_workflow() {
        let dir = tempfile::tempdir().expect("a directory");
        let workflow = dir.path().join("w.yaml");
        std::fs::write(&workflow, "w").expect("a file");
        let mut files = Files::of_workflows();
        files.watch([workflow.clone()]);
        assert!(files.changed().is_empty(), "nothing has changed");
        std::fs::create_dir(dir.path().join("agents")).expect("a folder");
        let description = dir.path().join("agents/payment.yaml");
        for text in ["one", "another one"] {
            std::fs::write(&description, text).expect("a file");
            assert!(files.changed().is_empty(), "it may still be written");
            assert_eq!(files.changed(), std::slice::from_ref(&workflow));
        }
    }
}
