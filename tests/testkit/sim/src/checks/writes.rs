//! Checks every write, and carries it out: the check compares the states before and after, and then the checker's
//! memory is updated.

use std::sync::Arc;

use triad_core::budget;
use triad_core::decide::true_due;
use triad_core::history::untold;
use triad_core::ledger::{self, Mark};
use triad_core::message::AlertKind;
use triad_core::order::{Incident, IncidentKind};
use triad_core::outbox::{Emission, Writer};
use triad_core::{
    Direction, Envelope, FailureKind, IdempotencyKey, Order, OrderId, ProcessState, StepRecord,
    StepState, Timestamp, Work, invariants,
};
use triad_runtime::{Created, NewOrder, Write, Written};
use triad_workflow::{Millis, Step, StepIndex, Workflow};

use crate::definitions::{self, TIMING};
use crate::kernel::InstanceId;
use crate::store::NotCarriedOut;
use crate::world::State;

/// Longest time until the next check of an unfinished order, which is the check of a paused order.
const LOOKED_AT_WITHIN: Millis = Millis(24 * 3_600_000);

impl State {
    /// Stores a new order in one transaction.
    pub(crate) fn create(&mut self, who: InstanceId, new: &NewOrder) -> Created {
        let id = &new.order.id;
        if let Some(digest) = self.store.digest(id) {
            return Created::Exists { digest };
        }
        self.kernel.note(who, || format!("store: creates {id}"));
        if new.order.parent.is_none() {
            self.check_admission(id);
        } else if new.order.state.is_finished() {
            let seen = "saw: child order compensated before it was stored";
            self.kernel.coverage.reach(seen);
        }
        self.check_record(&new.order);
        self.store.insert(&mut self.kernel, new);
        if self.stores_with_record(who, &new.messages) {
            self.kernel
                .coverage
                .reach("saw: status received stored with its order");
            return Created::WithMessages;
        }
        Created::Created
    }

    /// Carries out one conditional write of a writer with this retention of finished records.
    pub(crate) fn write(
        &mut self,
        who: InstanceId,
        (write, kept): &(Write, Option<u64>),
    ) -> Written {
        self.store.store_outputs(&mut self.kernel, &write.next);
        let before = match self.store.replaced_by(&mut self.kernel, who, write) {
            Ok(before) => before,
            Err(NotCarriedOut::Conflict) => return Written::Conflict,
            Err(NotCarriedOut::Itself) => return Written::Written,
        };
        let has_topics = self.setup.one_machine;
        let is_stored = self.stores_with_record(who, &write.messages);
        let next = match has_topics && !is_stored {
            true => write.without_messages(),
            false => write.next.clone(),
        };
        if next.due != write.next.due {
            self.kernel
                .coverage
                .reach("saw: end due for a sweep, stored without its status");
        }
        let write = Write {
            next,
            ..write.clone()
        };
        self.check_write(who, &before, &write.next);
        self.store.replace(&mut self.kernel, &before, &write, *kept);
        match is_stored {
            true => {
                let seen = "saw: statuses stored with their record";
                self.kernel.coverage.reach(seen);
                Written::WithMessages
            }
            false => Written::Written,
        }
    }

    /// Stores the messages of a record in its transaction, if this world is one machine and its topics take them.
    fn stores_with_record(&mut self, who: InstanceId, messages: &[Envelope]) -> bool {
        let State { kernel, bus, .. } = self;
        self.setup.one_machine && bus.store_with_record(kernel, who, messages)
    }

    fn check_record(&mut self, order: &Order) {
        let Some(workflow) = definitions::compiled(&order.workflow) else {
            return;
        };
        let found = invariants::of_record(order, &workflow);
        self.found(found);
    }

    /// Reports the breaches that the core has found in a record or a write.
    fn found(&mut self, found: Vec<invariants::Breach>) {
        self.kernel.coverage.reach("invariants-of-the-core");
        for breach in found {
            self.kernel.breach(breach.invariant, breach.seen);
        }
    }

