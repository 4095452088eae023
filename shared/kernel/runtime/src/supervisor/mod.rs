//! The Supervisor: finds overdue records, plans what to do about each ([`plan`]), executes the plan, reports.
//!
//! Several may sweep at once: every write is conditional, so if two find the same order, one wins and the other's
//! write is a counted conflict.

mod acknowledged;
mod announcement_rate;
mod drive;
mod pace;
mod plan;
mod traced;
mod unconfirmed;

use serde::Serialize;
use triad_core::due::{ASIDE_SHARDS, SHARDS, aside_shard};
use triad_core::pass::{self, PassEnd, Snapshot, Task};
use triad_core::{OrderId, Timestamp, Untaken, ledger};
use triad_workflow::Millis;

use crate::admission_queue::{Ports, let_in, room, waiting};
use crate::control::ControlStore;
use crate::definitions::Definitions;
use crate::metric;
use crate::misconfigured::Misconfigured;
use crate::passes::{Carried, carry_out, report_breaches};
use crate::ports::{Bus, Clock, DefinitionStore, DueRow, Entropy, StateStore, StoreError};
use crate::revoke;
use crate::settings::Settings;
use crate::traces::Tracing;
use crate::unreadable::{self, Subject, Unreadable};
use acknowledged::Acknowledged;
use announcement_rate::Rests;
use pace::Pace;
use plan::{Candidate, Plan, Policy};
use unconfirmed::Refusing;

pub use drive::Driven;

/// Name of this handler in alerts and metrics.
const HANDLER: &str = "supervisor";

/// The Supervisor handler: each call of [`sweep`](Self::sweep) is one sweep. Several Supervisors may sweep at
/// once. `S` is the store, `B` the bus, `C` the clock, `E` the entropy.
#[derive(Debug)]
pub struct Supervisor<S, B, C, E> {
    store: S,
    bus: B,
    clock: C,
    entropy: E,
    definitions: Definitions<S>,
    misconfigured: Misconfigured,
    rests: Rests,
    acknowledged: Acknowledged,
    settings: Settings,
}

/// An order with a decision, the pass that carries it out, and the interval until its next announcement.
type Swept = (Snapshot, Carried, Millis);

/// What one sweep did. All numbers are counts of this sweep alone and start at 0.
///
/// They need not add up to `found`. A record that was written may also count in `confirmed`, and in `failed`
/// if a message or the confirmation failed after the write. A record that counts in `conflicts` or in `left`
/// counts in none of the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Rows of the due index that were read, without those in `waiting`. Only these count against
    /// [`Settings::sweep_limit`].
    pub found: usize,
    /// Rows of orders whose definition this process cannot read: they wait for a process that can, and every sweep
    /// finds them.
    pub waiting: usize,
    /// Records that were written: a step retried or given up, an order announced again, or a row
    /// moved in the index.
    pub written: usize,
    /// Finished orders whose last messages were sent again and acknowledged, and whose record now
    /// says so.
    pub confirmed: usize,
    /// Conditional writes that lost to another process, which now handles the order.
    pub conflicts: usize,
    /// Rows without work: the row was stale, the record is not due, or the record is gone.
    pub left: usize,
    /// Records that could not be read or written, pages that could not be read, and messages that could not be sent.
    /// A later sweep finds them again.
    pub failed: usize,
    /// Shards of the due index that could not be read to their end. Due orders there were not seen.
    pub unread: usize,
    /// Orders that this sweep admitted, after they were set aside for their workflow's cap or for an unreadable
    /// definition.
    pub admitted: usize,
    /// Since when the most overdue order that was found had been due; `None` if no due order was found.
    pub oldest_due: Option<Timestamp>,
    /// Whether the sweep stopped at its limit of time or of rows before it had read every shard, those of
    /// orders that are set aside included.
    pub truncated: bool,
}

