//! Bad records between good orders, and what is expected of each.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use triad_core::message::{SchedulerMessage, StepRequest};
use triad_core::submission::Submission;
use triad_runtime::InputRecord;

use super::records;
use crate::orders::orders;
use crate::topics::{Place, Raw, header, write};

/// Topics with bad records.
pub const TOPICS: [&str; 3] = ["orders", "scheduler", "agent.payment"];

/// Whether a value is valid for its topic.
pub fn is_fit(topic: &str, value: Option<&[u8]>) -> bool {
    match topic {
        "orders" => Submission::decode(value)
            .is_ok_and(|s| s.reply_topic.is_none() && s.workflow.as_str() == "order-fulfilment"),
        "scheduler" => value.is_some_and(|v| serde_json::from_slice::<SchedulerMessage>(v).is_ok()),
        _ => value.is_some_and(|v| serde_json::from_slice::<StepRequest>(v).is_ok()),
    }
}

/// The records that were written, by position.
pub struct Mixture {
    /// Ids of the good orders.
    pub good: Vec<String>,
    /// The invalid records.
    bad: BTreeMap<Place, Raw>,
    /// Damaged records that are still valid, with the order that each names.
    survived: BTreeMap<Place, Option<String>>,
}

impl Mixture {
    /// Writes at least `bad` invalid records, with `good` orders between them.
    ///
    /// # Panics
    /// If the broker refuses a record.
    pub async fn write(brokers: &str, bad: usize, good: usize) -> Self {
        let each = bad.div_ceil(TOPICS.len());
        let mut lists: Vec<_> = TOPICS
            .iter()
            .map(|t| records(t, each).into_iter())
            .collect();
        let total: usize = lists.iter().map(ExactSizeIterator::len).sum();
        let submitted = orders("good", good);
        let mut waiting = submitted.iter();
        let mut all = Vec::with_capacity(total + good);
        // Takes from each list in turn, so that good orders lie between bad records of every kind.
        while lists.iter().any(|l| l.len() > 0) {
            for list in &mut lists {
                if all.len() % (total / good) == 0
                    && let Some(order) = waiting.next()
                {
                    all.push(Raw {
                        topic: "orders".to_owned(),
                        value: Some(order.to_string().into_bytes()),
                        ..Raw::default()
                    });
                }
                all.extend(list.next());
            }
        }
        assert!(waiting.next().is_none());
        let good: Vec<String> = submitted.iter().map(id_of).collect();
        let mut mixture = Self {
            good,
            bad: BTreeMap::new(),
            survived: BTreeMap::new(),
        };
        // In parts that fit into a producer's queue.
        for piece in all.chunks(10_000) {
            for (place, raw) in write(brokers, piece).await.into_iter().zip(piece) {
                mixture.note(place, raw);
            }
        }
        mixture
    }

    fn note(&mut self, place: Place, raw: &Raw) {
        if !is_fit(&raw.topic, raw.value.as_deref()) {
            self.bad.insert(place, raw.clone());
            return;
        }
        let order = raw.value.as_deref().map(|v| {
            let value: Value = serde_json::from_slice(v).expect("it is fit");
            id_of(&value)
        });
        if !order.as_ref().is_some_and(|id| self.good.contains(id)) {
            let submitted = order.filter(|_| raw.topic == "orders");
            self.survived.insert(place, submitted);
        }
    }

    /// Number of invalid records.
    pub fn unfit(&self) -> usize {
        self.bad.len()
    }

    /// Damaged submissions that are still valid, and are neither among `stored` nor have a letter.
    pub fn lost(&self, letters: &[InputRecord], stored: &BTreeSet<String>) -> Vec<&str> {
        let lettered: BTreeSet<Place> = letters.iter().map(origin).collect();
        let survived = self.survived.iter();
        let submitted = survived.filter_map(|(place, order)| Some((place, order.as_deref()?)));
        let lost =
            submitted.filter(|(place, id)| !stored.contains(*id) && !lettered.contains(place));
        lost.map(|(_, id)| id).collect()
    }

