//! Errors of SQLite, classified by the reaction of an operator or a caller.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use triad_runtime::StoreError;

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory cannot be made or written, or its lock file cannot be locked.
    #[error("the data directory {dir} cannot be used: {why}")]
    Directory {
        /// The directory that cannot be used.
        dir: PathBuf,
        /// Why the directory cannot be used, in the system's words.
        why: std::io::Error,
    },
    /// Another process has opened the store in this directory, and owns it.
    #[error(
        "another process has the data directory {dir}: stop it first, or name another directory"
    )]
    Taken {
        /// The directory that another process has.
        dir: PathBuf,
    },
    /// There is no store in the directory, and the call does not create one.
    #[error(
        "{dir} has no store in it: name the data directory of an installation that has been started before"
    )]
    Missing {
        /// The directory without a store.
        dir: PathBuf,
    },
    /// Another program wrote the file, or a version that this one cannot read.
    #[error("{file} is not a store that this version can read: {why}")]
    Foreign {
        /// The file that cannot be read as a store.
        file: PathBuf,
        /// Actual writer of the file.
        why: Foreign,
    },
    /// SQLite cannot open the file.
    #[error("{file} cannot be opened: {why}")]
    File {
        /// The file that cannot be opened.
        file: PathBuf,
        /// Why SQLite cannot open it, in SQLite's words, and what to do about it.
        why: String,
    },
    /// A thread of the store cannot be started.
    #[error("a thread of the store cannot be started: {0}")]
    Thread(std::io::Error),
}

/// Why a file is not a store that this version can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Foreign {
    /// A later version of this program wrote it.
    #[error(
        "it has version {version}, and this program supports up to {known}: use a later version of triad"
    )]
    Later {
        /// The version of the file's schema.
        version: i32,
        /// The version that this program reads and writes.
        known: i32,
    },
    /// An earlier version wrote it, and this process does not own it and so may not upgrade it.
    #[error(
        "it has version {version}: start this program once as the owner of the directory, which upgrades it to version {known}"
    )]
    Earlier {
        /// The version of the file's schema.
        version: i32,
        /// The version that this program reads and writes.
        known: i32,
    },
    /// Another program wrote the file.
    #[error("another program has written it")]
    Program,
}

impl OpenError {
    /// SQLite's error about a file.
    pub(crate) fn of_file(file: &Path, error: &rusqlite::Error) -> Self {
        let next = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => "make room on its disk, and start again",
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                "let this user read and write it and its directory"
            }
            Some(ErrorCode::SystemIoFailure) => {
                "look for a full disk, a quota, a limit of file sizes or a fault of the disk"
            }
            _ => "restore a backup if it is damaged",
        };
        Self::File {
            file: file.to_owned(),
            why: format!("{error}; {next}"),
        }
    }
}

/// The [`StoreError`] of an error of SQLite.
pub(crate) fn classify(error: &rusqlite::Error) -> StoreError {
    let text = error.to_string();
    let Some(code) = error.sqlite_error_code() else {
        return match error {
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..) => StoreError::Item(text),
            _ => StoreError::Transient(text),
        };
    };
    match code {
        ErrorCode::DiskFull
        | ErrorCode::ReadOnly
        | ErrorCode::PermissionDenied
        | ErrorCode::CannotOpen
        | ErrorCode::DatabaseCorrupt
        | ErrorCode::NotADatabase
        | ErrorCode::SystemIoFailure
        | ErrorCode::AuthorizationForStatementDenied => StoreError::Configuration(text),
        ErrorCode::TooBig => StoreError::Item(text),
        _ => StoreError::Transient(text),
    }
}

/// Result of one item of a batch: an unreadable row fails that item, not the batch.
pub(crate) fn of_item<T>(
    result: rusqlite::Result<Result<T, StoreError>>,
) -> rusqlite::Result<Result<T, StoreError>> {
    match result {
        Err(error) if error.sqlite_error_code().is_none() => match classify(&error) {
            refused @ StoreError::Item(_) => Ok(Err(refused)),
            _ => Err(error),
        },
        result => result,
    }
}

/// A number as SQLite keeps it: the same 64 bits. Moments and versions stay below 2^63.
pub(crate) fn signed(number: u64) -> i64 {
    number.cast_signed()
}
