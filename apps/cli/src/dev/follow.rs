//! Submits a file of orders through Kafka, and follows each order to its end.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use triad_core::message::StatusMessage;
use triad_core::status::Status;
use triad_core::{Envelope, Timestamp, topics};
use triad_kafka::{Polled, Reader, ReaderStart};
use triad_runtime::dead_letter::LetterEntry;
use triad_runtime::system::SystemClock;
use triad_runtime::{Bus, Clock, InputRecord};

use super::engines::Engines;
use crate::output::Usage;
use crate::user_files;

/// Most orders of one file.
const MAX_ORDERS: usize = 2_000_000;
/// Orders in one batch, which is acknowledged before the next one.
const CHUNK: usize = 500;
/// Interval between updates of the progress bar while no record arrives.
const TICK: Duration = Duration::from_millis(100);

/// An order to submit: a line of the file, and its order id.
#[derive(Debug, Clone)]
pub struct OrderLine {
    id: String,
    value: Vec<u8>,
}

impl OrderLine {
    /// An order with this id and this JSON, which must contain the same id.
    #[cfg(feature = "bench")]
    pub fn new(id: String, value: Vec<u8>) -> Self {
        Self { id, value }
    }
}

/// How an order ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderEnding {
    /// The order has ended with this status.
    With(Status),
    /// The order was dead-lettered, and so never stored, for this cause.
    Rejected(String),
}

/// Results of the orders of a run.
#[derive(Debug)]
pub struct RunResult {
    /// How each order ended, by its id.
    pub finished: BTreeMap<String, OrderEnding>,
    /// How many of the orders ended in this run, and not in an earlier one.
    pub ended_here: usize,
    /// Time from submission to the final status, of each order that this run has submitted and that
    /// ended in it.
    pub latencies: Vec<Duration>,
    /// Time from the first submission to the last final status of this run.
    pub took: Duration,
}

/// Reads orders from a JSON-lines file of at most 2,000,000 orders; empty lines are skipped. Only `order_id` is
/// checked here, because the orders are followed by it; Submission checks the rest.
///
/// # Errors
/// [`Usage`] with the first ten problems: the file cannot be read, is empty or too long, or a line is not JSON or has
/// no text `order_id`.
pub fn read_orders(file: &Path) -> Result<Vec<OrderLine>> {
    let shown = file.display();
    let text = user_files::text(file)?;
    let mut orders = Vec::new();
    let mut problems = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let json: Result<serde_json::Value, _> = serde_json::from_str(line);
        match json.as_ref().map(|j| j["order_id"].as_str()) {
            Ok(Some(id)) => orders.push(OrderLine {
                id: id.to_owned(),
                value: line.as_bytes().to_vec(),
            }),
            Ok(None) => problems.push(format!("{shown}:{}: has no text \"order_id\"", number + 1)),
            Err(e) => problems.push(format!("{shown}:{}: {e}", number + 1)),
        }
    }
    if orders.len() > MAX_ORDERS {
        problems.push(format!("{shown}: has more than {MAX_ORDERS} orders"));
    }
    if orders.is_empty() && problems.is_empty() {
        problems.push(format!("{shown}: has no orders"));
    }
    if problems.is_empty() {
        Ok(orders)
    } else {
        problems.truncate(10);
        Err(Usage(problems.join("\n")).into())
    }
}

/// Submits orders and follows their statuses until all have ended.
pub struct Follower<'a> {
    engines: &'a Engines,
    orders: Vec<OrderLine>,
    in_flight: usize,
    statuses: Reader,
    bar: ProgressBar,
}

impl<'a> Follower<'a> {
    /// Opens the topics of statuses, replies and dead letters from their beginning, because in a durable run an
    /// earlier process may have finished some of the orders. At most `in_flight` orders are under way at once; 0 is
    /// no limit. `shown`: a progress bar is shown on standard error.
    ///
    /// # Errors
    /// [`triad_kafka::KafkaError`] if the embedded broker does not answer in time.
    pub fn open(
        engines: &'a Engines,
        orders: Vec<OrderLine>,
        in_flight: u32,
        shown: bool,
    ) -> Result<Self> {
        let mut followed: Vec<&str> = vec![topics::STATUS, topics::DEAD_LETTER];
        let replies = &engines.wiring.config.settings.reply_topics;
        followed.extend(replies.iter().map(String::as_str));
        let statuses = Reader::open(
            &engines.wiring.config.kafka,
            &followed,
            ReaderStart::Beginning,
            super::ENGINE_WAIT,
        )?;
        let bar = if shown {
            let style = "{bar:40} {pos}/{len} orders  {per_sec}  {elapsed}  {msg}";
            ProgressBar::new(orders.len() as u64).with_style(ProgressStyle::with_template(style)?)
        } else {
            ProgressBar::hidden()
        };
        Ok(Self {
            engines,
            orders,
            in_flight: if in_flight == 0 {
                usize::MAX
            } else {
                in_flight as usize
            },
            statuses,
            bar,
        })
    }

