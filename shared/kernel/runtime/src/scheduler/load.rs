//! Loading an event's order, from a copy, from the announcement or from the store.

use std::sync::Arc;

use triad_core::Order;
use triad_core::message::SchedulerMessage;
use triad_core::pass::{Snapshot, Source};

use super::{Batch, ReadMessage, Scheduler, Work};
use crate::control::ControlStore;
use crate::dead_letter::Cause;
use crate::ports::{Bus, Clock, DefinitionStore, Entropy, StateStore, StoreError};

impl<S, B, C, E> Scheduler<S, B, C, E>
where
    S: StateStore + DefinitionStore + ControlStore + Clone,
    B: Bus,
    C: Clock,
    E: Entropy,
{
    /// Loads the order of each event: with [`Source::Copy`] from any source, else from the record. The second value
    /// has the events that need a consistent read.
    pub(super) async fn load(
        &self,
        works: Vec<Work>,
        source: Source,
        batch: &mut Batch<'_>,
    ) -> (Vec<ReadMessage>, Vec<Work>) {
        let mut known = Vec::with_capacity(works.len());
        let mut again = Vec::new();
        let mut unknown = Vec::new();
        for work in works {
            let copy = match source {
                Source::Copy => self.copy(&work).await,
                Source::Record => None,
            };
            match copy {
                Some(read) => known.push(ReadMessage { work, read, source }),
                None => unknown.push(work),
            }
        }
        if unknown.is_empty() {
            return (known, again);
        }
        let ids = unknown.iter().map(|w| w.id.clone()).collect();
        let stored = match source {
            Source::Copy => self.store.load_eventually(ids).await,
            Source::Record => self.store.load(ids).await,
        };
        for (mut work, stored) in unknown.into_iter().zip(stored) {
            let order = match stored {
                Ok(Some(order)) => order,
                Ok(None) if source == Source::Copy => {
                    // An eventually consistent read may be older than the order.
                    work.carried.pass.absent(source);
                    again.push(work);
                    continue;
                }
                // Deleted, or never accepted: nothing changes and nothing is created.
                Ok(None) => {
                    tracing::info!(order = %work.id, "event for an order that is not stored");
                    continue;
                }
                Err(e) => {
                    unreadable(work.index, e, batch);
                    continue;
                }
            };
            match self.pinned(order, &work).await {
                Ok(read) => known.push(ReadMessage { work, read, source }),
                // The order waits for a process that can read its definition. It is in the due index, and a sweep of
                // such a process has already sent again what is lost here.
                Err(StoreError::Item(why)) => {
                    tracing::warn!(order = %work.id, why, "an event is skipped: the order waits for a process that can read its definition");
                }
                Err(e) => batch.redeliver(work.index, e.into()),
            }
        }
        (known, again)
    }

    /// A stored record with its definition, and its details if they are cached.
    async fn pinned(&self, order: Order, work: &Work) -> Result<Snapshot, StoreError> {
        let workflow = self
            .definitions
            .pinned(&order.workflow, self.clock.now())
            .await?;
        let details = match &work.message {
            SchedulerMessage::Accepted(a) => Some(Arc::new(a.details.clone())),
            _ => self.cache.get(&work.id).and_then(|copy| copy.details),
        };
        Ok(Snapshot {
            order: Arc::new(order),
            workflow,
            details,
        })
    }

    /// Reads the details of orders whose decisions need them. Unreadable ones are left out.
    pub(super) async fn with_details(
        &self,
        wanting: Vec<ReadMessage>,
        batch: &mut Batch<'_>,
    ) -> Vec<ReadMessage> {
        if wanting.is_empty() {
            return wanting;
        }
        let ids = wanting.iter().map(|k| k.work.id.clone()).collect();
        let mut known = Vec::with_capacity(wanting.len());
        for (mut wanting, details) in wanting.into_iter().zip(self.store.details(ids).await) {
            let missing = || StoreError::Item("its details are not stored".into());
            match details.and_then(|details| details.ok_or_else(missing)) {
                Ok(details) => {
                    wanting.read.details = Some(details);
                    known.push(wanting);
                }
                Err(e) => unreadable(wanting.work.index, e, batch),
            }
        }
        known
    }

    /// A cached copy of the record, or for an announcement the record as Submission wrote it: if it is outdated, the
    /// conditional write fails.
    async fn copy(&self, work: &Work) -> Option<Snapshot> {
        let (workflow, order, details) = match (self.cache.get(&work.id), &work.message) {
            (Some(copy), _) => (copy.order.workflow.clone(), Some(copy.order), copy.details),
            (None, SchedulerMessage::Accepted(accepted)) => {
                let details = Arc::new(accepted.details.clone());
                (accepted.workflow.clone(), None, Some(details))
            }
            (None, _) => return None,
        };
        let workflow = self
            .definitions
            .pinned(&workflow, self.clock.now())
            .await
            .ok()?;
        let order = match (order, &work.message) {
            (Some(order), _) => order,
            (None, SchedulerMessage::Accepted(accepted)) => {
                Arc::new(Order::new(accepted, &workflow, accepted.due))
            }
            (None, _) => return None,
        };
        Some(Snapshot {
            order,
            workflow,
            details,
        })
    }
}

/// Records that the store cannot read a record, now or ever.
fn unreadable(index: usize, e: StoreError, batch: &mut Batch<'_>) {
    match e {
        StoreError::Transient(_) | StoreError::Configuration(_) => {
            batch.redeliver(index, e.into());
        }
        StoreError::Item(why) => batch
            .letters
            .push((index, Cause::new("unreadable-order", why))),
    }
}
