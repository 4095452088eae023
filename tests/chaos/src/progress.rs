//! Follows the run: counts the ended orders by their status messages.

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
/// Interval between two progress lines.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Longest time without an order's end, after `ended` orders. A worker's start is not waited for, and a run must not
/// stop before its last fault, which comes after `faulty` orders. Until then, and until one order has ended, the
/// limit is at least the longest start of a process.
fn longest(patience: Duration, ended: usize, faulty: usize) -> Duration {
    if ended < faulty.max(1) {
        patience.max(START)
    } else {
        patience
    }
}

/// Counts ended orders into `ended` until there are `count`, or until none has ended for `patience` (at least
/// [`START`] before there are `faulty`). In the second case it returns and prints the reason.
///
/// # Errors If the broker does not answer.
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
            // Skipped: the check of the statuses reports this message.
            continue;
        };
        if is_end(status.status) && known.insert(status.order_id.to_string()) {
            last = Instant::now();
            ended.send_replace(known.len());
        }
    }
    Ok(None)
}

/// Whether a status is that of an order's end.
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
