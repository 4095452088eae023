//! Pacing: whether an event's order may start, the effect of replies on the windows, and the reports to operators.
//! The rules are in the [intake](super::intake).

use std::collections::BTreeSet;
use std::sync::PoisonError;

use triad_core::message::{Reply, ReplyOutcome};
use triad_core::needs::{agents_with_requests_out, needs};
use triad_core::pass::Snapshot;
use triad_core::{Direction, NeedsDetails, Order, Priority, ProcessState, Timestamp};
use triad_workflow::{AgentName, Millis, Workflow};

use super::intake::{Candidate, InboxEntry};
use super::{LastTold, ReadMessage, Scheduler};
use crate::control::ControlStore;
use crate::metric;
use crate::ports::{Bus, Clock, DefinitionStore, Entropy, StateStore, Written};
use crate::pressure;
use crate::record::InputRecord;

impl<S, B, C, E> Scheduler<S, B, C, E>
where
    S: StateStore + DefinitionStore + ControlStore + Clone,
    B: Bus,
    C: Clock,
    E: Entropy,
{
    /// Applies an event to the windows, and returns whether an order that it would start may start.
    ///
    /// # Errors
    /// [`NeedsDetails`] if that depends on the order's details.
    pub(super) fn passes(
        &self,
        known: &mut ReadMessage,
        records: &[InputRecord],
        now: Timestamp,
    ) -> Result<bool, NeedsDetails> {
        let ReadMessage { work, read, .. } = known;
        if work.is_passed || work.input.is_incoming() {
            work.is_passed = true;
            return Ok(true);
        }
        let order = &read.order;
        let partition = records[work.index].partition;
        self.intake.reads(order.priority, partition, now);
        if let Some(reply) = work.input.reply() {
            work.is_passed = true;
            if is_awaited(read, reply) {
                self.hear(reply, work.unread, order.priority, &read.workflow, now);
            }
            return Ok(true);
        }
        let waits = matches!(
            order.state,
            ProcessState::Pending { .. }
                | ProcessState::Compensating {
                    locked_by: None,
                    ..
                }
        );
        if !waits || order.paused.is_some() {
            work.is_passed = true;
            return Ok(true);
        }
        let needs = needs(&read.context(self.settings.timing), order)?;
        work.is_passed = true;
        if needs.is_empty() {
            // The order needs no service, and ends with its claim, so there is nothing to wait for.
            return Ok(true);
        }
        let candidate = Candidate {
            order: &work.id,
            since: queued_since(order, now),
            needs,
            record: &records[work.index],
        };
        Ok(match self.intake.enter(order.priority, candidate, now) {
            InboxEntry::Start => true,
            InboxEntry::Waits => false,
            InboxEntry::Full => {
                tracing::debug!(order = %work.id, "too many orders wait in this process: the Supervisor announces this one later");
                false
            }
        })
    }

    /// Updates a downstream's window from a reply.
    fn hear(
        &self,
        reply: &Reply,
        unread: Millis,
        lane: Priority,
        workflow: &Workflow,
        now: Timestamp,
    ) {
        let Some(step) = workflow.step_index(reply.step.as_str()) else {
            return;
        };
        let step = &workflow.steps[step];
        let agent = match (reply.direction, &step.compensation) {
            (Direction::Compensate, Some(compensation)) => Some(&compensation.agent),
            _ => step.call().map(|call| &call.agent),
        };
        let Some(agent) = agent else { return };
        let Some(pace) = reply.pace else { return };
        match &reply.outcome {
            ReplyOutcome::Deferred {
                until,
                opens,
                failure,
                ..
            } => match failure.code.as_str() {
                "breaker-open" | "downstream-paused" => {
                    // The window is shut until the downstream opens, and not until this order's own next attempt,
                    // which may be long after that.
                    self.intake.shut(lane, agent, opens.unwrap_or(*until), now);
                }
                // Only one step type is paused, and other orders need the same downstream.
                "step-paused" => {}
                _ => {
                    let made = now.minus(Millis(pace.waited_ms.saturating_add(pace.took_ms)));
                    self.intake.shrink(lane, agent, made, now);
                }
            },
            ReplyOutcome::Succeeded { .. }
            | ReplyOutcome::InProgress(_)
            | ReplyOutcome::Failed { .. } => {
                self.intake.answered(lane, agent, pace, unread, now);
            }
        }
    }

    /// Notes whether an order is under way, and its remaining needs, as far as they are known.
    pub(super) fn track(&self, read: &Snapshot, now: Timestamp) {
        let Snapshot { order, .. } = read;
        let ctx = read.context(self.settings.timing);
        let at = agents_with_requests_out(&ctx, order);
        let needs = match at.is_empty() {
            true => BTreeSet::new(),
            false => needs(&ctx, order).unwrap_or_else(|NeedsDetails| at.clone()),
        };
        self.intake
            .track(order.priority, &order.id, at, &needs, now);
    }

    /// For an event that changed nothing, notes only that its order is at no downstream. Such an event may repeat, so
    /// it is no sign of progress.
    pub(super) fn has_ended(&self, read: &Snapshot) {
        let Snapshot { order, .. } = read;
        if agents_with_requests_out(&read.context(self.settings.timing), order).is_empty() {
            self.intake.forget(order.priority, &order.id);
        }
    }

    /// Reports held-back orders to operators: at intervals while there are some, and once more when there are none,
    /// so that no outdated report stays.
    pub(super) async fn report_pressure(&self) {
        let now = self.clock.now();
        if metric::is_measured() {
            metric::held_back(&self.intake.held_back(now));
        }
        let waits = self.is_waiting();
        {
            let mut last = self
                .told
                .last
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let is_due = match waits {
                true => !last.at.is_near(now, pressure::EVERY),
                false => last.waits,
            };
            if !is_due {
                return;
            }
            *last = LastTold { at: now, waits };
        }
        let report = pressure::Report {
            at: now,
            downstreams: self.intake.pressure(),
        };
        for one in report.downstreams.iter().filter(|one| one.waiting > 0) {
            tracing::info!(
                agent = one.agent.as_ref().map(AgentName::as_str),
                lane = one.lane.name(),
                waiting = one.waiting,
                under_way = one.under_way,
                bound = one.bound,
                "orders wait for room"
            );
        }
        let token = self.entropy.next_u64();
        let told = pressure::report(&self.store, self.told.place, &report, token).await;
        if let Err(e) = &told {
            tracing::warn!(error = %e, "the report of held-back orders could not be written");
        }
        if told != Ok(Written::Written) {
            // If the report could not be cleared, the next batch tries again.
            let mut last = self
                .told
                .last
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            last.waits = true;
        }
    }
}

