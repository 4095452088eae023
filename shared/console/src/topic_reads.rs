//! What the topics of alerts and dead letters had of late. To read them takes a while, so it is kept for one.

use std::fmt::Display;
use std::time::Duration;

use triad_core::Timestamp;
use triad_operator::recent::{Alerts, Letters, alerts, letters};
use triad_operator::topic::TopicReader;
use triad_workflow::Millis;

/// How far back is looked.
pub(crate) const OF_LATE: Millis = Millis(24 * 3_600_000);
/// Alerts that are kept, the newest.
pub(crate) const ALERTS: usize = 10;
/// Longest wait for the two topics together.
const WITHIN: Duration = Duration::from_secs(3);

/// What was read of each of the two topics, or why nothing was.
#[derive(Debug, Clone)]
pub(crate) struct TopicReads {
    pub(crate) alerts: Result<Alerts, String>,
    pub(crate) letters: Result<Letters, String>,
}

impl TopicReads {
    /// Reads both.
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

    /// Dead letters that nobody may read, and alerts that never come.
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