    async fn submit(&self, orders: &[OrderLine]) -> Result<()> {
        let messages = orders
            .iter()
            .map(|o| Envelope {
                topic: topics::ORDERS.to_owned(),
                key: Some(o.id.as_bytes().to_vec()),
                value: o.value.clone(),
                headers: Vec::new(),
                trace: None,
            })
            .collect();
        let results = self.engines.wiring.bus.publish(messages).await;
        for (order, result) in orders.iter().zip(results) {
            result.with_context(|| format!("order {} could not be submitted", order.id))?;
        }
        Ok(())
    }

    /// Submits the orders, at most `in_flight` (of [`open`](Self::open)) at once, and waits until every order has
    /// ended. There is no time limit.
    ///
    /// # Errors
    /// If the broker does not take an order.
    pub async fn run(&self) -> Result<RunResult> {
        let began = Instant::now();
        let begun_at = SystemClock.now();
        let mut last = began;
        let mut open: HashMap<String, Instant> = HashMap::new();
        let mut ended: BTreeMap<String, OrderEnding> = BTreeMap::new();
        let mut ended_here = 0;
        let mut latencies = Vec::with_capacity(self.orders.len());
        let wanted: std::collections::HashSet<&str> =
            self.orders.iter().map(|o| o.id.as_str()).collect();
        let mut next = 0;
        while ended.len() < wanted.len() {
            let room = self.in_flight.saturating_sub(open.len()).min(CHUNK);
            let until = (next + room).min(self.orders.len());
            if next < until {
                let now = Instant::now();
                for order in &self.orders[next..until] {
                    if !ended.contains_key(&order.id) {
                        open.insert(order.id.clone(), now);
                    }
                }
                self.submit(&self.orders[next..until]).await?;
                next = until;
            }
            let mut wait = if next < self.orders.len() && open.len() < self.in_flight {
                Duration::ZERO
            } else {
                TICK
            };
            // Reads all available records before submitting again.
            while let Polled::Record(record) = self.statuses.next(wait).await {
                wait = Duration::ZERO;
                if let Some(OrderEnd { id, how, at }) = end_of(record)
                    && wanted.contains(id.as_str())
                {
                    // The topics are read from their beginning, concurrently: an order may be submitted again before
                    // its end in an earlier run was read.
                    let since = open.remove(&id);
                    if at >= begun_at && !ended.contains_key(&id) {
                        last = Instant::now();
                        ended_here += 1;
                        latencies.extend(since.map(|since| last.duration_since(since)));
                    }
                    ended.insert(id, how);
                }
            }
            self.bar.set_position(ended.len() as u64);
        }
        self.bar.finish_and_clear();
        Ok(RunResult {
            finished: ended,
            ended_here,
            latencies,
            took: last.duration_since(began),
        })
    }
}

/// The end of an order.
#[derive(Debug, PartialEq)]
struct OrderEnd {
    id: String,
    how: OrderEnding,
    /// When the order ended, by the record: the status message may be a redelivered one.
    at: Timestamp,
}

/// Parses a record with the end of an order; a dead letter ends the order whose id is its key.
fn end_of(record: InputRecord) -> Option<OrderEnd> {
    if record.topic == topics::DEAD_LETTER {
        let at = Timestamp(u64::try_from(record.timestamp_ms).unwrap_or(0));
        let Ok(LetterEntry::Letter(letter)) = LetterEntry::read(record) else {
            return None;
        };
        return Some(OrderEnd {
            id: String::from_utf8(letter.key?).ok()?,
            how: OrderEnding::Rejected(letter.cause),
            at,
        });
    }
    let message: StatusMessage = serde_json::from_slice(record.value.as_deref()?).ok()?;
    let is_final = matches!(
        message.status,
        Status::Completed | Status::Compensated | Status::CompensationFailed | Status::Failed
    );
    is_final.then(|| OrderEnd {
        id: message.order_id.to_string(),
        how: OrderEnding::With(message.status),
        at: message.at,
    })
}
