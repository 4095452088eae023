//! Reports of orders while `triad dev` runs: each end, with its cause.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use triad_core::message::StatusMessage;
use triad_core::status::Status;
use triad_core::topics;
use triad_kafka::{KafkaConfig, Polled, Reader, ReaderStart};
use triad_runtime::InputRecord;
use triad_runtime::dead_letter::LetterEntry;

use super::output::Say;

/// Most lines in one second: a person cannot read more.
const MOST: usize = 20;
/// The interval of that bound.
const SECOND: Duration = Duration::from_secs(1);

/// Orders whose last sequence is remembered; beyond it, a redelivered status is reported again.
const REMEMBERED: usize = 10_000;

/// The last sequence of each order, so that a redelivered status is reported once.
#[derive(Debug, Default)]
struct LastSequences(HashMap<String, u32>);

impl LastSequences {
    fn is_new(&mut self, news: &OrderNews) -> bool {
        let Some(sequence) = news.sequence else {
            return true;
        };
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        let last = self.0.entry(news.order.clone()).or_default();
        let is_new = sequence > *last;
        *last = sequence.max(*last);
        is_new
    }
}

/// One event of an order.
#[derive(Debug, PartialEq)]
struct OrderNews {
    order: String,
    /// Sequence of the status; `None` for a dead letter.
    sequence: Option<u32>,
    /// The status's name.
    status: &'static str,
    /// The cause; empty if the order is well.
    cause: String,
}

/// Opens the topics of statuses and dead letters at their end. Blocks the thread for a moment.
///
/// # Errors
/// [`triad_kafka::KafkaError`] if the broker does not answer in time.
pub fn open(kafka: &KafkaConfig, replies: &[&str]) -> Result<Reader> {
    let mut followed = vec![topics::STATUS, topics::DEAD_LETTER];
    followed.extend(replies);
    Ok(Reader::open(
        kafka,
        &followed,
        ReaderStart::End,
        super::ENGINE_WAIT,
    )?)
}

/// Reports orders, until `stop`.
pub async fn follow_statuses(statuses: Reader, say: Say, stop: CancellationToken) {
    let mut second = tokio::time::interval(SECOND);
    let (mut said, mut more) = (0, 0);
    let mut known = LastSequences::default();
    loop {
        tokio::select! {
            read = statuses.next(SECOND) => {
                let Polled::Record(record) = read else { continue };
                let Some(news) = parse_status(record) else { continue };
                if !known.is_new(&news) {
                    continue;
                }
                if said < MOST {
                    said += 1;
                    let text = match news.cause.is_empty() {
                        true => format!("order {}  {}", news.order, news.status),
                        false => format!("order {}  {}: {}", news.order, news.status, news.cause),
                    };
                    say.event(&text, &json!({
                        "event": "order",
                        "order_id": news.order,
                        "status": news.status,
                        "cause": news.cause,
                    }));
                } else {
                    more += 1;
                }
            }
            _ = second.tick() => {
                if more > 0 {
                    let text = format!("and {more} more: see triad list");
                    say.event(&text, &json!({"event": "orders", "not_said": more}));
                }
                (said, more) = (0, 0);
            }
            () = stop.cancelled() => return,
        }
    }
}

/// The report for a record, if it is worth a line: a retry, the beginning of a compensation, an end, or a refused
/// submission.
fn parse_status(record: InputRecord) -> Option<OrderNews> {
    if record.topic == topics::DEAD_LETTER {
        let Ok(LetterEntry::Letter(letter)) = LetterEntry::read(record) else {
            return None;
        };
        let key = letter.key.as_deref().map(String::from_utf8_lossy);
        return Some(OrderNews {
            order: key.map_or_else(|| "(without a key)".to_owned(), |key| key.into_owned()),
            sequence: None,
            status: "not accepted",
            cause: format!("{}: {}", letter.cause, letter.message),
        });
    }
    let message: StatusMessage = serde_json::from_slice(record.value.as_deref()?).ok()?;
    let status = match message.status {
        Status::Completed => "completed",
        Status::Retrying => "retrying",
        Status::Compensating => "compensating",
        Status::Compensated => "compensated",
        Status::CompensationFailed => "half compensated, needs an operator",
        Status::Failed => "stopped in Error, needs an operator",
        // The dead letter has more details; the other statuses are not reported.
        _ => return None,
    };
    Some(OrderNews {
        order: message.order_id.to_string(),
        sequence: Some(message.sequence),
        status,
        cause: match message.status {
            // The report of the compensation's beginning has the cause.
            Status::Completed | Status::Compensated => String::new(),
            _ => message.cause.map(|c| c.to_string()).unwrap_or_default(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_that_is_sent_again_is_said_once() {
        let news = |order: &str, sequence| OrderNews {
            order: order.to_owned(),
            sequence,
            status: "retrying",
            cause: String::new(),
        };
        let mut known = LastSequences::default();
        let mut new = |order, sequence| known.is_new(&news(order, sequence));
        assert!(new("a", Some(2)) && !new("a", Some(2)) && new("b", Some(2)));
        assert!(new("a", Some(3)) && !new("a", Some(2)), "an earlier one");
        assert!(new("a", None) && new("a", None), "letters have none");
    }
}