    /// Every attempt must be recorded, in its step's state or in a line of the timeline.
    fn check_history(&mut self, after: &Order) {
        let holds = after.dropped.is_some() || untold(after).is_empty();
        self.kernel.check("the-history-is-whole", holds, || {
            format!("order {}: {:?}", after.id, untold(after))
        });
    }

    /// An output that a record names can be read.
    fn check_outputs(&mut self, after: &Order) {
        let missing = self.store.missing_outputs(after);
        self.kernel
            .check("a-named-output-is-stored", missing.is_empty(), || {
                format!("order {}: {missing:?}", after.id)
            });
    }

    /// Checks a write.
    fn check_write(&mut self, who: InstanceId, before: &Order, after: &Order) {
        let Some(workflow) = definitions::compiled(&after.workflow) else {
            // Not an order of a simulated workload.
            return;
        };
        if before.workflow == after.workflow {
            let found = invariants::of_write(before, after, &workflow);
            self.found(found);
            self.check_steps(before, after, &workflow);
            self.check_waits(before, after, &workflow);
            self.check_events(before, after, &workflow);
        } else {
            // In the other version a step may be at another position, so single steps are not compared.
            let found = invariants::of_record(after, &workflow);
            self.found(found);
            self.check_migration(before, after);
        }
        self.check_amendment(before, after, &workflow);
        self.reach_children(before, after);
        self.check_claim(who, before, after);
        self.reach_writes(before, after);
        self.watch_load(before, after);
        self.check_order_deadline(before, after, &workflow);
        self.remember_end(before, after);
        self.remember_acts(before, after);
        self.check_history(after);
        self.check_outputs(after);
        self.check_hint(after, &workflow);
        self.check_shape(before, after, &workflow);
    }

    /// An order whose next input reads an answer and has no value stops for an operator: the work of the step that was
    /// answered is done, and is not compensated for the shape of the answer.
    fn check_shape(&mut self, before: &Order, after: &Order, workflow: &Workflow) {
        let cause = match &after.state {
            ProcessState::Compensating { cause, .. } | ProcessState::Error { cause, .. } => cause,
            _ => return,
        };
        let is_new = before.state.name() != after.state.name();
        let is_of_input = cause.kind == FailureKind::Definition && cause.code == "expression";
        let (true, true, Some(id)) = (is_new, is_of_input, &cause.step) else {
            return;
        };
        let Some(step) = workflow.steps.iter().find(|step| step.id == *id) else {
            return;
        };
        let failed = step.expressions().filter(|expression| {
            cause
                .message
                .contains(&format!("`{}`", expression.source()))
        });
        let mut reads = failed.flat_map(|expression| expression.steps());
        let was_done = |id: &String| {
            let record = before.steps.iter().find(|s| s.step.as_str() == id);
            record.is_some_and(|record| record.state.output().is_some())
        };
        if !reads.any(was_done) {
            return;
        }
        let stops = matches!(after.state, ProcessState::Error { .. });
        if stops {
            let seen = "saw: order stopped for the shape of an answer";
            self.kernel.coverage.reach(seen);
        }
        // An operator who cancels such an order has it compensated.
        let holds = stops || after.outbox.writer == Writer::Operator;
        let name = "g5-work-is-not-compensated-for-the-shape-of-an-answer";
        self.kernel
            .check(name, holds, || format!("order {}: {cause:?}", after.id));
    }

    /// Counts acts of the Scheduler that only some workflows cause.
    fn reach_writes(&mut self, before: &Order, after: &Order) {
        if after.outbox.writer != Writer::Scheduler {
            return;
        }
        let failures = |o: &Order| o.steps.iter().map(|s| s.action.failures).sum::<u32>();
        let asks = |e: &Emission| matches!(e, Emission::Request { .. });
        let is_running = matches!(after.state, ProcessState::Processing(_));
        if is_running && failures(after) > failures(before) && after.outbox.entries.iter().any(asks)
        {
            self.kernel.coverage.reach("policy: retry by the Scheduler");
        }
        let tells = |e: &Emission| matches!(e, Emission::Status { step: Some(_), .. });
        if after.outbox.entries.iter().any(tells) {
            self.kernel.coverage.reach("progress: step told");
        }
    }

