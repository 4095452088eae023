//! Reading the topic of dead letters, with progress for a person who waits.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use triad_core::{Timestamp, topics};
use triad_kafka::Held;
use triad_runtime::dead_letter::Entry;

use crate::commands::connection::KafkaArgs;

/// Longest wait for one answer of a broker.
const ANSWER: Duration = Duration::from_secs(10);
/// Records between two movements of the progress bar.
const BETWEEN: u64 = 256;

/// What the topic holds at the moment of opening.
pub struct Letters {
    held: Held,
    bar: ProgressBar,
    unreadable: u64,
}

impl Letters {
    /// Opens it, from a moment on or from its beginning. A bar is shown if standard error is a
    /// terminal and `quiet` is false.
    pub async fn open(kafka: &KafkaArgs, since: Option<Timestamp>, quiet: bool) -> Result<Self> {
        let since = since.map(|at| i64::try_from(at.0).unwrap_or(i64::MAX));
        let held = Held::open(&kafka.config().await?, topics::DEAD_LETTER, since, ANSWER)?;
        let bar = if quiet || !std::io::stderr().is_terminal() {
            ProgressBar::hidden()
        } else {
            let style = "{bar:40} {pos}/{len} records  {per_sec}";
            ProgressBar::new(held.progress().1).with_style(ProgressStyle::with_template(style)?)
        };
        Ok(Self {
            held,
            bar,
            unreadable: 0,
        })
    }

    /// The next letter or marker; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Entry>> {
        while let Some(record) = self.held.next().await? {
            let (read, _) = self.held.progress();
            if read % BETWEEN == 0 {
                self.bar.set_position(read);
            }
            match Entry::read(record) {
                Ok(entry) => return Ok(Some(entry)),
                Err(_) => self.unreadable += 1,
            }
        }
        self.bar.finish_and_clear();
        Ok(None)
    }

    /// Prints a line to standard output without harm to the bar.
    pub fn print(&self, line: &str) {
        self.bar.suspend(|| println!("{line}"));
    }

    /// Records met so far that are neither letters nor markers.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }
}
