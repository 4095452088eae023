//! Reads the topic of dead letters from Kafka, with a progress bar.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use triad_kafka::{HeldRecords, KafkaConfig, KafkaError};
use triad_operator::topic::{Extent, LogTopic, TopicReader, TopicRecords};
use triad_runtime::InputRecord;

use crate::connection::KafkaArgs;

/// Longest wait for one answer of a broker.
const ANSWER: Duration = Duration::from_secs(5);
/// Records between two updates of the progress bar.
const BETWEEN: u64 = 256;

/// The topic `dead-letter` of one Kafka cluster.
pub struct KafkaLetters {
    kafka: KafkaConfig,
    bar: ProgressBar,
}

/// The records that the topic held when it was opened.
pub struct Records {
    held: HeldRecords,
    bar: ProgressBar,
}

impl KafkaLetters {
    /// The topic on these brokers, after one of them has accepted the login; otherwise as [`over`](Self::over).
    ///
    /// # Errors
    /// Those of [`KafkaArgs::reached`].
    pub async fn of(kafka: &KafkaArgs, quiet: bool) -> Result<Self> {
        Self::over(kafka.reached().await?, quiet)
    }

    /// The topic on these brokers. While it is read, a progress bar is shown if standard error is a terminal and
    /// `quiet` is false.
    ///
    /// # Errors
    /// Never: the bar's template is valid.
    pub fn over(kafka: KafkaConfig, quiet: bool) -> Result<Self> {
        let bar = if quiet || !std::io::stderr().is_terminal() {
            ProgressBar::hidden()
        } else {
            let style = "{bar:40} {pos}/{len} records  {per_sec}";
            ProgressBar::new(0).with_style(ProgressStyle::with_template(style)?)
        };
        Ok(Self { kafka, bar })
    }

    /// Prints a line to standard output, with the progress bar hidden.
    pub fn print(&self, line: &str) {
        self.bar.suspend(|| println!("{line}"));
    }
}

impl TopicReader for KafkaLetters {
    type Error = KafkaError;
    type Records = Records;

    async fn open(&self, topic: LogTopic, extent: Extent) -> Result<Records, KafkaError> {
        let since = extent
            .since
            .map(|at| i64::try_from(at.0).unwrap_or(i64::MAX));
        let held = HeldRecords::open(&self.kafka, topic.name(), since, extent.last, ANSWER)?;
        self.bar.reset();
        self.bar.set_length(held.progress().1);
        Ok(Records {
            held,
            bar: self.bar.clone(),
        })
    }
}

impl TopicRecords for Records {
    type Error = KafkaError;

    async fn next(&mut self) -> Result<Option<InputRecord>, KafkaError> {
        let next = self.held.next().await?;
        let (read, _) = self.held.progress();
        if next.is_none() {
            self.bar.finish_and_clear();
        } else if read % BETWEEN == 0 {
            self.bar.set_position(read);
        }
        Ok(next)
    }
}
