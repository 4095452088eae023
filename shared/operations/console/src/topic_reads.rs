//! Recent alerts and dead letters. Reading the topics is slow, so the result is cached.

use std::fmt::Display;
use std::time::Duration;

use triad_core::Timestamp;
use triad_operator::recent::{Alerts, Letters, alerts, letters};
use triad_operator::topic::TopicReader;
use triad_workflow::Millis;

/// Age up to which records are read.
pub(crate) const OF_LATE: Millis = Millis(24 * 3_600_000);
/// Most alerts that are kept: the newest.
pub(crate) const ALERTS: usize = 1_000;
/// Longest time of both reads together.
const WITHIN: Duration = Duration::from_secs(3);

/// Result of reading the two topics, or why it failed.
#[derive(Debug, Clone)]
pub(crate) struct TopicReads {
    pub(crate) alerts: Result<Alerts, String>,
    pub(crate) letters: Result<Letters, String>,
}

impl TopicReads {
    /// Reads both topics.
    pub(crate) async fn read<T: TopicReader<Error: Display>>(topics: &T, now: Timestamp) -> Self {
        let since = now.minus(OF_LATE);
        let (alerts, letters) = tokio::join!(
            in_time(alerts(topics, since, ALERTS)),
            in_time(letters(topics, since)),
        );
        Self { alerts, letters }
    }
}

async fn in_time<T, E: Display>(reading: impl Future<Output = Result<T, E>>) -> Result<T, String> {
    match tokio::time::timeout(WITHIN, reading).await {
        Ok(read) => read.map_err(|e| e.to_string()),
        Err(_) => Err(format!("no answer within {} s", WITHIN.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use triad_operator::topic::{Extent, LogTopic, TopicRecords};
    use triad_runtime::InputRecord;

    use super::*;

    /// Test topics: dead letters fail, alerts never answer.
    struct Away;

    struct Never;

    impl TopicReader for Away {
        type Error = String;
        type Records = Never;

        async fn open(&self, topic: LogTopic, _: Extent) -> Result<Never, String> {
            match topic {
                LogTopic::DeadLetters => Err("refused".to_owned()),
                LogTopic::Alerts => Ok(Never),
            }
        }
    }

    impl TopicRecords for Never {
        type Error = String;

        async fn next(&mut self) -> Result<Option<InputRecord>, String> {
            std::future::pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_topic_that_cannot_be_read_or_does_not_answer_says_so() {
        let heard = TopicReads::read(&Away, Timestamp(1)).await;
        assert_eq!(heard.letters, Err("refused".to_owned()));
        assert_eq!(heard.alerts, Err("no answer within 3 s".to_owned()));
    }
}
