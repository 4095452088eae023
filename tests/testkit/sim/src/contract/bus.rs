//! The contract of a bus with consumer groups. Every implementation is tested with it.
//!
//! Each function checks one behaviour and panics if the bus does not have it. `topic` must have [`PARTITIONS`]
//! partitions, and nothing else may use it. [`all`] runs all functions.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use triad_core::Envelope;
use triad_runtime::{Bus, InputRecord};

/// Number of partitions of each topic of the contract.
pub const PARTITIONS: usize = 3;

/// Names of the topics that [`all`] uses, one for each behaviour.
pub const TOPICS: [&str; 5] = [
    "contract.whole",
    "contract.ordered",
    "contract.again",
    "contract.left",
    "contract.died",
];

/// What a reader does with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The reader acknowledges the record and continues.
    Done,
    /// The reader does not acknowledge the record, which must be delivered again.
    Redeliver,
    /// The reader acknowledges the record and leaves the group, as a stopping process does.
    Leave,
    /// The reader dies without acknowledging the record.
    Die,
}

/// The function that decides what the reader does with each delivered record.
pub type Answers = Arc<Mutex<dyn FnMut(&InputRecord) -> Next + Send>>;

/// What the reader does with this record.
pub fn answer(answers: &Answers, record: &InputRecord) -> Next {
    (answers.lock().unwrap_or_else(PoisonError::into_inner))(record)
}

/// A bus to be tested, and the consumer loop that reads it.
pub trait BusUnderTest: Send + Sync {
    /// The type through which handlers send.
    type Bus: Bus;

    /// The bus through which handlers send.
    fn bus(&self) -> &Self::Bus;

    /// Creates a topic of [`PARTITIONS`] partitions, without records.
    fn create(&self, topic: &str) -> impl Future<Output = ()> + Send;

    /// Reads a topic as the only member of its consumer group, until `answers` says [`Next::Leave`]
    /// or [`Next::Die`].
    fn read(&self, topic: &str, answers: Answers) -> impl Future<Output = ()> + Send;
}

fn message(topic: &str, key: &str, value: &str) -> Envelope {
    Envelope {
        topic: topic.to_owned(),
        key: Some(key.as_bytes().to_vec()),
        value: value.as_bytes().to_vec(),
        headers: Vec::new(),
        trace: None,
    }
}

async fn send<T: BusUnderTest>(bus: &T, messages: Vec<Envelope>) {
    let count = messages.len();
    let answers = bus.bus().publish(messages).await;
    assert_eq!(answers.len(), count, "an answer for each message");
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

/// Reads until `enough` is true of the deliveries; until then `decide` says what to do with each record. Returns all
/// deliveries.
async fn read<T: BusUnderTest>(
    bus: &T,
    topic: &str,
    mut decide: impl FnMut(&[InputRecord]) -> Next + Send + 'static,
) -> Vec<InputRecord> {
    let seen = Arc::new(Mutex::new(Vec::<InputRecord>::new()));
    let into = seen.clone();
    let answers: Answers = Arc::new(Mutex::new(move |record: &InputRecord| {
        let mut seen = into.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push(record.clone());
        decide(&seen)
    }));
    bus.read(topic, answers).await;
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.clone()
}

/// Acknowledges everything up to the `count`th delivery, and then leaves.
fn until(count: usize) -> impl FnMut(&[InputRecord]) -> Next + Send + 'static {
    move |seen| {
        if seen.len() < count {
            Next::Done
        } else {
            Next::Leave
        }
    }
}

fn values(records: &[InputRecord]) -> Vec<String> {
    let text = |r: &InputRecord| {
        String::from_utf8_lossy(r.value.as_deref().unwrap_or_default()).into_owned()
    };
    records.iter().map(text).collect()
}

fn numbered(topic: &str, keys: usize, count: usize) -> Vec<Envelope> {
    let one = |n: usize| message(topic, &format!("key-{}", n % keys), &n.to_string());
    (0..count).map(one).collect()
}

/// Checks that a record has the key, value and headers that were sent: arbitrary bytes, and headers in order, some of
/// them null.
///
/// # Panics If the bus behaves differently, or a message cannot be sent.
pub async fn brings_what_was_sent<T: BusUnderTest>(bus: &T, topic: &str) {
    let sent = Envelope {
        topic: topic.to_owned(),
        key: Some(vec![0, 0xff, b'k']),
        value: vec![0xfe, 0, b'{'],
        headers: vec![
            ("a".to_owned(), Some(vec![0xff])),
            ("b".to_owned(), None),
            ("a".to_owned(), Some(Vec::new())),
        ],
        trace: None,
    };
    send(bus, vec![sent.clone()]).await;
    let read = read(bus, topic, until(1)).await;
    assert_eq!(read[0].topic, topic);
    assert_eq!(read[0].key, sent.key);
    assert_eq!(read[0].value.as_ref(), Some(&sent.value));
    assert_eq!(read[0].headers, sent.headers);
}

