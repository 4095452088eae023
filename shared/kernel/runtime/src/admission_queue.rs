//! Admission of orders that are set aside until their workflow's cap has room, or until this process can read their
//! definition. Submission sets orders aside whose definition it cannot read, because a newer version of Triad may
//! have published it, so that they do not block other orders.
//!
//! The process that ends an order of such a workflow admits the oldest one that waits, so that as many stay in
//! flight. The Supervisor's sweep admits what is missing after a crash in between, and orders that no cap limits any
//! more. Every write is conditional: if two processes admit the same order, one wins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use triad_core::due::aside_shard;
use triad_core::pass::{Pass, PassEnd, Snapshot, Source, Task, WriterOrder};
use triad_core::{Event, OrderId, Timestamp, WorkflowRef};
use triad_workflow::{Millis, WorkflowName};

use crate::admission::count;
use crate::definitions::Definitions;
use crate::passes::{Carried, carry_out, report_breaches};
use crate::ports::{Bus, Clock, DefinitionStore, Entropy, StateStore, StoreError};
use crate::settings::Settings;
use crate::traces::{SpanEnd, SpanKind, Tracing};

/// Rows of the first page: few, because the oldest order usually has the wanted workflow.
const FIRST_PAGE: u32 = 25;
/// Rows of every further page.
const PAGE: u32 = 1_000;
/// Most pages of a shard that are searched for a workflow's orders; other workflows may share the shard. They hold as
/// many orders as one other workflow may have set aside.
const MAX_PAGES: u32 = 12;
/// Most orders that one call skips because they cannot be admitted.
const SPARE: usize = 100;
/// Time until the next search after a search that found no order.
const LOOK_EVERY: Millis = Millis(2_000);
/// How often the orders in flight are counted while others wait.
const COUNT_EVERY: Millis = Millis(10_000);

/// The ports of an admission.
pub(crate) struct Ports<'a, S, B, C, E> {
    pub(crate) store: &'a S,
    pub(crate) bus: &'a B,
    pub(crate) clock: &'a C,
    pub(crate) entropy: &'a E,
    pub(crate) definitions: &'a Definitions<S>,
    pub(crate) settings: &'a Settings,
}

/// Result of an admission.
#[derive(Debug, Default)]
pub(crate) struct LetIn {
    /// Waiting orders that were found: not all of them, if more wait than were wanted.
    pub(crate) found: usize,
    /// Orders that were admitted.
    pub(crate) admitted: usize,
    /// The definitions that could not be read, and why: their orders wait.
    pub(crate) unreadable: BTreeMap<WorkflowRef, String>,
}

/// Admits the oldest of a workflow's orders that are set aside, at most `most`.
///
/// # Errors
/// Errors of the store. The next sweep finds the orders that are not admitted.
pub(crate) async fn let_in<S, B, C, E>(
    ports: &Ports<'_, S, B, C, E>,
    workflow: &WorkflowName,
    most: usize,
) -> Result<LetIn, StoreError>
where
    S: StateStore + DefinitionStore + Clone,
    B: Bus,
    C: Clock,
    E: Entropy,
{
    // Some cannot be admitted (paused, or unreadable): the orders behind them are admitted instead.
    let ids = oldest(ports.store, workflow, most.saturating_add(SPARE)).await?;
    let mut done = LetIn {
        found: ids.len(),
        ..LetIn::default()
    };
    let mut ids = ids.into_iter();
    while done.admitted < most {
        let next: Vec<OrderId> = ids.by_ref().take(most - done.admitted).collect();
        if next.is_empty() {
            break;
        }
        done.admitted += admit(ports, next, &mut done.unreadable).await;
    }
    Ok(done)
}

