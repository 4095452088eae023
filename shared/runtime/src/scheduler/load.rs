//! Loading: what each event's order is, from a copy, from the announcement or from the store.

use std::sync::Arc;

use serde_json::Value;
use triad_core::message::{Outcome, SchedulerMessage};
use triad_core::{Direction, Order, StepState};

use super::{Known, Round, Scheduler, Work};
use crate::cache::Snapshot;
use crate::control::ControlStore;
use crate::dead_letter::Cause;
use crate::handled::Handled;
use crate::ports::{Bus, Clock, DefinitionStore, Entropy, StateStore, StoreError};
use crate::record::InputRecord;

impl<S, B, C, E> Scheduler<S, B, C, E>
where
    S: StateStore + DefinitionStore + ControlStore + Clone,
    B: Bus,
    C: Clock,
    E: Entropy,
{
    /// Load: what each event's order is, from the cache where that will do.
    pub(super) async fn know(
        &self,
        records: &[InputRecord],
        works: Vec<Work>,
        copies_will_do: bool,
        outcome: &mut Round,
        answers: &mut [Handled],
    ) -> Vec<(Work, Known)> {
        let mut known = Vec::with_capacity(works.len());
        let mut unknown = Vec::new();
        for work in works {
            let copy = if copies_will_do {
                self.copy(&work).await
            } else {
                None
            };
            match copy {
                Some(copy) => known.push((work, copy)),
                None => unknown.push(work),
            }
        }
        if unknown.is_empty() {
            return known;
        }
        let ids = unknown.iter().map(|w| w.id.clone()).collect();
        let stored = if copies_will_do {
            self.store.glance(ids).await
        } else {
            self.store.load(ids).await
        };
        let mut details = self.details(&unknown, &stored).await;
        for (at, (work, stored)) in unknown.into_iter().zip(stored).enumerate() {
            let found = match (std::mem::replace(&mut details[at], Ok(None)), stored) {
                (Err(e), _) | (Ok(_), Err(e)) => Err(e),
                (Ok(details), Ok(order)) => self.complete(order, details, !copies_will_do).await,
            };
            match found {
                Ok(Some(found)) => known.push((work, found)),
                // It may only be too young for a cheap read.
                Ok(None) if copies_will_do => outcome.again.push(work),
                // Deleted, or never accepted: changes nothing and creates nothing.
                Ok(None) => {
                    tracing::info!(order = %work.id, "event for an order that is not stored")
                }
                Err(StoreError::Transient(why)) => answers[work.index] = Handled::Again(why),
                Err(StoreError::Permanent(why)) => {
                    let cause = Cause::new("unreadable-order", why);
                    let letter = self.refuse(work.index, &records[work.index], &cause);
                    outcome.send.extend(letter);
                }
            }
        }
        known
    }

    /// The details of the orders that need them: from the message, a copy or the store. Null
    /// stands for details that are not needed; real ones are objects, and only they are kept.
    async fn details(
        &self,
        works: &[Work],
        stored: &[Result<Option<Order>, StoreError>],
    ) -> Vec<Result<Option<Arc<Value>>, StoreError>> {
        let mut wanted = Vec::new();
        let mut details: Vec<_> = works
            .iter()
            .zip(stored)
            .enumerate()
            .map(|(at, (work, stored))| {
                let have = match &work.message {
                    SchedulerMessage::Accepted(a) => Some(Arc::new(a.details.clone())),
                    _ => self.cache.get(&work.id).map(|s| s.details),
                };
                match stored {
                    Ok(Some(order)) if have.is_none() && ends(order, &work.message) => {
                        Ok(Some(Arc::new(Value::Null)))
                    }
                    Ok(Some(_)) if have.is_none() => {
                        wanted.push(at);
                        Ok(None)
                    }
                    _ => Ok(have),
                }
            })
            .collect();
        if !wanted.is_empty() {
            let ids = wanted.iter().map(|&at| works[at].id.clone()).collect();
            for (at, read) in wanted.into_iter().zip(self.store.details(ids).await) {
                details[at] = read;
            }
        }
        details
    }

    /// A stored record with its definition and its details.
    async fn complete(
        &self,
        order: Option<Order>,
        details: Option<Arc<Value>>,
        fresh: bool,
    ) -> Result<Option<Known>, StoreError> {
        let Some(order) = order else { return Ok(None) };
        let details =
            details.ok_or_else(|| StoreError::Permanent("its details are not stored".into()))?;
        let workflow = self.definitions.pinned(&order.workflow).await?;
        Ok(Some(Known {
            snapshot: Snapshot {
                order: Arc::new(order),
                details,
            },
            workflow,
            fresh,
        }))
    }

    /// A copy of the record, or for an announcement the record as Submission wrote it: the
    /// conditional write will tell if it is no longer that.
    async fn copy(&self, work: &Work) -> Option<Known> {
        let snapshot = match (self.cache.get(&work.id), &work.message) {
            (Some(snapshot), _) => snapshot,
            (None, SchedulerMessage::Accepted(accepted)) => {
                let workflow = self.definitions.pinned(&accepted.workflow).await.ok()?;
                let order = Order::new(accepted, &workflow, accepted.due);
                return Some(Known {
                    snapshot: Snapshot {
                        order: Arc::new(order),
                        details: Arc::new(accepted.details.clone()),
                    },
                    workflow,
                    fresh: false,
                });
            }
            (None, _) => return None,
        };
        let workflow = self
            .definitions
            .pinned(&snapshot.order.workflow)
            .await
            .ok()?;
        Some(Known {
            snapshot,
            workflow,
            fresh: false,
        })
    }
}

/// Whether a message can only end an order well, so that no expression needs the details.
fn ends(order: &Order, message: &SchedulerMessage) -> bool {
    let SchedulerMessage::Reply(reply) = message else {
        return false;
    };
    matches!(reply.outcome, Outcome::Succeeded { .. })
        && reply.direction == Direction::Forward
        && order.steps.iter().all(|s| {
            s.state.is_done()
                || (s.step == reply.step && matches!(s.state, StepState::Running { .. }))
        })
}
