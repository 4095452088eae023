//! The Supervisor: finds overdue records, plans what to do about them, carries it out, reports.
//!
//! Several may sweep at once: every write is conditional, so of two that found the same order
//! one wins and the other's write is a counted conflict.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use triad_core::due::SHARDS;
use triad_core::planted::{Bug, planted};
use triad_core::{
    Context, Envelope, Order, OrderId, Timestamp, Untaken, invariants, ledger, outbox, plan,
};
use triad_workflow::{Millis, Workflow};

use crate::control::ControlStore;
use crate::definitions::Definitions;
use crate::metric;
use crate::ports::{
    Bus, Clock, DefinitionStore, DueRow, Entropy, StateStore, StoreError, Write, Written,
};
use crate::revoke;
use crate::scheduler::{confirm_all, report_breaches};
use crate::settings::Settings;

/// The Supervisor handler.
#[derive(Debug)]
pub struct Supervisor<S, B, C, E> {
    store: S,
    bus: B,
    clock: C,
    entropy: E,
    definitions: Definitions<S>,
    settings: Settings,
}

/// What one sweep did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Rows of the due index that were looked at.
    pub found: usize,
    /// Records that were written: retried, given up, announced again or moved in the index.
    pub written: usize,
    /// Finished records whose messages were sent once more and confirmed.
    pub confirmed: usize,
    /// Writes that somebody else was faster with.
    pub conflicts: usize,
    /// Rows that needed nothing: stale, or not due on the record itself.
    pub left: usize,
    /// Records, pages or messages that failed; a later sweep meets them again.
    pub failed: usize,
    /// Shards of the due index that could not be read to their end: nobody knows what is due there.
    pub unread: usize,
    /// Whether the sweep stopped at its time or row limit with rows unread.
    pub truncated: bool,
}