/// Admits these orders; returns how many were admitted.
async fn admit<S, B, C, E>(
    ports: &Ports<'_, S, B, C, E>,
    ids: Vec<OrderId>,
    unreadable: &mut BTreeMap<WorkflowRef, String>,
) -> usize
where
    S: StateStore + DefinitionStore + Clone,
    B: Bus,
    C: Clock,
    E: Entropy,
{
    let mut passes = Vec::with_capacity(ids.len());
    for record in ports.store.load(ids).await {
        let order = match record {
            Ok(Some(order)) => order,
            Ok(None) => continue,
            Err(e) => {
                tracing::warn!(error = %e, "an order that is set aside cannot be read; others are let in");
                continue;
            }
        };
        let now = ports.clock.now();
        let workflow = match ports.definitions.pinned(&order.workflow, now).await {
            Ok(workflow) => workflow,
            Err(e) => {
                tracing::warn!(order = %order.id, error = %e, "the definition of an order that is set aside cannot be read; others are let in");
                if let StoreError::Item(why) = e {
                    unreadable.insert(order.workflow, why);
                }
                continue;
            }
        };
        // The order's details are needed only if its record must be completed from its definition.
        let details = match order.is_unread() {
            false => None,
            true => match details(ports.store, &order.id).await {
                Ok(details) => Some(details),
                Err(e) => {
                    tracing::warn!(order = %order.id, error = %e, "the details of an order that is set aside cannot be read; others are let in");
                    continue;
                }
            },
        };
        let read = Snapshot {
            order: Arc::new(order),
            workflow,
            details,
        };
        let mut pass = Pass::new(WriterOrder::Beside, 0);
        let (timing, now) = (ports.settings.timing, ports.clock.now());
        let span = ports.settings.traces.beside(&read.order, "let-in", now);
        report_breaches(&pass.decide(read, Source::Record, Event::Admit, timing, now));
        passes.push(Carried {
            span,
            ..Carried::new(pass)
        });
    }
    let carried = passes.iter_mut().collect();
    let tracing = Tracing {
        traces: &ports.settings.traces,
        clock: ports.clock,
    };
    carry_out(ports.store, ports.bus, ports.entropy, &tracing, carried).await;
    for span in passes.iter().filter_map(|carried| carried.span) {
        let told = || SpanEnd::new("let in", SpanKind::Internal);
        tracing.traces.end(&span, tracing.now(), None, told);
    }
    // An order whose message was not sent is in flight, and a sweep wakes the Scheduler again.
    let is_in = |carried: &&Carried| match carried.pass.task() {
        Task::Ended(PassEnd::Done(done) | PassEnd::Unsent(done)) => done.was_written,
        _ => false,
    };
    passes.iter().filter(is_in).count()
}

async fn details<S: StateStore>(store: &S, order: &OrderId) -> Result<Arc<Value>, StoreError> {
    let mut found = store.details(vec![order.clone()]).await;
    let found = found.pop().transpose()?.flatten();
    found.ok_or_else(|| StoreError::Item(format!("the details of {order} are not stored")))
}

/// The oldest of a workflow's orders that are set aside.
async fn oldest<S: StateStore>(
    store: &S,
    workflow: &WorkflowName,
    most: usize,
) -> Result<Vec<OrderId>, StoreError> {
    let shard = aside_shard(workflow);
    let (mut ids, mut page) = (Vec::new(), None);
    for n in 0..MAX_PAGES {
        let limit = if n == 0 { FIRST_PAGE } else { PAGE };
        let found = store.due(shard, Timestamp(u64::MAX), limit, page).await?;
        let own = |row: &crate::ports::DueRow| row.workflow.as_ref() == Some(workflow);
        ids.extend(found.rows.into_iter().filter(own).map(|row| row.order));
        if ids.len() >= most {
            break;
        }
        match found.next {
            Some(next) => page = Some(next),
            None => break,
        }
    }
    ids.truncate(most);
    Ok(ids)
}

/// The workflows of the oldest orders that are set aside in a shard.
///
/// # Errors
/// Errors of the store.
pub(crate) async fn waiting<S: StateStore>(
    store: &S,
    shard: u32,
) -> Result<BTreeSet<WorkflowName>, StoreError> {
    let until = Timestamp(u64::MAX);
    let found = store.due(shard, until, FIRST_PAGE, None).await?;
    Ok(found.rows.into_iter().filter_map(|r| r.workflow).collect())
}

/// Orders that ended here, by workflow: as many others may be admitted.
#[derive(Debug, Default)]
pub(crate) struct Freed(BTreeMap<WorkflowName, Places>);

