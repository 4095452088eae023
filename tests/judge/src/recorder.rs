//! Records a history: numbers the operations, and writes each as it ends.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result};
use triad_runtime::Clock;
use triad_runtime::system::SystemClock;

use super::history::{Answer, ClientOperation, Moment, Operation};

/// Writes a history. Several threads may share it; each line is written as a whole.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    /// The clock at the beginning, in microseconds since the Unix epoch, and the monotonic time then. Later times are
    /// computed from these, so that they increase even if the clock is set back.
    began: (u64, Instant),
    sink: Mutex<Sink>,
}

#[derive(Debug)]
struct Sink {
    file: BufWriter<File>,
    events: u64,
    lines: usize,
    failed: Option<std::io::Error>,
}

/// An operation that was sent and is not answered yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Begun {
    /// The object that it concerns.
    pub object: String,
    /// The request.
    pub asked: ClientOperation,
}

impl Recorder {
    /// Creates the file of the history.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| path.display().to_string())?;
        Ok(Self {
            path: path.to_owned(),
            began: (SystemClock.now().0 * 1_000, Instant::now()),
            sink: Mutex::new(Sink {
                file: BufWriter::new(file),
                events: 0,
                lines: 0,
                failed: None,
            }),
        })
    }

    /// The next event number, with the current time.
    pub fn moment(&self) -> Moment {
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.events += 1;
        // Taken under the lock, so that numbers and times increase together.
        let since = u64::try_from(self.began.1.elapsed().as_micros()).unwrap_or(u64::MAX);
        Moment {
            at_us: self.began.0.saturating_add(since),
            event: sink.events,
        }
    }

    /// Writes operations with their answers.
    pub fn ended(&self, began: Moment, ended: Moment, all: Vec<(Begun, Answer)>) {
        for (Begun { object, asked }, answer) in all {
            self.write(&Operation {
                object,
                began,
                ended,
                asked,
                answer,
            });
        }
    }

    /// Writes a line. An error is kept, and returned by [`Recorder::finish`].
    pub fn write(&self, operation: &Operation) {
        let line = serde_json::to_vec(operation);
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        let written = line.map_err(std::io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            sink.file.write_all(&line)
        });
        match written {
            Ok(()) => sink.lines += 1,
            Err(e) => sink.failed = sink.failed.take().or(Some(e)),
        }
    }

    /// Syncs the file to disk; returns the number of lines, and the path.
    ///
    /// # Errors
    /// The first error in writing a line, because a history with a gap is useless.
    pub fn finish(&self) -> Result<(usize, &Path)> {
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(e) = sink.failed.take() {
            return Err(e).context("the history could not be written");
        }
        sink.file
            .flush()
            .context("the history could not be written")?;
        Ok((sink.lines, &self.path))
    }
}

/// Reads a history, line by line.
///
/// # Errors
/// If the file is missing, or a line is invalid.
pub fn read(path: &Path) -> Result<impl Iterator<Item = Result<Operation>>> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let lines = BufReader::new(file).lines().enumerate();
    Ok(lines.map(|(number, line)| {
        let told = || format!("line {} of the history", number + 1);
        serde_json::from_str(&line.with_context(told)?).with_context(told)
    }))
}
