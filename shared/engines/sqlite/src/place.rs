//! The place of an open file: whether the file is still there, how much room it has, and why it cannot be written.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use rustix::fs::{StatVfsMountFlags, statvfs};
use triad_runtime::StoreError;

use crate::error::{OpenError, classify};
use crate::schema;

/// A disk with less free space than this, in bytes, is full.
const FULL: u64 = 1 << 20;

/// Sizes of a store's files, and the free space of their disk, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// What the user of this process may still write on the disk.
    pub free: u64,
    /// Size of the file.
    pub file: u64,
    /// Size of the write-ahead log; 0 if there is none.
    pub log: u64,
}

/// Where a file was when it was opened.
#[derive(Debug)]
pub(crate) struct Place {
    dir: PathBuf,
    file: PathBuf,
    /// Device and inode of the open file.
    identity: (u64, u64),
}

impl Place {
    /// The place of the store in this directory, which has just been opened.
    pub(crate) fn of(dir: &Path) -> Result<Self, OpenError> {
        let file = schema::file(dir);
        let identity = identity(&file).map_err(|why| OpenError::Directory {
            dir: dir.to_owned(),
            why,
        })?;
        Ok(Self {
            dir: dir.to_owned(),
            file,
            identity,
        })
    }

    /// Fails if the path leads to no file, or to another one than the open one: what is written to the open one is
    /// lost when it is closed. A path that cannot be looked at for another reason is no failure.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let is_gone = match identity(&self.file) {
            Ok(identity) => identity != self.identity,
            Err(error) => matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ),
        };
        match is_gone {
            false => Ok(()),
            true => Err(StoreError::Configuration(format!(
                "{} was removed or replaced while it is in use: bring it back or restore a backup, and start this process again",
                self.file.display()
            ))),
        }
    }

    /// The error of a failed write, with what to do about it.
    pub(crate) fn explain(&self, error: &rusqlite::Error) -> StoreError {
        let code = error.sqlite_error_code();
        let is_of_disk = matches!(
            code,
            Some(
                ErrorCode::DiskFull
                    | ErrorCode::SystemIoFailure
                    | ErrorCode::ReadOnly
                    | ErrorCode::PermissionDenied
                    | ErrorCode::CannotOpen
            )
        );
        if !is_of_disk {
            return classify(error);
        }
        if let Err(gone) = self.check() {
            return gone;
        }
        let dir = self.dir.display();
        let about = statvfs(&self.dir).ok();
        let about = about.as_ref();
        let is_read_only = about.is_some_and(|of| of.f_flag.contains(StatVfsMountFlags::RDONLY));
        let is_full = about.is_some_and(|of| of.f_bavail.saturating_mul(of.f_frsize) < FULL);
        StoreError::Configuration(if is_read_only || code == Some(ErrorCode::ReadOnly) {
            format!(
                "{dir} is read-only, so nothing can be stored: let this user write there; orders then go on by themselves"
            )
        } else if is_full || code == Some(ErrorCode::DiskFull) {
            format!(
                "the disk of {dir} is full, so nothing can be stored: make room; orders then go on by themselves"
            )
        } else {
            format!(
                "{} cannot be written ({error}): look for a quota, a limit of file sizes or a fault of the disk; orders go on by themselves once it can be written",
                self.file.display()
            )
        })
    }

    pub(crate) fn room(&self) -> io::Result<Room> {
        let about = statvfs(&self.dir)?;
        let mut log = self.file.clone().into_os_string();
        log.push("-wal");
        Ok(Room {
            free: about.f_bavail.saturating_mul(about.f_frsize),
            file: std::fs::metadata(&self.file)?.len(),
            log: std::fs::metadata(log).map_or(0, |log| log.len()),
        })
    }
}

fn identity(file: &Path) -> io::Result<(u64, u64)> {
    let about = std::fs::metadata(file)?;
    Ok((about.dev(), about.ino()))
}
