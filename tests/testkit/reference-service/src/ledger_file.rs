//! The durable ledger: JSON lines, appended and never changed.
//!
//! A line is written to the operating system (one `write(2)`) before its call is answered, so that killing the
//! process loses no acknowledged effect. It is not synced to the disk: a power cut may lose the last lines. A line
//! that a kill left incomplete has no newline; its call was never answered, and the next start removes it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use crate::book::{Book, BookFull, LedgerLine};

/// Longest line that is read, in bytes; written lines are far shorter.
const MAX_LINE: u64 = 64 * 1024;

/// Why a ledger file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The file cannot be opened, read, or truncated to its last complete line.
    #[error("ledger {path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// Another process uses the file.
    #[error("ledger {path} is in use by another process")]
    InUse {
        /// Path of the file.
        path: PathBuf,
    },
    /// A complete line cannot be parsed, so another program has changed the file.
    #[error("ledger {path}, line {line}: {what}")]
    Corrupt {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// The error in the line, as text.
        what: String,
    },
    /// The file holds more keys than [`Config::max_keys`](crate::Config::max_keys) allows.
    #[error("ledger {path}: {full}")]
    Full {
        /// Path of the file.
        path: PathBuf,
        /// The limit that it exceeds.
        full: BookFull,
    },
}

/// An open ledger file, locked against other processes.
#[derive(Debug)]
pub(crate) struct LedgerFile {
    file: File,
    /// Total length of complete lines in bytes; what follows is an incomplete write.
    good_len: u64,
    torn: bool,
    line: Vec<u8>,
}

impl LedgerFile {
    /// Opens or creates the file, loads its lines into `book`, and removes an incomplete last line.
    pub(crate) fn open(path: &Path, book: &mut Book) -> Result<Self, LedgerError> {
        let io = |source| LedgerError::Io {
            path: path.to_owned(),
            source,
        };
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LedgerError::InUse {
                    path: path.to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        let good_len = reload(path, &file, book)?;
        file.set_len(good_len).map_err(io)?;
        Ok(Self {
            file,
            good_len,
            torn: false,
            line: Vec::new(),
        })
    }

    /// Appends one line. If that fails, nothing of the line remains in the file.
    pub(crate) fn append(&mut self, line: &LedgerLine) -> io::Result<()> {
        if self.torn {
            self.file.set_len(self.good_len)?;
            self.torn = false;
        }
        self.line.clear();
        serde_json::to_writer(&mut self.line, line)?;
        self.line.push(b'\n');
        if let Err(error) = self.file.write_all(&self.line) {
            self.torn = self.file.set_len(self.good_len).is_err();
            return Err(error);
        }
        self.good_len += self.line.len() as u64;
        Ok(())
    }
}

/// Loads every complete line; returns their total length in bytes.
fn reload(path: &Path, file: &File, book: &mut Book) -> Result<u64, LedgerError> {
    let mut reader = BufReader::new(file);
    let (mut good_len, mut number) = (0, 0);
    let mut text = Vec::new();
    loop {
        text.clear();
        let read = (&mut reader)
            .take(MAX_LINE)
            .read_until(b'\n', &mut text)
            .map_err(|source| LedgerError::Io {
                path: path.to_owned(),
                source,
            })?;
        number += 1;
        let corrupt = |what: String| LedgerError::Corrupt {
            path: path.to_owned(),
            line: number,
            what,
        };
        if text.last() != Some(&b'\n') {
            if read as u64 == MAX_LINE {
                return Err(corrupt(format!("longer than {MAX_LINE} bytes")));
            }
            return Ok(good_len);
        }
        let line: LedgerLine =
            serde_json::from_slice(&text).map_err(|error| corrupt(error.to_string()))?;
        book.arrive(&line.head).map_err(|full| LedgerError::Full {
            path: path.to_owned(),
            full,
        })?;
        book.apply(&line);
        good_len += read as u64;
    }
}