impl<S, B, C, E> Supervisor<S, B, C, E>
where
    S: StateStore + DefinitionStore + ControlStore + Clone,
    B: Bus,
    C: Clock,
    E: Entropy,
{
    /// A handler over its ports.
    pub fn new(store: S, bus: B, clock: C, entropy: E, settings: Settings) -> Self {
        Self {
            definitions: Definitions::new(store.clone(), settings.refresh_definitions),
            store,
            bus,
            clock,
            entropy,
            settings,
        }
    }

    /// One pass over the due index, of at most `time` and the configured number of rows.
    ///
    /// The shards are taken from a random one on, so that several Supervisors, and one that is
    /// always cut short, do not neglect the same ones.
    pub async fn sweep(&self, time: Millis) -> Report {
        let mut report = Report::default();
        let began = self.clock.now();
        let ends = began.plus(time);
        let until = began.minus(self.settings.timing.skew);
        let first = (self.entropy.next_u64() % u64::from(SHARDS)) as u32;
        for shard in (0..SHARDS).map(|n| (first + n) % SHARDS) {
            let mut page = None;
            loop {
                let over = self.clock.now() >= ends || report.found >= self.settings.sweep_limit;
                if over {
                    report.truncated = true;
                    return report;
                }
                let limit = self.settings.sweep_page;
                let found = match self.store.due(shard, until, limit, page).await {
                    Ok(found) => found,
                    Err(e) => {
                        tracing::warn!(shard, error = %e, "a page of the due index could not be read");
                        report.failed += 1;
                        report.unread += 1;
                        break;
                    }
                };
                self.take_up(found.rows, &mut report).await;
                match found.next {
                    Some(next) => page = Some(next),
                    None => break,
                }
            }
        }
        report
    }

    /// Load, plan, commit, publish, confirm: for the rows of one page.
    async fn take_up(&self, rows: Vec<DueRow>, report: &mut Report) {
        report.found += rows.len();
        let ids = rows.into_iter().map(|r| r.order).collect();
        let found = self.load(ids, report).await;
        let now = self.clock.now();
        let found = self.revoke(found, now, report).await;
        let plan = plan(
            found
                .iter()
                .map(|(o, w, u)| (o.clone(), u.clone(), w.as_ref())),
            self.settings.timing,
            now,
        );
        for (order, illegal) in &plan.unsound {
            tracing::error!(order = %order.id, error = %illegal, "the record does not fit its definition");
        }
        report.failed += plan.unsound.len();
        report.left += plan.leave.len();
        let workflow = |order: &Order| {
            found
                .iter()
                .find(|(o, _, _)| o.id == order.id)
                .map(|(_, w, _)| w.clone())
        };
        for (before, next) in &plan.writes {
            if let Some(w) = workflow(before) {
                report_breaches(&invariants::of_write(before, next, &w));
            }
        }
        let written = self.commit(plan.writes, report).await;
        let to_send: Vec<(Order, Arc<Workflow>)> = written
            .into_iter()
            .chain(plan.resend)
            .filter_map(|o| workflow(&o).map(|w| (o, w)))
            .collect();
        self.publish(to_send, now, report).await;
    }

    /// Reads the records themselves: the index is only a hint.
    async fn load(&self, ids: Vec<OrderId>, report: &mut Report) -> Vec<(Order, Arc<Workflow>)> {
        let mut found = Vec::with_capacity(ids.len());
        if ids.is_empty() {
            return found;
        }
        for record in self.store.load(ids).await {
            let pinned = match record {
                Ok(Some(order)) => self
                    .definitions
                    .pinned(&order.workflow)
                    .await
                    .map(|w| (order, w)),
                Ok(None) => {
                    report.left += 1;
                    continue;
                }
                Err(e) => Err(e),
            };
            match pinned {
                Ok(both) => found.push(both),
                Err(e) => {
                    log_failure(&e);
                    report.failed += 1;
                }
            }
        }
        found
    }

    /// Revokes the attempts that nobody was heard of, where the call ledger knows who took them.
    /// An order of which the ledger cannot be asked is left for a later sweep.
    async fn revoke(
        &self,
        found: Vec<(Order, Arc<Workflow>)>,
        now: Timestamp,
        report: &mut Report,
    ) -> Vec<(Order, Arc<Workflow>, Untaken)> {
        let mut known = Vec::with_capacity(found.len());
        for (order, workflow) in found {
            let ctx = Context {
                workflow: &workflow,
                details: &Value::Null,
                timing: self.settings.timing,
            };
            let mut untaken = Ok(Untaken::new());
            for attempt in ledger::to_revoke(&ctx, &order, now) {
                match revoke::revoke(&self.store, &self.entropy, &attempt).await {
                    Ok(true) => {
                        if let Ok(untaken) = &mut untaken {
                            untaken.insert(attempt.step);
                        }
                    }
                    Ok(false) => {}
                    Err(e) => untaken = Err(e),
                }
            }
            match untaken {
                Ok(untaken) => known.push((order, workflow, untaken)),
                Err(e) => {
                    log_failure(&e);
                    report.failed += 1;
                }
            }
        }
        known
    }

    async fn commit(&self, planned: Vec<(Order, Order)>, report: &mut Report) -> Vec<Order> {
        if planned.is_empty() {
            return Vec::new();
        }
        let writes = planned
            .iter()
            .map(|(before, next)| Write {
                expected: before.version,
                next: Arc::new(next.clone()),
                token: self.entropy.next_u64(),
            })
            .collect();
        let results = self.store.commit(writes).await;
        let mut written = Vec::new();
        for ((before, next), result) in planned.into_iter().zip(results) {
            match result {
                Ok(Written::Written) => {
                    report.written += 1;
                    metric::ended(&before, &next);
                    // A record that was only moved in the index has nothing new to say.
                    if before.state != next.state || before.outbox != next.outbox {
                        written.push(next);
                    }
                }
                Ok(Written::Conflict) => report.conflicts += 1,
                Err(e) => {
                    log_failure(&e);
                    report.failed += 1;
                }
            }
        }
        written
    }

    /// Sends statuses and alerts; when those of an order are acknowledged, what lets the
    /// Scheduler go on; then confirms the finished ones.
    async fn publish(
        &self,
        orders: Vec<(Order, Arc<Workflow>)>,
        now: Timestamp,
        report: &mut Report,
    ) {
        let mut first = Vec::new();
        let mut then = Vec::new();
        for (at, (order, workflow)) in orders.iter().enumerate() {
            let ctx = Context {
                workflow,
                details: &Value::Null,
                timing: self.settings.timing,
            };
            let messages = outbox::messages(&ctx, order);
            first.extend(messages.first.into_iter().map(|m| (at, m)));
            // Requests belong to the Scheduler's line of events: never sent from here.
            let own = messages
                .then
                .into_iter()
                .filter(|m| triad_core::topics::is_scheduler(&m.topic));
            then.extend(own.map(|m| (at, m)));
        }
        let mut sent = vec![true; orders.len()];
        self.send(first, &mut sent).await;
        then.retain(|(at, _)| sent[*at]);
        self.send(then, &mut sent).await;
        report.failed += sent.iter().filter(|s| !**s).count();
        let finished: Vec<_> = orders
            .into_iter()
            .zip(sent)
            .filter(|((order, _), sent)| {
                (*sent || planted(Bug::ConfirmsUnsent)) && order.state.is_finished()
            })
            .map(|(both, _)| both)
            .collect();
        report.confirmed += confirm_all(
            &self.store,
            &self.entropy,
            &finished,
            self.settings.timing,
            now,
        )
        .await;
    }

    async fn send(&self, messages: Vec<(usize, Envelope)>, sent: &mut [bool]) {
        if messages.is_empty() {
            return;
        }
        let (owners, messages): (Vec<usize>, Vec<Envelope>) = messages.into_iter().unzip();
        for (at, result) in owners.into_iter().zip(self.bus.publish(messages).await) {
            if let Err(e) = result {
                tracing::warn!(error = %e, "a message could not be sent; the next sweep sends it again");
                sent[at] = false;
            }
        }
    }
}

fn log_failure(e: &StoreError) {
    tracing::warn!(error = %e, "an overdue record could not be taken up; the next sweep meets it again");
}