impl<S, B, C, E> Supervisor<S, B, C, E>
where
    S: StateStore + DefinitionStore + ControlStore + Clone,
    B: Bus,
    C: Clock,
    E: Entropy,
{
    /// A Supervisor over its ports. Nothing is read or written yet.
    pub fn new(store: S, bus: B, clock: C, entropy: E, settings: Settings) -> Self {
        Self {
            definitions: Definitions::new(store.clone(), settings.refresh_definitions),
            misconfigured: Misconfigured::new(HANDLER),
            rests: Rests::new(settings.announce_apart),
            acknowledged: Acknowledged::default(),
            store,
            bus,
            clock,
            entropy,
            settings,
        }
    }

    /// Makes one sweep: handles the orders whose hint lies at least the clock skew in the past, then admits orders
    /// that were set aside and have room now.
    ///
    /// No further page is begun once `time` (milliseconds) has passed or [`Settings::sweep_limit`] rows were read, so
    /// a sweep may exceed both limits by one page. [`Report::truncated`] says that it stopped there; it then admits
    /// no further orders. The shards are read from a random one on, so that Supervisors with too little time do not
    /// always miss the same shards.
    ///
    /// A failure never ends a sweep: it is logged and counted in [`Report::failed`].
    pub async fn sweep(&self, time: Millis) -> Report {
        let began = self.clock.now();
        let report = self.sweep_all(time).await;
        report.measure_sweep(began, self.clock.now());
        self.misconfigured
            .publish_alert(&self.bus, &self.clock)
            .await;
        report
    }

    async fn sweep_all(&self, time: Millis) -> Report {
        let mut report = Report::default();
        let mut refusing = Refusing::default();
        let mut pace = Pace::default();
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
                        self.misconfigured.note_store(&e);
                        report.failed += 1;
                        report.unread += 1;
                        break;
                    }
                };
                self.take_up(found.rows, &mut refusing, &mut pace, &mut report)
                    .await;
                match found.next {
                    Some(next) => page = Some(next),
                    None => break,
                }
            }
        }
        self.let_in(ends, &mut report).await;
        report
    }

    /// Admits orders that are set aside and have room, or a definition that can be read by now. Orders of workflows
    /// without a cap may be set aside too.
    async fn let_in(&self, ends: Timestamp, report: &mut Report) {
        let first = (self.entropy.next_u64() % u64::from(ASIDE_SHARDS)) as u32;
        for shard in (0..ASIDE_SHARDS).map(|n| SHARDS + (first + n) % ASIDE_SHARDS) {
            if self.clock.now() >= ends {
                report.truncated = true;
                return;
            }
            if let Err(e) = self.let_in_of(shard, ends, report).await {
                tracing::warn!(shard, error = %e, "orders that are set aside could not be read or let in");
                self.misconfigured.note_store(&e);
                report.failed += 1;
            }
        }
    }

    async fn let_in_of(
        &self,
        shard: u32,
        ends: Timestamp,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let ports = Ports {
            store: &self.store,
            bus: &self.bus,
            clock: &self.clock,
            entropy: &self.entropy,
            definitions: &self.definitions,
            settings: &self.settings,
        };
        let caps = &self.settings.admission.per_workflow;
        let mut names = waiting(&self.store, shard).await?;
        if names.is_empty() {
            return Ok(());
        }
        // A workflow behind many orders of another workflow is not among the oldest rows.
        names.extend(
            caps.keys()
                .filter(|name| aside_shard(name) == shard)
                .cloned(),
        );
        let mut unreadable = Unreadable::new();
        for workflow in names {
            let mut most = match caps.get(&workflow) {
                Some(cap) => room(&self.store, &workflow, *cap).await?.0 as usize,
                None => self.settings.sweep_limit,
            };
            while most > 0 && self.clock.now() < ends {
                let page = most.min(self.settings.sweep_page as usize);
                let done = let_in(&ports, &workflow, page).await?;
                report.admitted += done.admitted;
                let definitions = done.unreadable.into_iter();
                unreadable.extend(definitions.map(|(w, why)| (Subject::Definition(w), why)));
                if done.admitted < page {
                    break;
                }
                most -= page;
            }
        }
        self.tell_unreadable(unreadable).await;
        Ok(())
    }

    /// Handles the rows of one page: load, plan, execute, report.
    async fn take_up(
        &self,
        rows: Vec<DueRow>,
        refusing: &mut Refusing,
        pace: &mut Pace,
        report: &mut Report,
    ) {
        report.found += rows.len();
        let ids = rows.into_iter().map(|r| r.order).collect();
        let found = self.load(ids).await;
        let now = self.clock.now();
        let found = self.revoke(found, now).await;
        let policy = Policy {
            timing: self.settings.timing,
            refusing,
            rests: self.rests.offer(self.settings.timing.announce_within, now),
        };
        let plan = Plan::new(found, policy, now);
        report.plan(&plan);
        let mut unreadable = Unreadable::new();
        for (subject, e) in plan.unread {
            self.note_failure(&e);
            if let (Some(subject), StoreError::Item(why)) = (subject, e) {
                unreadable.insert(subject, why);
            }
        }
        let mut deferred = plan.deferred;
        let passes = plan.carry_out.into_iter().map(|due| {
            report_breaches(&due.breaches);
            let carried = Carried {
                span: self.settings.traces.beside(&due.read.order, "sweep", now),
                ..Carried::new(due.pass)
            };
            (due.read, carried, due.rest)
        });
        let (mut waits, mut passes): (Vec<Swept>, Vec<Swept>) =
            passes.partition(|(read, carried, _)| pace::ends_wait(read, carried));
        self.carry_out(&mut passes).await;
        for group in waits.chunks_mut(pace::AT_ONCE) {
            pace.turn(&self.store, &self.clock).await;
            self.carry_out(group).await;
            pace.woke(group.iter().map(|(_, carried, _)| carried));
        }
        passes.append(&mut waits);
        let tracing = self.tracing();
        for (read, carried, rest) in passes {
            if rests_until(&carried) == Some(now.plus(rest)) {
                self.rests.take(rest, now);
            }
            self.acknowledged.note(&carried);
            traced::swept(&tracing, &read, &carried);
            let refused = carried.unwritten.iter().chain(&carried.unconfirmed);
            refused.for_each(|e| self.misconfigured.note_store(e));
            carried
                .unsent
                .iter()
                .for_each(|e| self.misconfigured.note_bus(e));
            report.count(&read, &carried, now);
            deferred.extend(refusing.note(&carried).map(|done| done.order));
            if let Task::Ended(PassEnd::Illegal(illegal)) = carried.pass.task() {
                unreadable.insert(Subject::Order(read.order.id.clone()), illegal.to_string());
            }
        }
        self.deferred(&deferred, now, report).await;
        self.tell_unreadable(unreadable).await;
    }

    async fn carry_out(&self, passes: &mut [Swept]) {
        let passes = passes.iter_mut().map(|(_, carried, _)| carried).collect();
        let tracing = self.tracing();
        carry_out(&self.store, &self.bus, &self.entropy, &tracing, passes).await;
    }

    async fn tell_unreadable(&self, unreadable: Unreadable) {
        let ports = (&self.store, &self.bus, &self.clock, &self.entropy);
        unreadable::publish_alert(ports, unreadable).await;
    }

    fn tracing(&self) -> Tracing<'_, C> {
        Tracing {
            traces: &self.settings.traces,
            clock: &self.clock,
        }
    }

    /// Reads the records themselves: the index is only a hint.
    async fn load(&self, ids: Vec<OrderId>) -> Vec<Candidate> {
        let mut found = Vec::with_capacity(ids.len());
        if ids.is_empty() {
            return found;
        }
        let records = self.store.load(ids.clone()).await;
        for (id, record) in ids.into_iter().zip(records) {
            found.push(match record {
                Ok(Some(order)) => {
                    let now = self.clock.now();
                    match self.definitions.pinned(&order.workflow, now).await {
                        Ok(workflow) => {
                            let read = Snapshot {
                                order: self.acknowledged.without_sent(order),
                                workflow,
                                details: None,
                            };
                            Candidate::Read(read, Ok(Untaken::new()))
                        }
                        Err(e) => Candidate::Unread(Subject::Definition(order.workflow), e),
                    }
                }
                Ok(None) => Candidate::Gone,
                Err(e) => Candidate::Unread(Subject::Order(id), e),
            });
        }
        found
    }

    /// Revokes attempts without a reply in the call ledger, unless an agent has taken them. If the ledger cannot be
    /// read for an order, the order is left for a later sweep.
    async fn revoke(&self, mut found: Vec<Candidate>, now: Timestamp) -> Vec<Candidate> {
        for candidate in &mut found {
            let Candidate::Read(read, untaken) = candidate else {
                continue;
            };
            let ctx = read.context(self.settings.timing);
            for attempt in ledger::to_revoke(&ctx, &read.order, now) {
                match revoke::revoke(&self.store, &self.entropy, &attempt).await {
                    Ok(true) => {
                        if let Ok(untaken) = untaken {
                            untaken.insert(attempt.step);
                        }
                    }
                    Ok(false) => {}
                    Err(e) => *untaken = Err(e),
                }
            }
        }
        found
    }

    fn note_failure(&self, e: &StoreError) {
        self.misconfigured.note_store(e);
        log_failure(e);
    }
}

