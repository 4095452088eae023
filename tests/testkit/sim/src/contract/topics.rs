//! The contract of a state store that has the topics of statuses and alerts: it stores messages in the transaction of
//! their record.

use std::future::Future;
use std::sync::Arc;

use serde_json::{Value, json};
use triad_core::due::shard_of;
use triad_core::{Envelope, Order, OrderId, Timestamp, TraceContext, topics};
use triad_runtime::{Created, InputRecord, NewOrder, StateStore, Write, Written};

use super::orders::{claimed, create, id as named, load, new_order};

/// A topic that no store has.
const UNKNOWN: &str = "reply.nobody";
/// Most pages of the due index that are read.
const MAX_PAGES: usize = 10_000;

/// A store with topics, and a way to read these. It has the topics `status` and `alerts`.
pub trait StoreWithTopics: Sync {
    /// The store that is tested.
    type Store: StateStore;

    /// The store that is tested.
    fn store(&self) -> &Self::Store;

    /// All records of a topic. Those of one key come in their order.
    fn records(&self, topic: &str) -> impl Future<Output = Vec<InputRecord>> + Send;
}

/// Runs all functions of this contract. `prefix` must be valid in an id and new to this store.
///
/// # Panics
/// If the store behaves differently, a call fails, or `prefix` is not valid in an id.
pub async fn all<S: StoreWithTopics>(store: &S, prefix: &str) {
    stores_messages_with_a_new_order(store, prefix).await;
    stores_messages_with_a_write(store, prefix).await;
    stores_no_message_without_its_record(store, prefix).await;
    stores_the_record_alone_where_a_topic_takes_no_message(store, prefix).await;
    stores_each_write_of_a_batch_with_its_own(store, prefix).await;
}

/// Checks that the messages of a new order are in their topic once it is created, and are not stored with an order
/// that exists.
///
/// # Panics
/// As [`all`].
pub async fn stores_messages_with_a_new_order<S: StoreWithTopics>(at: &S, prefix: &str) {
    let id = named(prefix, "new");
    let (first, second) = (told(&id, topics::STATUS, 1), told(&id, topics::STATUS, 9));
    let new = |message: &Envelope| NewOrder {
        messages: vec![message.clone()],
        ..new_order(&id, 5_000, json!({}), "d")
    };
    let created = at.store().create(vec![new(&first)]).await;
    assert_eq!(created, [Ok(Created::WithMessages)]);
    let exists = Created::Exists { digest: "d".into() };
    let created = at.store().create(vec![new(&second)]).await;
    assert_eq!(created, [Ok(exists)]);
    assert_eq!(found(at, topics::STATUS, &id).await, forms(&[first]));
}

/// Checks that all messages of a write are in their topics, in their order, with key and headers, and that the same
/// write sent again stores neither record nor messages again.
///
/// # Panics
/// As [`all`].
pub async fn stores_messages_with_a_write<S: StoreWithTopics>(at: &S, prefix: &str) {
    let id = named(prefix, "written");
    let order = create(at.store(), &id, 5_000).await;
    let next = claimed(&order, "c", 2_000);
    let statuses = [1, 2, 3].map(|n| told(&id, topics::STATUS, n));
    let alert = told(&id, topics::ALERTS, 1);
    let mut messages = statuses.to_vec();
    messages.insert(1, alert.clone());
    let write = write(&order, &next, 1, messages);
    for expected in [Written::WithMessages, Written::Written] {
        let written = at.store().commit(vec![write.clone()]).await;
        assert_eq!(written, [Ok(expected)]);
        assert_eq!(load(at.store(), &id).await.as_ref(), Some(&next));
        assert_eq!(found(at, topics::STATUS, &id).await, forms(&statuses));
        let alerts = found(at, topics::ALERTS, &id).await;
        assert_eq!(alerts, forms(std::slice::from_ref(&alert)));
    }
}

/// Checks that a write that loses its race stores no message.
///
/// # Panics
/// As [`all`].
pub async fn stores_no_message_without_its_record<S: StoreWithTopics>(at: &S, prefix: &str) {
    let id = named(prefix, "raced");
    let order = create(at.store(), &id, 5_000).await;
    let next = claimed(&order, "c", 2_000);
    let stale = write(&next, &next, 1, vec![told(&id, topics::STATUS, 1)]);
    let written = at.store().commit(vec![stale]).await;
    assert_eq!(written, [Ok(Written::Conflict)]);
    assert_eq!(load(at.store(), &id).await, Some(order));
    assert_eq!(found(at, topics::STATUS, &id).await, []);
}