/// Checks that messages of one key are in one partition, in the order in which they were sent, whether by one
/// `publish` or by several.
///
/// # Panics
/// If the bus behaves differently, or a message cannot be sent.
pub async fn keeps_the_order_of_a_key<T: BusUnderTest>(bus: &T, topic: &str) {
    let all = numbered(topic, 7, 200);
    let (first, rest) = all.split_at(120);
    send(bus, first.to_vec()).await;
    for piece in rest.chunks(8) {
        send(bus, piece.to_vec()).await;
    }
    let read = read(bus, topic, until(200)).await;
    let mut by_key: BTreeMap<Vec<u8>, Vec<&InputRecord>> = BTreeMap::new();
    for record in &read {
        by_key
            .entry(record.key.clone().unwrap_or_default())
            .or_default()
            .push(record);
    }
    assert_eq!(by_key.len(), 7);
    for (key, records) in by_key {
        let partitions: BTreeSet<i32> = records.iter().map(|r| r.partition).collect();
        assert_eq!(partitions.len(), 1, "{key:?} is in {partitions:?}");
        let numbers: Vec<usize> = values(&records.into_iter().cloned().collect::<Vec<_>>())
            .iter()
            .map(|v| v.parse().expect("a number"))
            .collect();
        assert!(numbers.is_sorted(), "{key:?}: {numbers:?}");
    }
    let distinct: BTreeSet<String> = values(&read).into_iter().collect();
    assert_eq!(distinct.len(), 200);
}

/// Checks that a record that is not acknowledged is delivered again, and that later records of its partition are not
/// acknowledged in its place: in the end every record was delivered.
///
/// # Panics
/// If the bus behaves differently, or a message cannot be sent.
pub async fn brings_again_what_is_not_done<T: BusUnderTest>(bus: &T, topic: &str) {
    send(bus, numbered(topic, 1, 12)).await;
    let mut left = 3;
    let read = read(bus, topic, move |seen| {
        let last = seen.last().and_then(|r| r.value.as_deref());
        let refused = last == Some(b"4") && left > 0;
        if refused {
            left -= 1;
            return Next::Redeliver;
        }
        let has = |v: &[u8]| {
            seen.iter()
                .filter(|r| r.value.as_deref() == Some(v))
                .count()
        };
        if has(b"4") == 4 && has(b"11") > 0 {
            Next::Leave
        } else {
            Next::Done
        }
    })
    .await;
    let values = values(&read);
    assert_eq!(values.iter().filter(|v| *v == "4").count(), 4, "{values:?}");
    let all: BTreeSet<&String> = values.iter().collect();
    assert_eq!(all.len(), 12, "{values:?}");
}

/// Checks that after a reader has left, the next one begins after the last acknowledged record and misses none.
///
/// # Panics
/// If the bus behaves differently, or a message cannot be sent.
pub async fn goes_on_behind_what_was_done<T: BusUnderTest>(bus: &T, topic: &str) {
    send(bus, numbered(topic, 1, 10)).await;
    let first = read(bus, topic, until(10)).await;
    send(bus, numbered(topic, 1, 15).split_off(10)).await;
    let second = read(bus, topic, until(5)).await;
    assert_eq!(values(&first).len(), 10);
    assert_eq!(values(&second), ["10", "11", "12", "13", "14"]);
}

/// Checks that after a reader has died, the next one gets the record that it had in hand and every later one.
///
/// # Panics
/// If the bus behaves differently, or a message cannot be sent.
pub async fn loses_nothing_with_a_reader<T: BusUnderTest>(bus: &T, topic: &str) {
    send(bus, numbered(topic, 1, 20)).await;
    let die = |seen: &[InputRecord]| {
        if seen.len() < 8 {
            Next::Done
        } else {
            Next::Die
        }
    };
    let first = read(bus, topic, die).await;
    assert_eq!(values(&first).last().map(String::as_str), Some("7"));
    let second = read(bus, topic, |seen: &[InputRecord]| {
        let last = seen.last().and_then(|r| r.value.as_deref());
        if last == Some(b"19") {
            Next::Leave
        } else {
            Next::Done
        }
    })
    .await;
    let again: BTreeSet<String> = values(&second).into_iter().collect();
    let wanted: BTreeSet<String> = (7..20).map(|n| n.to_string()).collect();
    assert!(again.is_superset(&wanted), "{again:?}");
    assert!(
        values(&second)
            .iter()
            .map(|v| v.parse::<u32>().expect("a number"))
            .is_sorted()
    );
}

/// Creates [`TOPICS`] and runs every function of this contract, each on its own topic.
///
/// # Panics
/// If one of these functions panics.
pub async fn all<T: BusUnderTest>(bus: &T) {
    for topic in TOPICS {
        bus.create(topic).await;
    }
    brings_what_was_sent(bus, TOPICS[0]).await;
    keeps_the_order_of_a_key(bus, TOPICS[1]).await;
    brings_again_what_is_not_done(bus, TOPICS[2]).await;
    goes_on_behind_what_was_done(bus, TOPICS[3]).await;
    loses_nothing_with_a_reader(bus, TOPICS[4]).await;
}