    /// Compares dead letters and alerts with the records written. Each invalid record has exactly one letter, with
    /// its unchanged content and a cause; the only others are of damaged records that are valid for their topic. Each
    /// letter has exactly one alert. Each damaged submission that is still valid and has no letter is among `stored`.
    ///
    /// # Panics
    /// If a letter is missing, duplicated, changed or without a cause, or if a topic had no invalid record.
    pub fn assert_letters(
        &self,
        letters: &[InputRecord],
        alerts: &[InputRecord],
        stored: &BTreeSet<String>,
    ) {
        let unfit: BTreeSet<&str> = self.bad.keys().map(|(topic, ..)| topic.as_str()).collect();
        assert_eq!(unfit, BTreeSet::from(TOPICS), "topics with unfit records");
        let lettered: BTreeSet<Place> = letters.iter().map(origin).collect();
        assert_eq!(letters.len(), lettered.len(), "some are there twice");
        let missing: Vec<_> = self.bad.keys().filter(|p| !lettered.contains(p)).collect();
        assert!(missing.is_empty(), "without a dead letter: {missing:?}");
        for letter in letters {
            let place = origin(letter);
            assert!(!first(letter, "triad-cause").is_empty(), "{letter:?}");
            let message = first(letter, "triad-cause-message");
            assert!(!message.is_empty(), "{letter:?}");
            match self.bad.get(&place) {
                Some(raw) => assert_kept(letter, raw),
                None => assert!(self.survived.contains_key(&place), "surplus: {letter:?}"),
            }
        }
        let lost = self.lost(letters, stored);
        assert!(lost.is_empty(), "lost: {lost:?}");
        let told: Vec<String> = alerts.iter().filter_map(alert_id).collect();
        let alerted: BTreeSet<String> = told.iter().cloned().collect();
        assert_eq!(told.len(), alerted.len(), "some alerts are there twice");
        let name = |(topic, partition, offset): &Place| {
            format!("dead-letter/{topic}/{partition}/{offset}")
        };
        let expected: BTreeSet<String> = lettered.iter().map(name).collect();
        assert_eq!(alerted, expected);
    }
}

/// Number of dead letters by cause.
pub fn kind_counts(letters: &[InputRecord]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for letter in letters {
        *counts
            .entry(first(letter, "triad-cause").to_owned())
            .or_default() += 1;
    }
    counts
}

fn id_of(order: &Value) -> String {
    order["order_id"].as_str().unwrap_or_default().to_owned()
}

/// The value of a header. Triad writes its own headers first, so the first one with this name counts; a bad record
/// may contain another.
fn first<'a>(letter: &'a InputRecord, name: &str) -> &'a str {
    header(letter, name).unwrap_or_default()
}

fn origin(letter: &InputRecord) -> Place {
    let number = |name| first(letter, name).parse::<i64>().expect(name);
    (
        first(letter, "triad-topic").to_owned(),
        i32::try_from(number("triad-partition")).expect("a partition"),
        number("triad-offset"),
    )
}

fn alert_id(record: &InputRecord) -> Option<String> {
    let alert: Value = serde_json::from_slice(record.value.as_ref()?).expect("an alert is JSON");
    let id = alert["alert_id"].as_str().expect("an alert has an id");
    (alert["kind"] == "dead-letter").then(|| id.to_owned())
}

/// Checks that the letter has the key and the value as written; a value beyond the limit is cut.
fn assert_kept(letter: &InputRecord, raw: &Raw) {
    assert_eq!(letter.key, raw.key);
    let value = raw.value.as_deref().unwrap_or_default();
    let kept = letter.value.as_deref().unwrap_or_default();
    let bound = triad_runtime::dead_letter::MAX_VALUE_BYTES;
    assert_eq!(kept, &value[..value.len().min(bound)]);
    let tombstone = first(letter, "triad-tombstone") == "true";
    assert_eq!(tombstone, raw.value.is_none());
    let is_cut = !first(letter, "triad-truncated-from").is_empty();
    assert_eq!(is_cut, value.len() > bound);
}
