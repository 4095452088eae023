//! An event source mapping: reads topics, builds the event that Lambda documents, invokes the function, and
//! redelivers the records in `batchItemFailures`.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use triad_kafka::{Polled, Reader};
use triad_runtime::InputRecord;

use crate::runtime_api::{Answer, Function, InvokeError, RuntimeApi};
use crate::topics;

/// Most records of one invocation.
const BATCH: usize = 100;
/// Time limit of one invocation.
pub const INVOCATION: Duration = Duration::from_secs(60);

/// A function, and the mapping that invokes it.
pub struct EventSource {
    api: RuntimeApi,
    _function: Function,
    reader: Reader,
    /// Records that wait for an invocation, by topic and partition.
    waiting: BTreeMap<(String, i32), Vec<InputRecord>>,
}

impl EventSource {
    /// Starts a function and opens its topics at their beginning.
    ///
    /// # Panics
    /// If the function cannot be started or the broker does not answer.
    pub fn start(
        binary: &Path,
        variables: &[(&'static str, String)],
        brokers: &str,
        read: &[&str],
    ) -> Self {
        let (api, function) = start_function(binary, variables);
        Self {
            api,
            _function: function,
            reader: topics::open(brokers, read),
            waiting: BTreeMap::new(),
        }
    }

    /// Takes the available records and, if there are any, invokes the function once. Returns how many records are
    /// done; `None` if there were none.
    ///
    /// # Panics
    /// If the function fails as a whole, or gives an invalid answer.
    pub async fn turn(&mut self) -> Option<usize> {
        let mut wait = Duration::from_millis(20);
        while self.waiting.values().map(Vec::len).sum::<usize>() < BATCH {
            let Polled::Record(record) = self.reader.next(wait).await else {
                break;
            };
            wait = Duration::ZERO;
            let partition = (record.topic.clone(), record.partition);
            self.waiting.entry(partition).or_default().push(record);
        }
        let batch: Vec<&InputRecord> = self.waiting.values().flatten().collect();
        if batch.is_empty() {
            return None;
        }
        let answer = self.api.invoke(event(&batch), INVOCATION).await;
        let failed = failures(&answer.expect("the function answers"));
        let before = batch.len();
        for ((topic, partition), records) in &mut self.waiting {
            let first = failed.get(&format!("{topic}-{partition}"));
            records.retain(|r| first.is_some_and(|first| r.offset >= *first));
        }
        self.waiting.retain(|_, records| !records.is_empty());
        let left: usize = self.waiting.values().map(Vec::len).sum();
        Some(before - left)
    }
}

/// Starts a function under a Runtime API.
///
/// # Panics
/// If it cannot be started.
pub fn start_function(
    binary: &Path,
    variables: &[(&'static str, String)],
) -> (RuntimeApi, Function) {
    let api = RuntimeApi::start();
    let pairs = variables.iter().map(|(n, v)| (*n, v.as_str()));
    let function = api.spawn(binary, pairs).expect("the function starts");
    (api, function)
}

/// Invokes the Supervisor's function once, as its schedule does; returns the sweep's report.
///
/// # Panics
/// If it does not answer.
pub async fn sweep(api: &RuntimeApi) -> Value {
    let event = json!({"detail-type": "Scheduled Event", "source": "aws.scheduler"});
    let answer = api.invoke(event.to_string(), INVOCATION).await;
    answer.expect("the Supervisor answers").json()
}

/// Invokes a function once with records.
///
/// # Errors
/// [`InvokeError`] when it does not answer.
pub async fn invoke(api: &RuntimeApi, records: &[InputRecord]) -> Result<Answer, InvokeError> {
    let all: Vec<&InputRecord> = records.iter().collect();
    api.invoke(event(&all), INVOCATION).await
}

/// The first failed offset of each `topic-partition` in an answer.
///
/// # Panics
/// If the answer does not have the documented form.
pub fn failures(answer: &Answer) -> HashMap<String, i64> {
    let json = answer.json();
    let items = json["batchItemFailures"].as_array();
    let mut first = HashMap::new();
    for item in items.expect("an answer has batchItemFailures") {
        let id = &item["itemIdentifier"];
        let partition = id["partition"].as_str().expect("a partition").to_owned();
        let offset = id["offset"].as_i64().expect("an offset");
        let earliest = first.entry(partition).or_insert(offset);
        *earliest = offset.min(*earliest);
    }
    first
}

/// The event of a batch, in the documented form.
pub fn event(records: &[&InputRecord]) -> String {
    let records: Vec<InputRecord> = records.iter().map(|r| (*r).clone()).collect();
    triad_mapping_emulator::event(&records)
}
