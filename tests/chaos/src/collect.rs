//! Reads the evidence of a run: tables, topics, and the remote service's ledger.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use serde_json::Value;
use triad_core::message::SchedulerMessage;
use triad_core::{Order, OrderId, ReplyOutcome, StepRequest, topics};
use triad_kafka::{KafkaConfig, Polled, Reader, ReaderStart};
use triad_reference_service::KeyView;
use triad_reference_service::book::LedgerLine;
use triad_runtime::dead_letter::{LetterEntry, LetterId};
use triad_runtime::{InputRecord, StateStore};

use super::evidence::{
    AgentReply, AgentRequest, AttemptId, Evidence, Offsets, ReplyContent, is_compensation,
};
use super::installation::{Installation, REPLY_TOPIC};
use super::submit::Sent;
use super::watch::Sightings;

/// Longest wait for one answer of the broker.
const ANSWER: Duration = Duration::from_secs(20);
/// Longest wait for the next record before the end of a topic.
const NEXT: Duration = Duration::from_secs(60);
/// Number of details that are read concurrently.
const AT_ONCE: usize = 100;

/// Reads all evidence.
///
/// # Errors
/// If a table, topic or ledger cannot be read.
pub async fn collect(
    installation: &Installation,
    sent: Vec<Sent>,
    sightings: Sightings,
    resolved: (Vec<String>, Vec<Offsets>),
) -> Result<Evidence> {
    let mut e = Evidence {
        workflow: installation.workflow.clone(),
        sent,
        inputs: BTreeMap::new(),
        records: records(installation).await?,
        details: BTreeMap::new(),
        statuses: Vec::new(),
        alerts: Vec::new(),
        letters: Vec::new(),
        requests: Vec::new(),
        replies: Vec::new(),
        unreadable: Vec::new(),
        calls: calls(installation)?,
        keys: keys(installation).await?,
        sightings,
        offsets: resolved.1,
        unfinished: resolved.0,
    };
    for order in e.records.values() {
        if let Some(workflow) = installation.workflow_of(order) {
            e.sightings.see(order.clone(), workflow);
        }
    }
    e.details = details(installation, e.records.values()).await?;
    for topic in all_topics(installation) {
        read(&installation.places.brokers, &topic, |record| {
            e.take(record)
        })
        .await?;
    }
    Ok(e)
}

fn all_topics(installation: &Installation) -> Vec<String> {
    topics::all(&installation.agents(), &[REPLY_TOPIC.to_owned()])
}

async fn records(installation: &Installation) -> Result<BTreeMap<String, Order>> {
    let store = installation.state_store().await;
    let (mut all, mut page) = (BTreeMap::new(), None);
    loop {
        let found = store.list(None, page).await?;
        anyhow::ensure!(found.unreadable.is_empty(), "{:?}", found.unreadable);
        all.extend(found.orders.into_iter().map(|o| (o.id.to_string(), o)));
        page = found.next;
        if page.is_none() {
            return Ok(all);
        }
    }
}

async fn details(
    installation: &Installation,
    orders: impl Iterator<Item = &Order>,
) -> Result<BTreeMap<String, Value>> {
    let store = installation.state_store().await;
    let ids: Vec<OrderId> = orders.map(|o| o.id.clone()).collect();
    let mut all = BTreeMap::new();
    for some in ids.chunks(AT_ONCE) {
        let found = store.details(some.to_vec()).await;
        for (id, details) in some.iter().zip(found) {
            if let Some(details) = details? {
                all.insert(id.to_string(), details.as_ref().clone());
            }
        }
    }
    Ok(all)
}

/// Reads the calls from the service's durable ledger: a line for each call, in the order in which they ended. An
/// incomplete last line is a call that a kill left unanswered.
fn calls(installation: &Installation) -> Result<Vec<LedgerLine>> {
    let file = std::fs::File::open(&installation.places.ledger).context("the ledger")?;
    let lines = BufReader::new(file).lines();
    lines
        .map(|line| serde_json::from_str(&line?).context("a line of the ledger"))
        .collect()
}

async fn keys(installation: &Installation) -> Result<Vec<KeyView>> {
    let ledger = format!("{}/_ledger", installation.places.service);
    let answer = triad_tests::http::client().get(ledger).send().await?;
    let lines = answer.error_for_status()?.text().await?;
    let key = |line| serde_json::from_str(line).context("a key of the ledger");
    lines.lines().map(key).collect()
}

