//! Letting in orders that were set aside until their workflow's cap leaves them room, or until somebody can
//! read their definition: Submission sets aside what it cannot, which a newer version of Triad may have
//! published, so that it holds up nobody else's orders.
//!
//! Who ends an order of such a workflow lets in the oldest that waits, so that as many stay in flight;
//! the Supervisor's sweep lets in what is missing, after a process has died in between, and what no
//! cap holds back any more. Every write is conditional: of two that let the same order in one wins.

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

/// Rows that are read first: few, for as a rule the oldest is of the workflow that is looked for.
const FIRST_PAGE: u32 = 25;
/// Rows that are read at once behind those.
const PAGE: u32 = 1_000;
/// Bound: pages of a shard, which other workflows may share, that are read in search of one's. They
/// hold as many as one other workflow may have set aside.
const MAX_PAGES: u32 = 12;
/// Bound: orders that are passed over in one go because they cannot be let in.
const SPARE: usize = 100;
/// Once none was found that waits, it is looked again after this.
const LOOK_EVERY: Millis = Millis(2_000);
/// How often the orders in flight are counted while others wait for them.
const COUNT_EVERY: Millis = Millis(10_000);

/// The ports that letting in needs.
pub(crate) struct Ports<'a, S, B, C, E> {
    pub(crate) store: &'a S,
    pub(crate) bus: &'a B,
    pub(crate) clock: &'a C,
    pub(crate) entropy: &'a E,
    pub(crate) definitions: &'a Definitions<S>,
    pub(crate) settings: &'a Settings,
}

/// What came of letting in.
#[derive(Debug, Default)]
pub(crate) struct LetIn {
    /// Orders that were found to wait: not all of them, where more than were wanted do.
    pub(crate) found: usize,
    /// Orders that were let in.
    pub(crate) admitted: usize,
    /// The definitions that could not be read, and why: their orders wait.
    pub(crate) unreadable: BTreeMap<WorkflowRef, String>,
}

/// Lets in the oldest of a workflow's orders that are set aside, at most `most`.
///
/// # Errors
/// The store's. What is not let in is found by the next sweep.
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
    // Some cannot be let in (an operator holds them, or they cannot be read): those behind them are.
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

/// Lets these orders in; how many were.
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
        // Its details are wanted only where the record is to be completed with its definition.
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
    // One whose message was not sent is in flight, and a sweep asks for it again.
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
/// The store's.
pub(crate) async fn waiting<S: StateStore>(
    store: &S,
    shard: u32,
) -> Result<BTreeSet<WorkflowName>, StoreError> {
    let until = Timestamp(u64::MAX);
    let found = store.due(shard, until, FIRST_PAGE, None).await?;
    Ok(found.rows.into_iter().filter_map(|r| r.workflow).collect())
}

/// Of which workflows orders have ended here, and so how many others may be let in.
#[derive(Debug, Default)]
pub(crate) struct Freed(BTreeMap<WorkflowName, Places>);

#[derive(Debug, Default)]
struct Places {
    /// Orders that have ended since others were let in.
    ended: u32,
    /// How many orders have to end before one is let in: so many more were in flight than the cap permits.
    surplus: u32,
    counted_at: Option<Timestamp>,
    /// No order waited the last time, and no one looks again before this.
    none_until: Timestamp,
}

impl Freed {
    /// An order of a workflow that has a cap has ended.
    pub(crate) fn ended(&mut self, workflow: &WorkflowName) {
        let places = self.0.entry(workflow.clone()).or_default();
        match places.surplus {
            0 => places.ended = places.ended.saturating_add(1),
            _ => places.surplus -= 1,
        }
    }

    /// The places that are to be filled now.
    pub(crate) fn take(&mut self, now: Timestamp) -> Vec<(WorkflowName, u32)> {
        let due = self
            .0
            .iter_mut()
            .filter(|(_, p)| p.ended > 0 && now >= p.none_until);
        due.map(|(name, places)| (name.clone(), std::mem::take(&mut places.ended)))
            .collect()
    }

    /// Notes how many orders of a workflow were found set aside. After none, no one looks again before
    /// [`LOOK_EVERY`] has passed.
    pub(crate) fn found(&mut self, workflow: &WorkflowName, found: usize, now: Timestamp) {
        let places = self.0.entry(workflow.clone()).or_default();
        if found == 0 {
            places.none_until = now.plus(LOOK_EVERY);
        }
    }

    /// Whether the orders in flight are to be counted.
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

/// How many more of a workflow's orders may be in flight, and how many are too many.
///
/// # Errors
/// The store's.
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
