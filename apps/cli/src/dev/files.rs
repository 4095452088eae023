//! Watches the files of a project.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

/// Time of modification and length of a file. `None`: the file does not exist.
type FileStamp = Option<(SystemTime, u64)>;

fn stamp_of(path: &PathBuf) -> FileStamp {
    let file = std::fs::metadata(path).ok()?;
    Some((file.modified().ok()?, file.len()))
}

/// Watched files. An editor may write a file in several steps, or remove it for a moment: a change counts once two
/// consecutive looks agree.
#[derive(Debug)]
pub struct Files(BTreeMap<PathBuf, StampPair>);

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
        let seen = |path: PathBuf| {
            let now = stamp_of(&path);
            (
                path,
                StampPair {
                    told: now,
                    last: now,
                },
            )
        };
        Self(paths.into_iter().map(seen).collect())
    }

    /// Watches exactly these files from now on. Files already watched keep their state, new ones start with their
    /// present state.
    pub fn watch(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        let mut before = std::mem::take(&mut self.0);
        let Self(new) = Self::new(paths);
        for (path, now) in new {
            let seen = before.remove(&path).unwrap_or(now);
            self.0.insert(path, seen);
        }
    }

    /// The files that have changed since the last report and are stable.
    pub fn changed(&mut self) -> Vec<PathBuf> {
        let mut changed = Vec::new();
        for (path, seen) in &mut self.0 {
            let now = stamp_of(path);
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
}