/// Reads a topic up to its current end.
async fn read(brokers: &str, topic: &str, mut take: impl FnMut(InputRecord)) -> Result<()> {
    let client: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .create()?;
    let mut held = 0;
    let metadata = client.fetch_metadata(Some(topic), ANSWER)?;
    for partition in metadata.topics().iter().flat_map(|t| t.partitions()) {
        let (low, high) = client.fetch_watermarks(topic, partition.id(), ANSWER)?;
        held += high - low;
    }
    let config = KafkaConfig::new(brokers);
    let reader = Reader::open(&config, &[topic], ReaderStart::Beginning, ANSWER)?;
    let mut last = Instant::now();
    while held > 0 {
        match reader.next(Duration::from_secs(1)).await {
            Polled::Record(record) => {
                held -= 1;
                last = Instant::now();
                take(record);
            }
            Polled::Nothing if last.elapsed() > NEXT => {
                bail!("{held} records of {topic} do not come")
            }
            Polled::Nothing => {}
        }
    }
    Ok(())
}

impl Evidence {
    /// Adds a record of any topic to the evidence.
    fn take(&mut self, record: InputRecord) {
        let place = LetterId::of(&record);
        let value = record.value.as_deref().unwrap_or_default();
        let is_known = match record.topic.as_str() {
            topics::ORDERS | topics::ORDERS_HIGH => {
                self.inputs.insert(place.clone(), record.value);
                true
            }
            topics::SCHEDULER | topics::SCHEDULER_HIGH => self.event(value, record.timestamp_ms),
            topics::STATUS | REPLY_TOPIC => {
                let status = serde_json::from_slice(value).ok();
                let status = status.map(|s| (record.topic.clone(), s));
                push(&mut self.statuses, status)
            }
            topics::ALERTS => push(&mut self.alerts, serde_json::from_slice(value).ok()),
            topics::DEAD_LETTER => {
                let letter = match LetterEntry::read(record) {
                    Ok(LetterEntry::Letter(letter)) => Some((letter.id, letter.cause)),
                    Ok(LetterEntry::Replayed(_) | LetterEntry::Dismissed(_)) | Err(_) => None,
                };
                push(&mut self.letters, letter)
            }
            _ => push(
                &mut self.requests,
                parse_request(value, record.timestamp_ms),
            ),
        };
        if !is_known {
            self.unreadable.push(place);
        }
    }

    fn event(&mut self, value: &[u8], at_ms: i64) -> bool {
        match serde_json::from_slice(value) {
            Ok(SchedulerMessage::Reply(reply)) => {
                self.replies.push(AgentReply {
                    id: AttemptId {
                        order: reply.order_id.to_string(),
                        step: reply.step.to_string(),
                        is_compensation: is_compensation(reply.direction),
                        attempt: reply.attempt.0,
                    },
                    complete_by: reply.complete_by,
                    said: match reply.outcome {
                        ReplyOutcome::Succeeded { output } => ReplyContent::Done(output),
                        ReplyOutcome::Failed { .. } => ReplyContent::Failed,
                        ReplyOutcome::Deferred { .. } | ReplyOutcome::InProgress(_) => {
                            ReplyContent::Deferred
                        }
                    },
                    at_ms,
                });
                true
            }
            Ok(
                SchedulerMessage::Accepted(_)
                | SchedulerMessage::Wake(_)
                | SchedulerMessage::ChildEnded(_)
                | SchedulerMessage::Child(_),
            ) => true,
            Err(_) => false,
        }
    }
}

fn parse_request(value: &[u8], at_ms: i64) -> Option<AgentRequest> {
    let request: StepRequest = serde_json::from_slice(value).ok()?;
    let mut content = DefaultHasher::new();
    value.hash(&mut content);
    Some(AgentRequest {
        id: AttemptId {
            order: request.order_id.to_string(),
            step: request.step.to_string(),
            is_compensation: is_compensation(request.direction),
            attempt: request.attempt.0,
        },
        complete_by: request.complete_by,
        allowance: request.allowance,
        content: content.finish(),
        at_ms,
    })
}

/// Adds an item if there is one; returns whether there was.
fn push<T>(all: &mut Vec<T>, found: Option<T>) -> bool {
    let is_some = found.is_some();
    all.extend(found);
    is_some
}
