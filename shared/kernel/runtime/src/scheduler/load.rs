//! Loading an event's order, from a copy, from the announcement or from the store.

use std::sync::Arc;

use triad_core::Order;
use triad_core::pass::{Snapshot, Source};

use super::{Batch, ReadMessage, Scheduler, Work};
use crate::beside::read_for_decisions;
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
                Ok(None) if work.input.is_incoming() => {
                    let text = "there is no order of this id, or none any more";
                    let cause = Cause::new("unknown-order", text);
                    batch.letters.push((work.index, cause));
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
                // It does not come again by itself.
                Err(StoreError::Item(why)) if work.input.is_incoming() => {
                    batch
                        .letters
                        .push((work.index, Cause::new("unreadable-definition", why)));
                }
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

    /// A stored record with its definition, and with its details and outputs as far as they are cached.
    async fn pinned(&self, mut order: Order, work: &Work) -> Result<Snapshot, StoreError> {
        let workflow = self
            .definitions
            .pinned(&order.workflow, self.clock.now())
            .await?;
        let cached = self.cache.get(&work.id);
        if let Some(copy) = &cached {
            order.take_outputs(copy.order.outputs_read());
        }
        let details = match work.input.accepted() {
            Some(accepted) => Some(Arc::new(accepted.details.clone())),
            None => cached.and_then(|copy| copy.details),
        };
        Ok(Snapshot {
            order: Arc::new(order),
            workflow,
            details,
        })
    }

    /// Reads the details and outputs that decisions need. Orders whose details or outputs cannot be read are left out.
    pub(super) async fn read_beside(
        &self,
        wanting: Vec<ReadMessage>,
        batch: &mut Batch<'_>,
    ) -> Vec<ReadMessage> {
        let (works, snapshots): (Vec<_>, Vec<_>) = wanting
            .into_iter()
            .map(|known| ((known.work, known.source), known.read))
            .unzip();
        let mut known = Vec::with_capacity(works.len());
        let read = read_for_decisions(&self.store, snapshots).await;
        for ((work, source), read) in works.into_iter().zip(read) {
            match read {
                Ok(read) => known.push(ReadMessage { work, read, source }),
                Err(e) => unreadable(work.index, e, batch),
            }
        }
        known
    }

    /// A cached copy of the record, or for an announcement the record as Submission wrote it: if it is outdated, the
    /// conditional write fails.
    async fn copy(&self, work: &Work) -> Option<Snapshot> {
        let (workflow, order, details) = match (self.cache.get(&work.id), work.input.accepted()) {
            (Some(copy), _) => (copy.order.workflow.clone(), Some(copy.order), copy.details),
            (None, Some(accepted)) => {
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
        let order = match (order, work.input.accepted()) {
            (Some(order), _) => order,
            (None, Some(accepted)) => Arc::new(Order::new(accepted, &workflow, accepted.due)),
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
