//! Pacing: whether what an event wants started may be, what replies say of the downstreams, and what
//! operators are told of it. The rules are the [intake](super::intake)'s.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use triad_core::message::{Outcome, Reply, SchedulerMessage};
use triad_core::needs::{asked, needs};
use triad_core::{Context, Direction, Order, Priority, ProcessState, Timestamp};
use triad_workflow::{Millis, Workflow};

use super::intake::{Candidate, Entry};
use super::{Known, Scheduler, Work};
use crate::control::ControlStore;
use crate::ports::{Bus, Clock, DefinitionStore, Entropy, StateStore};
use crate::pressure;
use crate::record::InputRecord;

impl<S, B, C, E> Scheduler<S, B, C, E>
where
    S: StateStore + DefinitionStore + ControlStore + Clone,
    B: Bus,
    C: Clock,
    E: Entropy,
{
    /// What an event says of a downstream, and whether an order that it wants started may be.
    pub(super) fn passes(
        &self,
        work: &mut Work,
        known: &Known,
        record: &InputRecord,
        now: Timestamp,
    ) -> bool {
        if std::mem::replace(&mut work.is_passed, true) {
            return true;
        }
        let order = &known.snapshot.order;
        if let SchedulerMessage::Reply(reply) = &work.message {
            self.hear(reply, work.unread, order.priority, &known.workflow, now);
            return true;
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
            return true;
        }
        let ctx = Context {
            workflow: &known.workflow,
            details: &known.snapshot.details,
            timing: self.settings.timing,
        };
        let needs = needs(&ctx, order);
        if needs.is_empty() {
            // Its claim ends it, and nobody but the redelivery of this record makes good for an end
            // whose status was not sent: it is not acknowledged before that.
            return true;
        }
        let candidate = Candidate {
            order: &work.id,
            submitted_at: order.submitted_at,
            needs,
            record,
        };
        match self.intake.enter(order.priority, candidate, now) {
            Entry::Start => true,
            Entry::Waits => false,
            Entry::Full => {
                tracing::debug!(order = %work.id, "too many orders wait here: left to the Supervisor");
                false
            }
        }
    }

    /// Learns from a reply how much its downstream bears.
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
            (Direction::Undo, Some(compensation)) => &compensation.agent,
            _ => &step.agent,
        };
        let Some(pace) = reply.pace else { return };
        match &reply.outcome {
            Outcome::Deferred { until, failure, .. } => match failure.code.as_str() {
                "breaker-open" | "downstream-paused" => {
                    self.intake.shut(lane, agent, *until, now);
                }
                // One step type is held, and other orders need the same downstream.
                "step-paused" => {}
                _ => {
                    let made = now.minus(Millis(pace.waited_ms.saturating_add(pace.took_ms)));
                    self.intake.shrink(lane, agent, made, now);
                }
            },
            Outcome::Succeeded { .. } | Outcome::Failed { .. } => {
                self.intake.answered(lane, agent, pace, unread, now);
            }
        }
    }

    /// Notes whether an order is under way, and what it still needs.
    pub(super) fn track(&self, order: &Order, ctx: &Context<'_>, now: Timestamp) {
        let at = asked(ctx, order);
        let needs = if at.is_empty() {
            BTreeSet::new()
        } else {
            needs(ctx, order)
        };
        let lane = order.priority;
        self.intake.track(lane, &order.id, at, &needs, now);
    }

    /// Tells operators what is held back, now and then and only while something is.
    pub(super) async fn tell_pressure(&self) {
        let now = self.clock.now();
        {
            let mut at = self.told.at.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.is_waiting() || now.since(*at) < pressure::EVERY {
                return;
            }
            *at = now;
        }
        let report = pressure::Report {
            at: now,
            downstreams: self.intake.pressure(),
        };
        tracing::info!(
            downstreams = ?report.downstreams,
            "orders wait for room"
        );
        let token = self.entropy.next_u64();
        if let Err(e) = pressure::report(&self.store, self.told.place, &report, token).await {
            tracing::warn!(error = %e, "what is held back could not be told");
        }
    }
}