    fn check_migration(&mut self, before: &Order, after: &Order) {
        let last = after.incidents.last().map(|i| i.what);
        let told = last == Some(triad_core::order::IncidentKind::Migrated);
        let is_an_act = told
            && after.version == before.version.next()
            && after.outbox.writer == Writer::Operator;
        self.kernel
            .check("an-order-keeps-its-definition", is_an_act, || {
                format!("{}: {} to {}", after.id, before.workflow, after.workflow)
            });
        self.kernel.coverage.reach("operator: migrate");
        self.history.uneven.insert(after.id.clone());
        self.history.moved.insert(after.id.clone());
        self.history.waits.retain(|(id, ..), _| *id != after.id);
    }

    /// Checks a write's changes of single steps.
    fn check_steps(&mut self, before: &Order, after: &Order, workflow: &Workflow) {
        for (index, (was, is)) in before.steps.iter().zip(&after.steps).enumerate() {
            self.check_first_meeting(after.outbox.writer, was, is);
            let stays_out = was
                .state
                .out()
                .zip(is.state.out())
                .is_some_and(|(was, is)| was.is_same(&is));
            if was.state == is.state || stays_out {
                continue;
            }
            let probing = is
                .state
                .out()
                .is_some_and(|o| o.direction == Direction::Probe);
            if probing || is.state.deferred_until().is_some() {
                self.history.uneven.insert(after.id.clone());
            }
            if is.state == StepState::Skipped {
                self.history.skipped.insert((after.id.clone(), index));
            }
            if after.outbox.writer == Writer::Supervisor {
                self.reach_policy(index, after, workflow);
                self.check_patience(was, is, &workflow.steps[index]);
                self.check_silence((before, after), was, is, &workflow.steps[index]);
            }
        }
        let pivot = workflow.pivot().and_then(|p| before.steps.get(p));
        let pivot = pivot.map(|record| &record.state);
        let turned = |o: &Order| matches!(o.state, ProcessState::Compensating { .. });
        if matches!(pivot, Some(StepState::Completed { .. })) {
            let goes_on = !turned(after) || turned(before);
            self.kernel
                .check("past-the-pivot-nothing-is-compensated", goes_on, || {
                    format!("{} is compensated", after.id)
                });
        }
    }

    /// The Supervisor must retry an attempt without a reply only after its complete-by has passed by every clock; a
    /// deferral within `defer_for` must not count as a failure.
    fn check_patience(&mut self, was: &StepRecord, is: &StepRecord, step: &Step) {
        let retried = matches!(
            is.state.work(),
            Some(Work::Due { .. } | Work::Delayed { .. })
        );
        if !retried || self.setup.wild_clocks {
            return;
        }
        let slack = TIMING.skew.0 / 2;
        // When an order begins its compensation, steps without a reply are compensated at once.
        let turns = was.state.to_compensate().is_none() && is.state.to_compensate().is_some();
        let now = self.kernel.now;
        if let Some(at) = was.state.complete_by().filter(|_| !turns) {
            let has_waited = now >= at.0 + TIMING.skew.0 - slack;
            self.kernel
                .check("the-supervisor-waits-for-complete-by", has_waited, || {
                    format!("{was:?} at {now}")
                });
        }
        let failed = is.action.failures > was.action.failures
            || is.compensation.failures > was.compensation.failures;
        if let Some(since) = was.state.deferred_until().and(was.state.deferred_since()) {
            let patience = step.call().map_or(0, |call| call.policy.defer_for.0);
            let holds = !failed || now + slack > since.0 + patience;
            self.kernel
                .check("what-is-put-off-is-no-failure", holds, || {
                    format!("{was:?} at {now}")
                });
        }
    }

