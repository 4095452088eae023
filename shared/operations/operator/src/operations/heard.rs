//! A reading of the topics of alerts and dead letters of late, for the overview.

use std::fmt::Display;
use std::time::Duration;

use triad_core::Timestamp;
use triad_workflow::Millis;

use crate::recent::{Alerts, Letters, alerts, letters};
use crate::topic::TopicReader;

/// Age up to which records are read where nothing else is said.
pub(super) const OF_LATE: Millis = Millis(24 * 3_600_000);
/// Most alerts of a reading for the overview: the newest.
const ALERTS: usize = 1_000;
/// Longest time of both reads of an overview.
const WITHIN: Duration = Duration::from_secs(3);
/// How long overviews show the same reading of alerts and dead letters.
pub(super) const HEARD_FOR: Millis = Millis(15_000);

/// Dead letters of the last day.
pub type LettersOfLate = Letters;

/// A reading of the two topics, or why it failed.
#[derive(Debug, Clone)]
pub(super) struct Heard {
    pub(super) alerts: Result<Alerts, String>,
    pub(super) letters: Result<Letters, String>,
}

impl Heard {
    pub(super) async fn read<T: TopicReader<Error: Display>>(topics: &T, now: Timestamp) -> Self {
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
    use triad_runtime::InputRecord;

    use super::*;
    use crate::topic::{Extent, LogTopic, TopicRecords};

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
        let heard = Heard::read(&Away, Timestamp(1)).await;
        assert_eq!(heard.letters.map(|_| ()), Err("refused".to_owned()));
        let late = Err("no answer within 3 s".to_owned());
        assert_eq!(heard.alerts.map(|_| ()), late);
    }
}