/// Until when an order that waits for a Scheduler is not announced again, if that was written.
fn rests_until(carried: &Carried) -> Option<Timestamp> {
    let Task::Ended(PassEnd::Done(done) | PassEnd::Unsent(done)) = carried.pass.task() else {
        return None;
    };
    let state = &done.order.state;
    let waits = done.was_written && state.locked_by().is_none() && !state.is_finished();
    done.order.complete_by().filter(|_| waits)
}

impl Report {
    /// Whether every shard was read to its end and the sweep was not cut short ([`Self::truncated`]). Only then does
    /// the sweep count as complete: otherwise overdue orders may be unseen.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.unread == 0 && !self.truncated
    }

    /// Writes the sweep's line into the log: as an error if a shard could not be read, as a warning if it
    /// was cut short. Otherwise the line is at level `info` if anything was due or failed, or if `always` is
    /// true, else at level `debug`.
    pub fn log(&self, always: bool) {
        macro_rules! line {
            ($level:ident, $text:literal) => {
                tracing::$level!(
                    found = self.found,
                    waiting = self.waiting,
                    written = self.written,
                    confirmed = self.confirmed,
                    conflicts = self.conflicts,
                    left = self.left,
                    failed = self.failed,
                    unread = self.unread,
                    admitted = self.admitted,
                    oldest_due_ms = self.oldest_due.map(|at| at.0),
                    truncated = self.truncated,
                    $text
                )
            };
        }
        if self.unread > 0 {
            line!(error, "sweep: a shard of the due index could not be read");
        } else if self.truncated {
            line!(warn, "sweep: cut short, not every shard was read");
        } else if always || self.found > 0 || self.failed > 0 {
            line!(info, "sweep");
        } else {
            line!(debug, "sweep");
        }
    }

    fn measure_sweep(&self, began: Timestamp, ended: Timestamp) {
        let result = match (self.unread > 0, self.truncated) {
            (true, _) => "unread",
            (false, true) => "truncated",
            (false, false) => "whole",
        };
        metric::swept(result, self.found, self.oldest_due, (began, ended));
    }

    /// Counts a plan, except its passes, which are counted one by one when they end.
    fn plan(&mut self, plan: &Plan) {
        self.left += plan.left;
        self.failed += plan.unread.len() + plan.deferred.len();
        let waits = |(subject, why): &&(Option<Subject>, StoreError)| {
            matches!(subject, Some(Subject::Definition(_))) && matches!(why, StoreError::Item(_))
        };
        let waiting = plan.unread.iter().filter(waits).count();
        self.waiting += waiting;
        self.found -= waiting;
        self.oldest_due = [self.oldest_due, plan.oldest_due]
            .into_iter()
            .flatten()
            .min();
    }

    /// Counts the result of one record.
    fn count(&mut self, read: &Snapshot, carried: &Carried, now: Timestamp) {
        match carried.pass.task() {
            Task::Ended(PassEnd::Done(done)) => {
                self.written += usize::from(done.was_written);
                self.confirmed += usize::from(done.was_confirmed);
                self.ended(read, done, now);
                if let Some(e) = &carried.unconfirmed {
                    self.failed += 1;
                    log_failure(e);
                }
            }
            Task::Ended(PassEnd::Unsent(done)) => {
                self.written += usize::from(done.was_written);
                self.failed += 1;
                self.ended(read, done, now);
                if let Some(e) = &carried.unsent {
                    tracing::warn!(order = %read.order.id, error = %e, "a message could not be sent; the next sweep sends it again");
                }
            }
            Task::Ended(PassEnd::Ignored(_) | PassEnd::Refused(_) | PassEnd::Absent) => {
                self.left += 1
            }
            Task::Ended(PassEnd::Raced) => self.conflicts += 1,
            Task::Ended(PassEnd::Unwritten) => {
                self.failed += 1;
                if let Some(e) = &carried.unwritten {
                    log_failure(e);
                }
            }
            Task::Ended(PassEnd::Illegal(illegal)) => {
                tracing::error!(order = %read.order.id, error = %illegal, "the record does not fit its definition");
                self.failed += 1;
            }
            // The Supervisor starts no step, so no decision of its own needs the details.
            _ => {
                tracing::error!(order = %read.order.id, "a pass of the Supervisor did not end");
                self.failed += 1;
            }
        }
    }

    fn ended(&self, read: &Snapshot, done: &pass::Carried, now: Timestamp) {
        if done.was_written {
            metric::count_transition(&read.order, &done.order, now);
        }
    }
}

fn log_failure(e: &StoreError) {
    tracing::warn!(error = %e, "an overdue order could not be handled; the next sweep tries again");
}