    /// The Supervisor may find an attempt to be over when complete-by has passed by every clock; a Scheduler with a
    /// late reply, when it has passed by its own clock.
    fn check_first_meeting(&mut self, writer: Writer, was: &StepRecord, is: &StepRecord) {
        let met = was.state.unheard_since().is_none() && is.state.unheard_since().is_some();
        if !met || self.setup.wild_clocks {
            return;
        }
        let slack = TIMING.skew.0 / 2;
        let now = self.kernel.now;
        let waits = match writer {
            Writer::Scheduler => 0,
            Writer::Submission | Writer::Supervisor | Writer::Operator => TIMING.skew.0,
        };
        if let Some(at) = was.state.complete_by() {
            let has_waited = now + slack >= at.0 + waits;
            self.kernel
                .check("the-supervisor-waits-for-complete-by", has_waited, || {
                    format!("{was:?} at {now}")
                });
        }
    }

    /// An attempt without a reply counts as a failure only if an agent has taken it, and only after a reply sent in
    /// time could have been read.
    fn check_silence(
        &mut self,
        (order, after): (&Order, &Order),
        was: &StepRecord,
        is: &StepRecord,
        step: &Step,
    ) {
        let Some(out) = was.state.out() else {
            return;
        };
        let failures = |r: &StepRecord| r.action.failures + r.compensation.failures;
        let is_counted = failures(is) > failures(was);
        if !is_counted {
            self.history.uneven.insert(order.id.clone());
        }
        if self.setup.wild_clocks {
            return;
        }
        let heard = out
            .unheard_since
            .map(|since| since.plus(TIMING.hear_within));
        // When an order begins its compensation, steps without a reply are compensated at once.
        let turned = |o: &Order| matches!(o.state, ProcessState::Compensating { .. });
        let turns = turned(after) && !turned(order);
        let slack = TIMING.skew.0;
        let now = self.kernel.now;
        if !turns && is.state != was.state {
            let awaited = heard.is_some_and(|at| now + slack >= at.0);
            let name = "replies-that-were-sent-in-time-are-awaited";
            self.kernel
                .check(name, awaited, || format!("{was:?} at {now}"));
        }
        if !is_counted {
            self.kernel.coverage.reach("silence: not counted");
            return;
        }
        let key = IdempotencyKey::of(&order.id, &was.step, out.direction, was.key);
        let mark = self.control.read(
            self.kernel.now,
            &ledger::key(&key, out.direction, out.attempt),
        );
        let taken = mark
            .and_then(|found| serde_json::from_value::<Mark>(found.value).ok())
            .is_some_and(|m| !m.revoked);
        let waited = out
            .deferred_since
            .map_or(0, |since| self.kernel.now.saturating_sub(since.0));
        let patience = match (&step.compensation, out.direction) {
            (Some(compensation), Direction::Compensate) => compensation.policy.defer_for,
            _ => step.call().map_or(Millis(0), |call| call.policy.defer_for),
        };
        self.kernel.coverage.reach(match taken {
            true => "silence: counted, for an agent had taken it",
            false => "silence: counted at the end of the patience",
        });
        let [before, spent] = [was, is].map(|record| record.leg(out.direction).calls);
        let allowed = budget::allowance(step, was, out.direction);
        let is_spent = !taken || spent == before + allowed;
        let name = "g5-a-taken-attempt-has-used-its-allowance";
        self.kernel.check(name, is_spent, || {
            format!("{}: {spent} calls after {was:?}", order.id)
        });
        let is_at_its_end = taken || waited + slack >= patience.0;
        self.kernel
            .check("g12-waiting-is-no-failure", is_at_its_end, || {
                format!("{}: {was:?} at {now}", order.id)
            });
    }