#[derive(Debug, Default)]
struct Places {
    /// Orders that have ended since the last admission.
    ended: u32,
    /// Orders that must end before one is admitted: so many more were in flight than the cap permits.
    surplus: u32,
    counted_at: Option<Timestamp>,
    /// No order waited the last time, and there is no search before this.
    none_until: Timestamp,
}

impl Freed {
    /// Notes that an order of a workflow with a cap has ended.
    pub(crate) fn ended(&mut self, workflow: &WorkflowName) {
        let places = self.0.entry(workflow.clone()).or_default();
        match places.surplus {
            0 => places.ended = places.ended.saturating_add(1),
            _ => places.surplus -= 1,
        }
    }

    /// Takes the workflows and numbers of orders to admit now.
    pub(crate) fn take(&mut self, now: Timestamp) -> Vec<(WorkflowName, u32)> {
        let due = self
            .0
            .iter_mut()
            .filter(|(_, p)| p.ended > 0 && now >= p.none_until);
        due.map(|(name, places)| (name.clone(), std::mem::take(&mut places.ended)))
            .collect()
    }

    /// Notes how many orders of a workflow were found set aside. After none, the next search is [`LOOK_EVERY`] later.
    pub(crate) fn found(&mut self, workflow: &WorkflowName, found: usize, now: Timestamp) {
        let places = self.0.entry(workflow.clone()).or_default();
        if found == 0 {
            places.none_until = now.plus(LOOK_EVERY);
        }
    }

    /// Whether the orders in flight must be counted again.
    pub(crate) fn is_old(&self, workflow: &WorkflowName, now: Timestamp) -> bool {
        let counted = self.0.get(workflow).and_then(|places| places.counted_at);
        counted.is_none_or(|at| now < at || now.since(at) >= COUNT_EVERY)
    }

    /// Notes a count of the orders in flight: `surplus` more of the workflow than its cap permits.
    pub(crate) fn counted(&mut self, workflow: &WorkflowName, surplus: u32, now: Timestamp) {
        let places = self.0.entry(workflow.clone()).or_default();
        places.surplus = surplus;
        places.counted_at = Some(now);
    }
}

/// How many more of a workflow's orders may be in flight, or how many are in flight above the cap.
///
/// # Errors
/// Errors of the store.
pub(crate) async fn room<S: StateStore>(
    store: &S,
    workflow: &WorkflowName,
    cap: u32,
) -> Result<(u32, u32), StoreError> {
    let (_, by_name) = count(store, u32::MAX).await?;
    let in_flight = by_name.get(workflow).copied().unwrap_or(0);
    Ok((cap.saturating_sub(in_flight), in_flight.saturating_sub(cap)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> WorkflowName {
        WorkflowName::new("small").expect("a name")
    }

    #[test]
    fn an_end_frees_one_place_and_what_is_too_many_ends_first() {
        let mut freed = Freed::default();
        freed.counted(&name(), 2, Timestamp(0));
        for _ in 0..3 {
            freed.ended(&name());
        }
        assert_eq!(freed.take(Timestamp(1)), [(name(), 1)]);
        assert_eq!(freed.take(Timestamp(1)), []);
    }

    #[test]
    fn where_none_waits_it_is_not_looked_with_every_end() {
        let mut freed = Freed::default();
        freed.found(&name(), 0, Timestamp(0));
        freed.ended(&name());
        assert_eq!(freed.take(Timestamp(1_999)), []);
        assert_eq!(freed.take(Timestamp(2_000)), [(name(), 1)]);
    }

    #[test]
    fn the_orders_in_flight_are_counted_every_ten_seconds() {
        let mut freed = Freed::default();
        let is_old = |freed: &Freed, ms| freed.is_old(&name(), Timestamp(ms));
        assert!(is_old(&freed, 1_000), "never counted");
        freed.counted(&name(), 0, Timestamp(1_000));
        assert!(!is_old(&freed, 10_999) && is_old(&freed, 11_000));
        assert!(is_old(&freed, 999), "the clock was set back");
    }
}
