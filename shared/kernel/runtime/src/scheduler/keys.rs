//! Events that name a key: finding their order, and registering the keys of steps that begin to wait.

use std::sync::Arc;

use futures::future::join_all;
use triad_core::pass::Task;
use triad_core::received::{Incoming, KeyedEvent};
use triad_core::{Order, OrderId, Timestamp, Work as StepWork};

use super::{Batch, Decoded, Input, ReadMessage, Scheduler, Work, work};
use crate::control::ControlStore;
use crate::dead_letter::{Cause, LetterId};
use crate::decode::NoMessage;
use crate::handled::Redelivery;
use crate::keys::{self, EarlyEvent, Found};
use crate::ports::{Bus, Clock, DefinitionStore, Entropy, StateStore, StoreError};

impl<S, B, C, E> Scheduler<S, B, C, E>
where
    S: StateStore + DefinitionStore + ControlStore + Clone,
    B: Bus,
    C: Clock,
    E: Entropy,
{
    /// The orders to which the keys of these events lead, in the order of the events, all read at once.
    pub(super) async fn orders_of_keys(
        &self,
        decoded: &[Result<Decoded, NoMessage>],
    ) -> Vec<Result<Option<OrderId>, StoreError>> {
        let keyed = decoded.iter().filter_map(|decoded| match decoded {
            Ok(Decoded::Keyed(event)) => Some(event),
            Ok(Decoded::Work(_)) | Err(_) => None,
        });
        join_all(keyed.map(|event| keys::order_of(&self.store, &event.event, &event.key))).await
    }

    /// The event of a record as a message about its order, to which its key led when it was read. `None` if no order waits for it yet: then it is kept, and has
    /// a dead letter, so that an event for which no order ever waits is seen.
    pub(super) async fn find_by_key(
        &self,
        event: KeyedEvent,
        order: Result<Option<OrderId>, StoreError>,
        index: usize,
        batch: &mut Batch<'_>,
    ) -> Option<Work> {
        let record = &batch.records[index];
        let now = self.clock.now();
        let early = EarlyEvent {
            event,
            letter: LetterId::of(record).to_string(),
        };
        let found = match order {
            Ok(Some(order)) => Ok(Found::Order(order)),
            // Events of one key are kept one after the other, so that none of them is in the way of another.
            Ok(None) => keys::find(&self.store, &self.entropy, &early, now).await,
            Err(e) => Err(e),
        };
        let (code, text) = match found {
            Ok(Found::Order(order)) => {
                let event = Box::new(early.event.about(order));
                let input = Input::Incoming(Incoming::Event(event));
                return Some(work(index, record, input, now));
            }
            Ok(Found::Kept) => (
                "unknown-key",
                "no order waits for an event of this name under this key; one that does so within 7 days takes it",
            ),
            Ok(Found::TooMany) => (
                "too-many-events",
                "no order waits for an event of this name under this key, and as many others are kept as may be",
            ),
            // It would be refused each time, and hold up the records behind it.
            Err(StoreError::Item(why)) => {
                batch
                    .letters
                    .push((index, Cause::new("unreadable-key", why)));
                return None;
            }
            Err(e) => {
                batch.redeliver(index, e.into());
                return None;
            }
        };
        batch.letters.push((index, Cause::new(code, text)));
        None
    }

    /// Registers the keys of the steps that are to begin their waits, before their records are written. Takes out those
    /// for which that failed.
    pub(super) async fn register_keys(
        &self,
        decided: &mut Vec<ReadMessage>,
        batch: &mut Batch<'_>,
    ) {
        let now = self.clock.now();
        let begun = decided.iter().map(|known| async move {
            let Task::Write { next, .. } = known.work.carried.pass.task() else {
                return Ok(());
            };
            for (names, until) in new_keys(&known.read.order, next) {
                let ports = (&self.store, &self.bus, &self.entropy);
                keys::register(ports, names, &next.id, until, now).await?;
            }
            Ok(())
        });
        let mut registered = join_all(begun).await.into_iter();
        decided.retain(|known| match registered.next() {
            Some(Err(why)) => {
                self.intake
                    .forget(known.read.order.priority, &known.work.id);
                let index = known.work.index;
                match why {
                    // The Supervisor finds the order when it is overdue.
                    Redelivery::Store(StoreError::Item(why)) => {
                        batch
                            .letters
                            .push((index, Cause::new("unwritable-key", why)));
                    }
                    why => batch.redeliver(index, why),
                }
                false
            }
            Some(Ok(())) | None => true,
        });
    }
}

/// The events and keys for which steps of an order begin to wait with this write, and until when.
fn new_keys<'a>(
    before: &'a Arc<Order>,
    next: &'a Order,
) -> impl Iterator<Item = ((&'a str, &'a str), Timestamp)> {
    let parked = next.steps.iter().enumerate();
    let begun = parked.filter_map(|(index, record)| match record.state.work() {
        Some(StepWork::Parked {
            attempt,
            until,
            ends,
            keys,
            ..
        }) => {
            let was = before.steps.get(index).and_then(|was| was.state.work());
            let is_new =
                !matches!(was, Some(StepWork::Parked { attempt: known, .. }) if known == attempt);
            is_new.then_some((keys, ends.unwrap_or(*until)))
        }
        _ => None,
    });
    begun.flat_map(|(keys, until)| {
        keys.iter()
            .map(move |(event, key)| ((event.as_str(), key.as_str()), until))
    })
}