    fn reach_policy(&mut self, index: StepIndex, after: &Order, workflow: &Workflow) {
        let step = &workflow.steps[index];
        let record = &after.steps[index];
        let delayed = record.state.delayed_until().is_some();
        let code = record.error.as_ref().map_or("", |error| &error.code);
        let Some(policy) = step.policy_after(code) else {
            return;
        };
        let is_of_code = step.by_code.contains_key(code);
        let reached = match &after.state {
            ProcessState::Pending { .. } | ProcessState::Processing(_) => {
                match (delayed, record.state.is_retry_due()) {
                    (true, _) if record.failures_like(code) > policy.failure_threshold => {
                        "policy: wait long"
                    }
                    (true, _) if is_of_code => "policy: retry after the delay of a code",
                    (true, _) => "policy: retry after a delay",
                    (_, true) if record.action.failures > 0 => "policy: retry at once",
                    _ => return,
                }
            }
            ProcessState::Error { .. } => "policy: error",
            ProcessState::Compensating { .. } if record.compensation.failures > 0 => {
                "policy: retry the compensation"
            }
            ProcessState::Compensating { .. } => "policy: compensate",
            ProcessState::CompensationFailed { .. } => "policy: give the compensation up",
            _ => return,
        };
        self.kernel.coverage.reach(reached);
    }

    /// The due hint must not be later than the true due time, and at most a day away.
    fn check_hint(&mut self, after: &Order, workflow: &Workflow) {
        if after.state.is_finished() || self.setup.wild_clocks {
            return;
        }
        let Some(due) = true_due(&definitions::context(workflow), after) else {
            return;
        };
        // Clocks may differ by the skew; apart from that the hint must not be later than the true due time.
        let hint = after.due.unwrap_or(Timestamp(u64::MAX));
        let now = Timestamp(self.kernel.now).plus(TIMING.skew);
        let holds = hint <= due || due <= now;
        self.kernel
            .check("g1-hint-not-later-than-the-truth", holds, || {
                format!("{}: hint {hint:?}, due {due:?}", after.id)
            });
        let is_watched = hint <= now.plus(LOOKED_AT_WITHIN);
        self.kernel
            .check("g1-somebody-looks-within-a-day", is_watched, || {
                format!("{}: hint {hint:?} at {now:?}", after.id)
            });
    }

    /// A claim id must be used once, for one order, and contain the claiming instance.
    fn check_claim(&mut self, who: InstanceId, before: &Order, after: &Order) {
        let (Some(new), old) = (after.state.locked_by(), before.state.locked_by()) else {
            return;
        };
        if old == Some(new) {
            return;
        }
        let is_alone = old.is_none() && !self.history.claims.contains_key(&new.0);
        self.kernel.check("g4-one-live-claim", is_alone, || {
            format!("{}: {new} after {old:?}", after.id)
        });
        let name = self.kernel.name_of(who).to_owned();
        let is_named = new.instance() == Some(&name);
        self.kernel
            .check("a-claim-names-who-made-it", is_named, || {
                format!("{}: {new}, written by {name}", after.id)
            });
        self.history.claims.insert(new.0.clone(), after.id.clone());
    }

    /// G6: remembers that a bad end requires one alert, with its cause.
    fn remember_end(&mut self, before: &Order, after: &Order) {
        // Resolving one of several doubts changes the cause, but is not a new end.
        let same_end = before.state.finished_at() == after.state.finished_at();
        if before.state == after.state || same_end {
            return;
        }
        let (kind, name, at, cause) = match &after.state {
            ProcessState::Error { at, cause } => (AlertKind::OrderError, "Error", at, cause),
            ProcessState::CompensationFailed { at, cause, .. } => (
                AlertKind::CompensationFailed,
                "CompensationFailed",
                at,
                cause,
            ),
            _ => return,
        };
        let id = format!("{}/{name}/{}", after.id, at.0);
        self.history.alerts.insert(id, (kind, cause.to_string()));
    }

