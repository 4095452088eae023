//! The mark of a data directory whose orders were moved away.

use std::io::{ErrorKind, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::output::Usage;
use crate::user_files;

/// Name of the mark's file in a data directory.
const FILE: &str = "moved.json";

/// Target and time of the move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// The export file.
    pub to: String,
    /// Time of the export, in RFC 3339.
    pub at: String,
}

/// The mark of a directory, if its orders were moved away.
///
/// # Errors
/// [`Usage`] naming the file, if it cannot be read: then the state is unknown.
pub fn read_mark(data: &Path) -> Result<Option<Moved>, Usage> {
    let path = data.join(FILE);
    let refused = |why| Usage(format!("{}: {why}", path.display()));
    match std::fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text)
            .map(Some)
            .map_err(|e| refused(e.to_string())),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(refused(user_files::why(&path, &e))),
    }
}

/// Marks a directory, durably.
///
/// # Errors
/// Naming the file, if it cannot be written.
pub fn note(data: &Path, moved: &Moved) -> Result<()> {
    let path = data.join(FILE);
    let named = || format!("{} cannot be written", path.display());
    let mut new = tempfile::NamedTempFile::new_in(data).with_context(named)?;
    serde_json::to_writer_pretty(new.as_file_mut(), moved)?;
    new.as_file_mut().flush().with_context(named)?;
    new.as_file().sync_all().with_context(named)?;
    new.persist(&path).with_context(named)?;
    let directory = std::fs::File::open(data).with_context(named)?;
    directory.sync_all().with_context(named)
}

/// Removes the mark; false if there was none.
///
/// # Errors
/// Naming the file, if it cannot be removed.
pub fn forget(data: &Path) -> Result<bool> {
    let path = data.join(FILE);
    match std::fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e).with_context(|| format!("{} cannot be removed", path.display())),
    }
}
