//! The data directory of one machine, and errors for a directory or a port that cannot be used.

use std::fs::{DirBuilder, File};
use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;

use crate::moved_mark;
use anyhow::{Result, anyhow};
use rustix::process::geteuid;

use crate::data;
use crate::output::{Usage, command};
use crate::user_files::plain;

/// Creates the directory and locks it for this process. `runs` is the command, such as `triad serve`; the lock file
/// keeps it ([`data::last_command`](crate::data::last_command)).
///
/// # Errors
/// [`Usage`] if the directory cannot be created or written, another process has it, or its orders were moved away;
/// another error if its disk is full or read-only.
pub fn lock(dir: &Path, runs: &str) -> Result<File> {
    let mut file = take(dir)?;
    match moved_mark::read_mark(dir)? {
        None => {
            let written = file
                .set_len(0)
                .and_then(|()| file.write_all(runs.as_bytes()));
            written.map_err(|e| unwritable(dir, "written", &e))?;
            Ok(file)
        }
        Some(moved) => Err(Usage(format!(
            "--data {}: its orders were exported on {} to {}, to go on elsewhere: here they would be done twice. Use the installation they were imported into; if they were imported nowhere, {}",
            dir.display(),
            moved.at,
            moved.to,
            command([
                "triad",
                "export",
                "--data",
                &dir.display().to_string(),
                "--revert"
            ]),
        ))
        .into()),
    }
}

/// Creates the directory and locks it for this process, even if its orders were moved away.
///
/// # Errors
/// [`Usage`] if the directory cannot be created or written, or another process has it; another error if its disk is
/// full or read-only.
pub fn take(dir: &Path) -> Result<File> {
    let shown = dir.display();
    // Only the owner may read and lock the content.
    let mut made = DirBuilder::new();
    made.recursive(true).mode(0o700);
    made.create(dir).map_err(|e| unwritable(dir, "made", &e))?;
    let mut opened = File::options();
    // The file keeps the last process's command.
    opened.write(true).create(true).truncate(false);
    let file = opened.open(dir.join(data::LOCK));
    let file = file.map_err(|e| unwritable(dir, "written", &e))?;
    if let Ok(about) = std::fs::metadata(dir)
        && about.mode() & 0o007 != 0
    {
        tracing::warn!(data = %shown, "others on this machine may read the orders: chmod 700");
    }
    if file.try_lock().is_err() {
        return Err(Usage(format!(
            "--data {shown}: another triad dev or triad serve uses this directory; stop that one, or name another directory"
        ))
        .into());
    }
    Ok(file)
}

/// The error for a directory that cannot be made or written. What a start can outlast, a disk that is full or read-only,
/// is no [`Usage`]: a service manager starts the process again.
fn unwritable(dir: &Path, done: &str, error: &std::io::Error) -> anyhow::Error {
    let (shown, why) = (dir.display(), plain(error));
    let next = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "make room on its disk"
        }
        ErrorKind::ReadOnlyFilesystem => "mount its disk so that it can be written",
        _ => {
            let next = "name a directory that you may write to";
            return Usage(format!("--data {shown}: cannot be {done}: {why}; {next}")).into();
        }
    };
    anyhow!("--data {shown}: cannot be {done}: {why}; {next}, and start again")
}

/// Refuses root if another user owns the directory: files of root would prevent that user's process from starting.
///
/// # Errors
/// [`Usage`] that names the user.
pub fn refuse_root(dir: &Path) -> Result<(), Usage> {
    let owner = std::fs::metadata(dir).map_or(0, |about| about.uid());
    may_write(dir, geteuid().as_raw(), owner)
}

fn may_write(dir: &Path, user: u32, owner: u32) -> Result<(), Usage> {
    if user != 0 || owner == 0 {
        return Ok(());
    }
    Err(Usage(format!(
        "--data {}: no process runs on it, and it belongs to user {owner}, whose files root must not make here: sudo -u '#{owner}' triad …",
        dir.display()
    )))
}

/// The error for a port that cannot be used, with the option that sets it.
pub fn taken(option: &str, listen: SocketAddr, error: &std::io::Error) -> Usage {
    Usage(format!(
        "{option}: {listen} cannot be had: {}; end the program that has it, or leave {option} out for a free port",
        plain(error)
    ))
}

/// The error for an engine whose data cannot be used, with the directory.
pub fn unusable(engine: &str, data: Option<&Path>, error: anyhow::Error) -> anyhow::Error {
    let of = data.map_or_else(String::new, |dir| format!(" with --data {}", dir.display()));
    error.context(format!("{engine} cannot be started{of}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_writes_in_no_directory_of_another_user() {
        let may = |user, owner| may_write(Path::new("d"), user, owner).is_ok();
        assert!(
            may(0, 0) && may(7, 7) && may(7, 0),
            "a volume of a container is root's"
        );
        assert!(!may(0, 7));
    }
}
