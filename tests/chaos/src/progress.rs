//! Following the run: which orders have ended, by what applications are told.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use tokio::sync::watch;
use tokio::time::Instant;
use triad_core::message::StatusMessage;
use triad_core::status::Status;
use triad_core::topics;
use triad_kafka::{KafkaConfig, Polled, Reader, ReaderStart};

use super::child_process::START;
use super::installation::REPLY_TOPIC;
use super::progress_lines::print_progress;

/// Longest wait for one answer of the broker.
const ANSWER: Duration = Duration::from_secs(20);
/// Time between two lines of progress.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Most time without an order ending, once so many have, of a run whose last fault comes after `faulty` of
/// them. Nobody waits for the workers to be there, and a run that gives up before its faults has shown
/// nothing: until they have come, and an order has ended, it is no less than a process may need to start.
fn longest(patience: Duration, ended: usize, faulty: usize) -> Duration {
    if ended < faulty.max(1) {
        patience.max(START)
    } else {
        patience
    }
}

/// Counts ended orders into `ended` until there are `count`, or none has ended for `patience`
/// ([`START`] at least until there are `faulty`): then it says so, and closes `ended`.
///
/// # Errors
/// When the broker does not answer at all.
pub async fn follow(
    brokers: &str,
    count: usize,
    faulty: usize,
    patience: Duration,
    ended: watch::Sender<usize>,
) -> Result<Option<String>> {
    let config = KafkaConfig::new(brokers);
    let read = [topics::STATUS, REPLY_TOPIC];
    let reader = Reader::open(&config, &read, ReaderStart::Beginning, ANSWER)?;
    let mut known: BTreeSet<String> = BTreeSet::new();
    let (mut last, mut told) = (Instant::now(), Instant::now());
    while known.len() < count {
        if told.elapsed() > TELL_EVERY {
            told = Instant::now();
            print_progress(&format!("{:>6} of {count} orders ended", known.len()));
        }
        let longest = longest(patience, known.len(), faulty);
        if last.elapsed() > longest {
            let why = format!(
                "no order has ended for {longest:?}; {} of {count} have",
                known.len()
            );
            print_progress(&why);
            return Ok(Some(why));
        }
        let Polled::Record(record) = reader.next(Duration::from_millis(200)).await else {
            continue;
        };
        let value = record.value.unwrap_or_default();
        let Ok(status) = serde_json::from_slice::<StatusMessage>(&value) else {
            // The check of the statuses says so too.
            continue;
        };
        if is_end(status.status) && known.insert(status.order_id.to_string()) {
            last = Instant::now();
            ended.send_replace(known.len());
        }
    }
    Ok(None)
}

/// Whether a status is of an order that has ended.
#[must_use]
pub fn is_end(status: Status) -> bool {
    matches!(
        status,
        Status::Completed | Status::Compensated | Status::CompensationFailed | Status::Failed
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn until_the_last_fault_has_come_processes_have_the_time_for_their_start() {
        let short = Duration::from_secs(20);
        assert_eq!(longest(short, 6, 7), START);
        assert_eq!(longest(short, 7, 7), short);
        assert_eq!((longest(short, 0, 0), longest(short, 1, 0)), (START, short));
        let long = START * 2;
        assert_eq!((longest(long, 0, 7), longest(long, 7, 7)), (long, long));
    }
}
