//! Runs one mapping: reads its topic in a consumer group, invokes its function with one batch after the other, and
//! commits only records that are done or given up.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use triad_core::agent::backoff;
use triad_kafka::{KafkaConfig, KafkaError, Member, Polled};
use triad_runtime::system::{SystemClock, SystemEntropy};
use triad_runtime::{Clock, Entropy, InputRecord};
use triad_workflow::Millis;

use crate::event::{MAX_PAYLOAD, event, weight};
use crate::settings::Settings;
use crate::verdict::{Verdict, verdict};
use crate::work::{GivenUp, Resolved, Work};

/// Result of one invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invoked {
    /// The function answered, with these bytes.
    Answer(Vec<u8>),
    /// A function error, a time-out, or a missing function: the whole batch has failed. The text gives the reason.
    Failed(String),
    /// Lambda throttled the call or cannot be reached: the same invocation is repeated, and no failure is counted.
    /// The text gives the reason.
    Later(String),
    /// The payload exceeds Lambda's limit. No failure is counted.
    TooLarge,
}

/// Invokes the function of a mapping.
pub trait Invoke: Send + Sync {
    /// Invokes the function with an event (JSON text) and waits for its answer.
    fn invoke(&self, event: String) -> impl Future<Output = Invoked> + Send;
}

/// The mapping's failure destination, which stores records that were given up.
pub trait Keep: Send + Sync {
    /// Stores records that were given up.
    ///
    /// # Errors
    /// The reason for which they are not stored. The caller repeats the call until they are.
    fn keep(&self, given_up: &GivenUp) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// A running mapping: reads a topic, invokes a function and commits.
pub struct Poller {
    member: Member,
    settings: Settings,
    /// A record that was read and did not fit into its batch.
    left_over: Option<InputRecord>,
}

impl Poller {
    /// Joins the mapping's consumer group. No request to a broker is made yet.
    ///
    /// # Errors
    /// [`KafkaError::Settings`] if librdkafka refuses the settings, [`KafkaError::Refused`] if it refuses the
    /// topic's name.
    pub fn join(
        kafka: &KafkaConfig,
        group: &str,
        topic: &str,
        settings: Settings,
    ) -> Result<Self, KafkaError> {
        Ok(Self {
            member: Member::join(kafka, group, topic)?,
            settings,
            left_over: None,
        })
    }

    /// Handles batch after batch until `stop`. The current batch is then dropped, and its uncommitted records are
    /// delivered to the next member of the group.
    pub async fn run(mut self, function: &impl Invoke, sink: &impl Keep, stop: &CancellationToken) {
        let work = async {
            loop {
                self.turn(function, sink).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = work => {}
        }
    }

    /// Collects a batch for at most [`Settings::window`], and invokes the function until every record of it is done
    /// or given up. Returns the number of records in the batch; 0 if none came.
    pub async fn turn(&mut self, function: &impl Invoke, sink: &impl Keep) -> usize {
        let batch = self.batch().await;
        let records = batch.len();
        if records > 0 {
            handle(batch, &self.settings, function, sink, |record| {
                self.member.commit_through(record);
            })
            .await;
        }
        records
    }

    async fn batch(&mut self) -> Vec<InputRecord> {
        let ends = Instant::now() + self.settings.window;
        let mut batch: Vec<InputRecord> = self.left_over.take().into_iter().collect();
        // `room` is what the payload's limit leaves, with a reserve for the event's other fields.
        let mut room = (MAX_PAYLOAD - 4096).saturating_sub(batch.iter().map(weight).sum());
        while batch.len() < self.settings.batch_size {
            let left = ends.saturating_duration_since(Instant::now());
            // At least 1 ms, so that available records are taken even after the window has ended.
            let Polled::Record(record) = self.member.next(left.max(Duration::from_millis(1))).await
            else {
                if left.is_zero() {
                    break;
                }
                continue;
            };
            let weight = weight(&record);
            if weight > room && !batch.is_empty() {
                self.left_over = Some(record);
                break;
            }
            room = room.saturating_sub(weight);
            batch.push(record);
        }
        batch
    }
}

/// Invokes the function until every record of a batch is done, or given up and stored; then calls `resolved` for each
/// such record. It does not end if [`Settings::retries`] is `None` and the function always fails, while the function
/// cannot be reached, or while `sink` does not store given-up records.
pub async fn handle(
    batch: Vec<InputRecord>,
    settings: &Settings,
    function: &impl Invoke,
    sink: &impl Keep,
    resolved: impl Fn(&InputRecord),
) {
    let mut work = Work::new(batch, settings);
    let mut waits = 0;
    while let Some(records) = work.next() {
        let (again, outcome) = match function.invoke(event(records)).await {
            Invoked::Later(why) => {
                tracing::warn!(why, "invoked again later");
                (true, Resolved::default())
            }
            Invoked::TooLarge => (false, work.too_large()),
            Invoked::Answer(answer) => {
                let verdict = verdict(settings.partial, records, &answer);
                let outcome = work.resolve(verdict, SystemClock.now());
                (outcome.again, outcome)
            }
            Invoked::Failed(why) => {
                tracing::warn!(why, records = records.len(), "a batch failed");
                let outcome = work.resolve(Verdict::Failure(why), SystemClock.now());
                (outcome.again, outcome)
            }
        };
        if let Some(given_up) = &outcome.given_up {
            keep(sink, given_up, settings).await;
        }
        let given_up = outcome.given_up.iter().flat_map(|g| &g.records);
        for record in outcome.done.iter().chain(given_up) {
            resolved(record);
        }
        waits = if again { waits + 1 } else { 0 };
        if again {
            pause(waits, settings).await;
        }
    }
}

/// Repeats the storing until it succeeds. No offset beyond unstored records is committed, so an unavailable
/// destination blocks its partition.
async fn keep(sink: &impl Keep, given_up: &GivenUp, settings: &Settings) {
    let mut tries = 0;
    while let Err(why) = sink.keep(given_up).await {
        tries += 1;
        tracing::error!(
            why = format!("{why:#}"),
            "given-up records could not be kept"
        );
        pause(tries, settings).await;
    }
}

async fn pause(tries: u32, settings: &Settings) {
    let bounds = |span: Duration| Millis(span.as_millis() as u64);
    let (first, longest) = settings.backoff;
    let wait = backoff(
        tries,
        bounds(first),
        bounds(longest),
        SystemEntropy.next_u64(),
    );
    tokio::time::sleep(wait.as_duration()).await;
}
