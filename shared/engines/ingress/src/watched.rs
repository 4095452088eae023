//! Files that are read again when they have changed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

/// Time of modification and length of a file; `None` if they are unknown.
type Stamp = Option<(SystemTime, u64)>;
/// Parses the files into a value.
type Parse<T, E> = Box<dyn Fn() -> Result<T, E> + Send + Sync>;

/// A value that is parsed from files, and parsed again when one of them has changed. While the files are invalid, the
/// last valid value stays.
pub(crate) struct Watched<T, E> {
    files: Vec<PathBuf>,
    read: Parse<T, E>,
    present: RwLock<Arc<T>>,
    seen: Mutex<Vec<Stamp>>,
}

impl<T, E: std::fmt::Display> Watched<T, E> {
    /// Parses the value for the first time.
    pub(crate) fn open(files: Vec<PathBuf>, read: Parse<T, E>) -> Result<Self, E> {
        // Stamped before they are read: the next check notices a change in between.
        let seen = stamps(&files);
        let present = RwLock::new(Arc::new(read()?));
        Ok(Self {
            files,
            read,
            present,
            seen: Mutex::new(seen),
        })
    }

    /// The present value.
    pub(crate) fn get(&self) -> Arc<T> {
        let present = self.present.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&present)
    }

    /// Checks whether a file has changed, and parses the value again if so. Blocks while the files are read.
    pub(crate) fn reload_if_changed(&self) {
        let now = stamps(&self.files);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == now {
            return;
        }
        *seen = now;
        let files = self.files.iter().map(|file| file.display().to_string());
        let files = files.collect::<Vec<_>>().join(", ");
        match (self.read)() {
            Ok(value) => {
                let mut present = self.present.write().unwrap_or_else(PoisonError::into_inner);
                *present = Arc::new(value);
                tracing::info!(files, "read again");
            }
            Err(why) => tracing::error!(files, %why, "wrong: what was read before stays"),
        }
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    files.iter().map(|file| stamp(file)).collect()
}

fn stamp(file: &Path) -> Stamp {
    let found = std::fs::metadata(file).ok()?;
    Some((found.modified().ok()?, found.len()))
}