/// Whether a reply is the one that an order waits for. Any other reply says nothing about the downstream: a request
/// that is redelivered, because a record before it cannot be finished, is answered again, with a wait that seems to
/// last since it was made.
fn is_awaited(read: &Snapshot, reply: &Reply) -> bool {
    let step = read.workflow.step_index(reply.step.as_str());
    let out = step.and_then(|step| read.order.steps[step].state.out());
    out.is_some_and(|out| out.direction == reply.direction && out.attempt == reply.attempt)
}

/// Since when an order waits for room in its lane: since its submission, or since its attempt was deferred or taken
/// by no agent, behind all orders without an attempt.
fn queued_since(order: &Order, now: Timestamp) -> Timestamp {
    let was_deferred = order
        .steps
        .iter()
        .any(|s| s.state.deferred_since().is_some());
    match was_deferred {
        true => now,
        false => order.submitted_at,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use triad_core::{Accepted, Attempt, StepState, Work};
    use triad_workflow::{Limits, Workflow};

    use super::*;

    /// Otherwise it would take its agent's room again and again, while no agent reads its request.
    #[test]
    fn an_order_whose_attempt_nobody_took_queues_behind_those_that_were_not_tried() {
        let definition = json!({"workflow": "w", "steps": [
            {"id": "pay", "agent": "bank", "action": "take", "compensation": "none"}]});
        let definition = serde_json::from_value(definition).expect("a definition");
        let workflow = Workflow::compile(definition, &Limits::published()).expect("it is sound");
        let accepted: Accepted = serde_json::from_value(json!({
            "order_id": "o", "workflow": format!("w@{}", workflow.hash),
            "submitted_at": 1_000, "due": 2_000, "details": {}}))
        .expect("it is accepted");
        let mut order = Order::new(&accepted, &workflow, Timestamp(2_000));
        assert_eq!(queued_since(&order, Timestamp(9_000)), Timestamp(1_000));
        order.steps[0].state = StepState::Acting(Work::Due {
            last: Attempt(1),
            deferred_since: Some(Timestamp(5_000)),
        });
        assert_eq!(queued_since(&order, Timestamp(9_000)), Timestamp(9_000));
    }
}