/// Checks that a record is stored without messages if one of them has no topic, and then with the due time for that
/// case.
///
/// # Panics
/// As [`all`].
pub async fn stores_the_record_alone_where_a_topic_takes_no_message<S: StoreWithTopics>(
    at: &S,
    prefix: &str,
) {
    let id = named(prefix, "alone");
    let other = named(prefix, "new-alone");
    let order = create(at.store(), &id, 5_000).await;
    let next = Order {
        due: None,
        ..claimed(&order, "c", 2_000)
    };
    let due = Timestamp(77_000);
    let messages = [topics::STATUS, UNKNOWN].map(|topic| told(&id, topic, 1));
    let write = Write {
        due_if_unsent: Some(due),
        ..write(&order, &next, 1, messages.to_vec())
    };
    let written = at.store().commit(vec![write]).await;
    assert_eq!(written, [Ok(Written::Written)]);
    let stored = load(at.store(), &id).await.expect("it is stored");
    assert_eq!((stored.version, stored.due), (next.version, Some(due)));
    assert!(is_due(at.store(), &id, due).await, "it is in the index");
    assert_eq!(found(at, topics::STATUS, &id).await, []);

    let new = NewOrder {
        messages: vec![told(&other, UNKNOWN, 1)],
        ..new_order(&named(prefix, "new-alone"), 5_000, json!({}), "d")
    };
    let created = at.store().create(vec![new]).await;
    assert_eq!(created, [Ok(Created::Created)]);
}

/// Checks that each write of a batch is stored with its own messages or not at all, whatever becomes of the others.
///
/// # Panics
/// As [`all`].
pub async fn stores_each_write_of_a_batch_with_its_own<S: StoreWithTopics>(at: &S, prefix: &str) {
    let mut writes = Vec::new();
    let mut ids = Vec::new();
    for name in ["first", "stale", "alone", "silent", "last"] {
        let id = named(prefix, &format!("batch-{name}"));
        let order = create(at.store(), &id, 5_000).await;
        let next = claimed(&order, "c", 2_000);
        let message = |topic| vec![told(&id, topic, 1)];
        writes.push(match name {
            "stale" => write(&next, &next, 1, message(topics::STATUS)),
            "alone" => write(&order, &next, 2, message(UNKNOWN)),
            "silent" => write(&order, &next, 3, Vec::new()),
            _ => write(&order, &next, 4, message(topics::STATUS)),
        });
        ids.push(id);
    }
    let written = at.store().commit(writes).await;
    let expected = [
        Written::WithMessages,
        Written::Conflict,
        Written::Written,
        Written::Written,
        Written::WithMessages,
    ];
    assert_eq!(written, expected.map(Ok));
    for (id, expected) in ids.iter().zip(expected) {
        let count = found(at, topics::STATUS, id).await.len();
        assert_eq!(count == 1, expected == Written::WithMessages, "{id}");
    }
}

fn told(id: &OrderId, topic: &str, n: u32) -> Envelope {
    let trace = TraceContext::of_order(id);
    let body: Value = json!({"order_id": id, "n": n});
    let message_id = format!("{id}/{n}");
    Envelope::event(
        topic.to_owned(),
        id.as_str(),
        "triad.contract",
        message_id,
        Some(trace),
        &body,
    )
}

fn write(before: &Order, next: &Order, token: u64, messages: Vec<Envelope>) -> Write {
    Write {
        messages,
        ..Write::silent(before.version, Arc::new(next.clone()), token)
    }
}

/// What is compared of a message: its value and its headers.
type Form = (Option<Vec<u8>>, Vec<(String, Option<Vec<u8>>)>);

fn forms(messages: &[Envelope]) -> Vec<Form> {
    messages
        .iter()
        .map(|m| (Some(m.value.clone()), m.copied_headers()))
        .collect()
}

/// The records of a topic with this order's id as their key.
async fn found<S: StoreWithTopics>(at: &S, topic: &str, id: &OrderId) -> Vec<Form> {
    let records = at.records(topic).await.into_iter();
    records
        .filter(|record| record.key.as_deref() == Some(id.as_str().as_bytes()))
        .map(|record| (record.value, record.headers))
        .collect()
}

/// Whether the due index names the order.
async fn is_due<S: StateStore>(store: &S, id: &OrderId, until: Timestamp) -> bool {
    let shard = shard_of(id);
    let mut page = None;
    for _ in 0..MAX_PAGES {
        let found = store.due(shard, until, 100, page).await;
        let found = found.expect("the store works");
        if found.rows.iter().any(|row| row.order == *id) {
            return true;
        }
        page = found.next;
        if page.is_none() {
            return false;
        }
    }
    panic!("the due index has no end");
}