    fn remember_acts(&mut self, before: &Order, after: &Order) {
        use IncidentKind as Is;
        for incident in &after.incidents {
            // A later write may shorten a line, and a line about a wait may come to cover further attempts.
            let is_same = |was: &Incident| {
                (was.at, was.what, &was.step, was.attempt)
                    == (incident.at, incident.what, &incident.step, incident.attempt)
            };
            if before.incidents.iter().any(is_same) {
                continue;
            }
            self.kernel.coverage.reach(match incident.what {
                Is::AttemptFailed => "incident: attempt failed",
                Is::CompensationFailed => "incident: compensation failed",
                Is::CompensationBegan => "incident: compensation began",
                Is::Completed => "incident: had completed",
                Is::Compensated => "incident: had been compensated",
                Is::Abandoned => "incident: attempt abandoned",
                Is::Deferred => "incident: deferred",
                Is::Late => "deadline: missed past the point of no return",
                Is::InProgress => "incident: in progress",
                Is::Probed => "incident: probed",
                Is::Resubmitted => "operator: resubmit",
                Is::Cancelled => "operator: cancel",
                Is::CompensationRetried => "operator: retry-compensation",
                Is::Closed => "operator: close",
                Is::Amended => "operator: amend",
                Is::Decided => "incident: decided",
                Is::Paused => "operator: pause",
                Is::Resumed => "operator: resume",
                Is::Resolved => "operator: resolve",
                Is::Migrated => "operator: migrate",
            });
            self.check_refused_caller(after, incident);
            if incident.what == Is::Resubmitted && incident.step.is_some() {
                self.kernel
                    .coverage
                    .reach("operator: resubmit with another input");
            }
            if matches!(
                incident.what,
                Is::Resubmitted | Is::CompensationRetried | Is::Resolved
            ) {
                *self.history.resets.entry(after.id.clone()).or_default() += 1;
                self.history.uneven.insert(after.id.clone());
            }
        }
    }

    /// If a service refuses its caller's credentials, no attempt may fail, unless an earlier attempt has left an
    /// effect in doubt that may not be repeated.
    fn check_refused_caller(&mut self, after: &Order, incident: &Incident) {
        let is_failure = matches!(
            incident.what,
            IncidentKind::AttemptFailed | IncidentKind::CompensationFailed
        );
        let answer = incident.calls.is_some();
        let code = incident.failure.as_ref().map(|f| f.code.as_str());
        let in_doubt = after.steps.iter().any(|s| s.in_doubt.is_some());
        let holds = !is_failure || !answer || code != Some("http-401") || in_doubt;
        let name = "what-refuses-its-caller-fails-no-order";
        self.kernel
            .check(name, holds, || format!("order {}: {incident:?}", after.id));
    }

    /// Checks the cap on orders in flight, in worlds whose index shows all orders.
    fn check_admission(&mut self, id: &OrderId) {
        let f = &self.kernel.faults_at_first;
        let blurred = f.stall + f.freeze + f.late_write > 0 || self.setup.wild_clocks;
        let Some(cap) = self.setup.admission.in_flight else {
            return;
        };
        if blurred || !f.index_is_true() || self.setup.operators > 0 {
            return;
        }
        // A set-aside order is stored but not in flight. Orders with an operator's new run are not counted, because a
        // run is not subject to the cap.
        let was_acted_on = |o: &Order| o.incidents.iter().any(|i| i.act.is_some());
        // A child order has its place with its parent.
        let is_counted = |o: &&Arc<Order>| o.parent.is_none() && !was_acted_on(o);
        let orders = self.store.orders().filter(is_counted);
        let in_flight = orders.filter(|o| o.due.is_some() && o.set_aside.is_none());
        let with_it = in_flight.count() + 1;
        // A single Submission keeps the cap exactly; of several, each may admit orders that the others do not see
        // yet.
        let is_alone =
            self.setup.sizes.submissions == 1 && self.setup.admission.per_workflow.is_empty();
        let side_by_side = match is_alone {
            true => 0,
            false => self.setup.sizes.orders_partitions + 2,
        };
        let holds = with_it <= cap as usize + side_by_side;
        self.kernel
            .check("the-cap-on-orders-in-flight-holds", holds, || {
                format!("{id} makes {with_it}, the cap is {cap}")
            });
    }
}
