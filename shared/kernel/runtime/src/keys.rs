//! The keys that events name in place of their orders.
//!
//! A key has a record in the control store. It names the order of the step that waits for the event; it is written
//! before the order's own record says that the step waits. Until then it keeps the events that come too early, and who
//! registers the key sends them to the order.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use triad_core::received::{KeyedEvent, MAX_KEPT};
use triad_core::{Envelope, OrderId, Timestamp};
use triad_workflow::Millis;

use crate::control::{ControlRecord, ControlStore, ControlWrite};
use crate::dead_letter::replay::{self, ReplayAct};
use crate::handled::Redelivery;
use crate::ports::{Bus, BusError, Entropy, StoreError, Written};

/// How long a key leads to its order after the step's wait has ended at the latest, and how long an event is kept that
/// no order waits for yet: 7 days.
pub const KEPT_FOR: Millis = Millis(7 * 24 * 3_600_000);
/// Most tries to write a record that others write, too.
const MAX_TRIES: usize = 8;

/// The content of a key's record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum KeyRecord {
    /// A step of this order waits, or has waited, for the event.
    Order(OrderId),
    /// No order does yet. Events that came, the oldest first, at most [`MAX_KEPT`].
    Early(Vec<EarlyEvent>),
}

/// An event that came before an order waited for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EarlyEvent {
    /// The event.
    #[serde(flatten)]
    pub event: KeyedEvent,
    /// The id of its dead letter.
    pub letter: String,
}

/// What became of an event that names a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It is about this order.
    Order(OrderId),
    /// No order waits for it: it is kept until one does, for [`KEPT_FOR`].
    Kept,
    /// No order waits for it, and as many others are kept as may be.
    TooMany,
}

fn record_key(event: &str, key: &str) -> String {
    format!("awaited/{event}/{key}")
}

/// The order that waits, or has waited, for the event of this name under this key; `None` if none has.
///
/// # Errors
/// [`StoreError`] if the store cannot be read.
pub async fn order_of<S: ControlStore>(
    store: &S,
    event: &str,
    key: &str,
) -> Result<Option<OrderId>, StoreError> {
    let found = store.read(record_key(event, key), true).await?;
    Ok(match found.map(content) {
        Some(KeyRecord::Order(order)) => Some(order),
        Some(KeyRecord::Early(_)) | None => None,
    })
}

/// Finds the order that an event is about, or keeps the event. An event of the same id is kept once.
///
/// # Errors
/// [`StoreError`] if the store failed, or others wrote the record each time: try again later.
pub(crate) async fn find<S: ControlStore>(
    store: &S,
    entropy: &impl Entropy,
    early: &EarlyEvent,
    now: Timestamp,
) -> Result<Found, StoreError> {
    let key = record_key(&early.event.event, &early.event.key);
    for _ in 0..MAX_TRIES {
        let read = store.read(key.clone(), true).await?;
        let expected = read.as_ref().map(|read| read.version);
        let mut kept = match read.map(content) {
            Some(KeyRecord::Order(order)) => return Ok(Found::Order(order)),
            Some(KeyRecord::Early(kept)) => kept,
            None => Vec::new(),
        };
        if kept.iter().any(|known| known.event.id == early.event.id) {
            return Ok(Found::Kept);
        }
        if kept.len() >= MAX_KEPT {
            return Ok(Found::TooMany);
        }
        kept.push(early.clone());
        let write = ControlWrite {
            key: key.clone(),
            value: value(&KeyRecord::Early(kept))?,
            expected,
            expires: Some(now.plus(KEPT_FOR)),
            token: entropy.next_u64(),
        };
        if store.write(write).await? == Written::Written {
            return Ok(Found::Kept);
        }
    }
    Err(contended(&key))
}

/// Has a key lead to an order, until [`KEPT_FOR`] after `until`, and sends the events that were kept for it to the order.
/// A key that led to another order leads to this one.
///
/// # Errors
/// [`Redelivery`] if the store or the bus failed, or others wrote the record each time: try again later.
pub(crate) async fn register<S: ControlStore, B: Bus>(
    (store, bus, entropy): (&S, &B, &impl Entropy),
    (event, key): (&str, &str),
    order: &OrderId,
    until: Timestamp,
    now: Timestamp,
) -> Result<(), Redelivery> {
    let name = record_key(event, key);
    let mut expected = None;
    for _ in 0..MAX_TRIES {
        let write = ControlWrite {
            key: name.clone(),
            value: value(&KeyRecord::Order(order.clone()))?,
            expected,
            expires: Some(until.plus(KEPT_FOR)),
            token: entropy.next_u64(),
        };
        // Most keys are new, so that nothing has to be read.
        if store.write(write).await? == Written::Written {
            return Ok(());
        }
        let read = store.read(name.clone(), true).await?;
        expected = read.as_ref().map(|read| read.version);
        match read.map(content) {
            Some(KeyRecord::Order(known)) if known == *order => return Ok(()),
            Some(KeyRecord::Order(other)) => {
                tracing::warn!(event, key, %order, %other, "two orders wait for an event under one key: it is of the later one");
            }
            Some(KeyRecord::Early(kept)) => send(bus, kept, order, now).await?,
            None => {}
        }
    }
    Err(contended(&name).into())
}

/// Sends events that were kept to their order, and then the markers that their dead letters were replayed.
async fn send<B: Bus>(
    bus: &B,
    kept: Vec<EarlyEvent>,
    order: &OrderId,
    now: Timestamp,
) -> Result<(), BusError> {
    let act = ReplayAct::new("triad", &format!("order {order} waits for it"), now);
    let markers: Vec<Envelope> = match act {
        Ok(act) => kept
            .iter()
            .filter_map(|early| Some(replay::marker(&early.letter.parse().ok()?, &act, None)))
            .collect(),
        Err(_) => Vec::new(),
    };
    let events = kept.into_iter();
    let events = events.map(|early| early.event.about(order.clone()).message());
    for messages in [events.collect(), markers] {
        bus.publish(messages)
            .await
            .into_iter()
            .collect::<Result<Vec<()>, _>>()?;
    }
    Ok(())
}

/// The content of a record. One that cannot be read counts as an empty one, and is replaced.
fn content(record: ControlRecord) -> KeyRecord {
    serde_json::from_value(record.value).unwrap_or_else(|_| KeyRecord::Early(Vec::new()))
}

fn value(record: &KeyRecord) -> Result<Value, StoreError> {
    serde_json::to_value(record).map_err(|e| StoreError::Item(e.to_string()))
}

fn contended(key: &str) -> StoreError {
    StoreError::Transient(format!("others write {key} at the same time"))
}
