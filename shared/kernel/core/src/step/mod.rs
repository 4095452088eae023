//! One step's record: its state, and the failures and calls of its two legs.
//!
//! A step has two legs: its action, and the compensation of that action. Attempts at either go the
//! same way ([`Work`]): an attempt is due, its request is out, and it is answered, deferred or failed.

mod stored;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use triad_workflow::StepId;

use crate::children::Children;
use crate::failure::Failure;
use crate::ids::{Attempt, Direction, Timestamp};
use crate::later::{CallbackToken, InProgress};
use crate::output::Output;

/// The record of one step of one order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "stored::StoredStep", into = "stored::StoredStep")]
pub struct StepRecord {
    /// Id of the step.
    pub step: StepId,
    /// Where the step is in its life.
    pub state: StepState,
    /// What the action has used up, probes included.
    pub action: Leg,
    /// What the compensation has used up.
    pub compensation: Leg,
    /// How many of the action's failures in this run had a code of the step's
    /// [`by_code`](triad_workflow::Step::by_code), by that code. Empty if there was none.
    pub failures_by_code: BTreeMap<String, u32>,
    /// Number in the step's idempotency keys. It is 0 at first, and higher for a step that a migration adds
    /// in a later run of the order. It is raised when the step is to have another effect than before,
    /// because a service may answer an earlier key as it did then: when an operator resubmits a Compensated
    /// order, has a refused step done again, corrects the input of a step that was attempted, or moves the
    /// order to a version that has another input for such a step.
    pub key: u32,
    /// Some if the action may have had its effect without a known answer: an attempt at it got no answer or an
    /// unreadable one, or its answer is no longer awaited. Whether the effect is in doubt depends on the state too:
    /// see [`happened`](crate::doubt::happened).
    pub in_doubt: Option<Doubt>,
    /// The token by which the service may call back about the step's action; `None` before the order was first
    /// claimed with the present [`key`](Self::key), and if the step's work is never finished later.
    pub callback: Option<CallbackToken>,
    /// Work at the action that the service has taken and not finished; `None` if there is none.
    pub in_progress: Option<InProgress>,
    /// The orders that the step has started, if it runs orders of another workflow; `None` before it has begun.
    pub children: Option<Children>,
    /// The input that an operator has put in place of the definition's; `None` if none has.
    pub input: Option<Value>,
    /// The last failure of the step, or the reason for which it was last deferred; `None` if there was
    /// neither. A later success does not clear it.
    pub error: Option<Failure>,
}

impl StepRecord {
    /// Whether the step is completed and has let other ways to do its work go, which are not known to be compensated yet.
    #[must_use]
    pub fn lets_go(&self) -> bool {
        let children = self.children.as_ref();
        matches!(self.state, StepState::Completed { .. }) && children.is_some_and(Children::lets_go)
    }

    /// Whether nothing of the step is left to do before the order ends.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state.is_done() && !self.lets_go()
    }

    /// The moment that the step waits for: that of its [state](StepState::awaited_until), or when it asks the ways again
    /// that it has let go. `None` if it waits for none.
    #[must_use]
    pub fn awaited_until(&self) -> Option<Timestamp> {
        let children = self.children.as_ref().filter(|_| self.lets_go());
        let again = children.and_then(|children| children.asks_again);
        self.state.awaited_until().or(again)
    }
}

/// An effect whose answer is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Doubt {
    /// Until when a request that put the effect in doubt may still be carried out: its complete-by. `None` if
    /// no such request was still open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_until: Option<Timestamp>,
}

/// What one leg of a step, its action or its compensation, has used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Leg {
    /// Failed attempts in this run of the order.
    pub failures: u32,
    /// Calls to the remote service in this run that count against the total of the leg: those that replies
    /// reported, and the whole allowance of each attempt that was counted as failed because no reply came.
    /// The calls of a deferred attempt count only if the call ledger counts them.
    pub calls: u32,
    /// Calls that replies reported, in all runs and of every attempt, deferred ones too.
    pub made: u32,
    /// Calls that attempts may have made which were counted as failed because no reply came, in all runs:
    /// the whole allowance of each.
    pub unreported: u32,
    /// How many of `made` and `unreported` together are of earlier runs.
    pub before: u32,
    /// Highest attempt number that was used before the step last began anew, or a higher one; 0 at
    /// first. The next attempt has a number above it, so that a reply of an earlier run is never
    /// taken for one of this run.
    pub earlier: u32,
}

impl Leg {
    /// Whether any attempt of this run has called the remote service, or may have.
    pub(crate) fn may_have_called(&self) -> bool {
        self.in_all() > self.before
    }

    /// A new run: failures and calls are counted from zero, attempts are numbered on.
    pub(crate) fn begin_run(&mut self) {
        self.failures = 0;
        self.calls = 0;
        self.before = self.in_all();
    }

    fn in_all(&self) -> u32 {
        self.made.saturating_add(self.unreported)
    }
}

/// Where a step is in its life.
#[derive(Debug, Clone, PartialEq)]
pub enum StepState {
    /// The step has not been started.
    Waiting,
    /// The step's condition was false.
    Skipped,
    /// The action is worked on: an attempt at it is due, out, deferred or failed.
    Acting(Work),
    /// The action has had its effect.
    Completed {
        /// Number of the attempt that succeeded or, if an operator said that the effect happened, of the
        /// last one that was made.
        attempt: Attempt,
        /// When the request of the attempt at the action was made; `None` if the effect is known from the
        /// answer to a probe or from an operator.
        started: Option<Timestamp>,
        /// When the agent sent its reply, or when the reply was read if it does not say; when the operator
        /// said so, if an operator did.
        finished: Timestamp,
        /// Place in the order in which the steps completed, from 0.
        position: u32,
        /// The output of the action, from the service or from the operator; null if a probe has found the
        /// effect and brought no output.
        output: Output,
    },
    /// The action has had no effect and is not attempted again: the service refused it, or the order was
    /// compensated before the effect happened, or an operator said that it did not happen.
    Refused {
        /// Number of the last attempt at the action.
        attempt: Attempt,
    },
    /// The action was given up while its effect was in doubt, and the step has no compensation.
    Ambiguous {
        /// Number of the last attempt at the action.
        attempt: Attempt,
    },
    /// The compensation is worked on: an attempt at it is due, out, deferred or failed.
    Compensating {
        /// Where the work on the compensation is.
        work: Work,
        /// The effect that is compensated.
        applied: Applied,
    },
    /// No further attempt at the compensation is made, and an operator is needed: the compensation
    /// has failed above its threshold, its input has no value, its calls are used up, or the effect
    /// is in doubt and may not be compensated.
    NotCompensated {
        /// Number of the last attempt at the compensation; 0 if none was made.
        attempt: Attempt,
        /// The effect that is not compensated.
        applied: Applied,
    },
    /// The effect is compensated.
    Compensated {
        /// The effect that was compensated.
        applied: Applied,
        /// Number of the attempt at the compensation that succeeded.
        attempt: Attempt,
        /// When the request of that attempt was made; `None` in a record of an earlier version.
        started: Option<Timestamp>,
        /// When the agent sent its reply, or when the reply was read if it does not say.
        finished: Timestamp,
    },
}

/// Where the work on one leg of a step, its action or its compensation, is.
///
/// One wait for a service or an agent may last over many attempts: each state within it says since when
/// (`deferred_since`). An answer or a counted failure ends the wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// An attempt is to be made: at the next claim or, of a compensation, once everything that came
    /// after the step is compensated.
    Due {
        /// Number of the last attempt, of this run or an earlier one; 0 if none was made.
        last: Attempt,
        /// Since when the step waits for a service that may not be called, or for an agent that takes its
        /// request. `None` if it waits for neither.
        deferred_since: Option<Timestamp>,
    },
    /// A request is out: it was made, and no reply to it has been taken yet.
    Out(Out),
    /// Another attempt follows after a wait: the one before it has failed and was counted, or no agent took it. The
    /// wait does not hold up other steps, and their attempts do not end it.
    Delayed {
        /// Number of the last attempt.
        last: Attempt,
        /// When the wait is over: the Supervisor then makes the attempt due.
        until: Timestamp,
        /// As in [`Work::Due`].
        deferred_since: Option<Timestamp>,
    },
    /// The attempt was deferred: the service is paused, its circuit breaker is open, or its limits
    /// are reached.
    Deferred {
        /// Number of the attempt that was deferred.
        attempt: Attempt,
        /// When to try again.
        until: Timestamp,
        /// Since when the step waits: this attempt, or one before it, was the first that was deferred or
        /// that no agent took.
        deferred_since: Timestamp,
    },
    /// Nothing is asked for: the step waits for a moment or for events from outside, or for work that its service has
    /// taken ([`StepRecord::in_progress`]). Such a wait is no failure.
    Parked {
        /// Number of the wait among those of the step, as attempts are numbered; of the last attempt, if the service
        /// has taken the work.
        attempt: Attempt,
        /// When it began.
        since: Timestamp,
        /// When it ends at the latest: the Supervisor then completes the step or gives it up, or has the service asked.
        /// Before that, when a decision is to be asked for again: then `ends` says when the wait ends.
        until: Timestamp,
        /// When the wait ends at the latest, if that is not at `until`.
        ends: Option<Timestamp>,
        /// The names of the events that the step waits for; empty if it waits for none.
        events: Vec<String>,
        /// What senders may name in place of the order, by the name of the event; empty if they name the order.
        keys: BTreeMap<String, String>,
    },
    /// The agent reported that the attempt failed. The Supervisor will count the failure and decide
    /// about another attempt.
    Failed {
        /// Whether the action, the probe or the compensation was asked for.
        direction: Direction,
        /// Number of the attempt.
        attempt: Attempt,
        /// When its request was made; 0 in a record of an early version, which did not store it.
        started: Timestamp,
        /// How many calls this attempt made, which [`Leg::calls`] includes already; 0 in a record of an early
        /// version.
        calls: u32,
    },
}

impl Work {
    /// An attempt is to be made after `last`, and waits neither for a service nor for an agent.
    #[must_use]
    pub fn due(last: Attempt) -> Self {
        Self::Due {
            last,
            deferred_since: None,
        }
    }

    /// Number of the last attempt that was made; 0 if none was.
    #[must_use]
    pub fn attempt(&self) -> Attempt {
        match self {
            Self::Due { last, .. } | Self::Delayed { last, .. } => *last,
            Self::Out(out) => out.attempt,
            Self::Deferred { attempt, .. }
            | Self::Parked { attempt, .. }
            | Self::Failed { attempt, .. } => *attempt,
        }
    }

    /// Since when it waits for a service that may not be called, or for an agent that takes its request.
    /// `None` if it waits for neither.
    #[must_use]
    pub fn deferred_since(&self) -> Option<Timestamp> {
        match self {
            Self::Due { deferred_since, .. } | Self::Delayed { deferred_since, .. } => {
                *deferred_since
            }
            Self::Out(out) => out.deferred_since,
            Self::Deferred { deferred_since, .. } => Some(*deferred_since),
            Self::Parked { .. } | Self::Failed { .. } => None,
        }
    }
}

/// An attempt whose request is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Out {
    /// Whether the action, the probe or the compensation is asked for.
    pub direction: Direction,
    /// Number of the attempt.
    pub attempt: Attempt,
    /// When the request was made.
    pub started: Timestamp,
    /// When the attempt is over: a reply that was sent after this moment does not move the step on.
    pub complete_by: Timestamp,
    /// As in [`Work::Due`].
    pub deferred_since: Option<Timestamp>,
    /// When the attempt was first found beyond its complete-by: by the Supervisor on every clock, or on its own
    /// clock by a Scheduler that read a late reply. `None` if it was not.
    pub unheard_since: Option<Timestamp>,
}

impl Out {
    /// Whether this is the same attempt, ignoring the time at which it was found over.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        (self.direction, self.attempt) == (other.direction, other.attempt)
    }
}

/// What is known of an effect that is to be compensated, or was.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// Place in the order in which the steps completed, from 0; `None` if it was in doubt whether
    /// the effect happened.
    pub position: Option<u32>,
    /// The action's output, from the service or from an operator who resolved the step. While the effect is in doubt:
    /// what the service answered when it took the work, or null if it has taken none.
    pub output: Output,
}

impl StepState {
    /// An attempt at the action is to be made, after `last`.
    pub(crate) fn due(last: Attempt) -> Self {
        Self::Acting(Work::due(last))
    }

    /// The state's name as people see it and as it is stored, such as `retry-due` or `compensating`.
    /// Some names are older than the variants.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Skipped => "skipped",
            Self::Acting(Work::Due { .. }) => "retry-due",
            Self::Acting(Work::Out(out)) if out.direction == Direction::Probe => "probing",
            Self::Acting(Work::Out(_)) => "running",
            Self::Acting(Work::Delayed { .. }) => "delayed",
            Self::Acting(Work::Deferred { .. }) => "deferred",
            Self::Acting(Work::Parked { .. }) => "parked",
            Self::Acting(Work::Failed { .. }) => "failed",
            Self::Completed { .. } => "completed",
            Self::Refused { .. } => "refused",
            Self::Ambiguous { .. } => "ambiguous",
            Self::Compensating { work, .. } => match work {
                Work::Due { .. } => "compensation-due",
                Work::Out(_) => "compensating",
                Work::Delayed { .. } => "compensation-delayed",
                Work::Deferred { .. } => "compensation-deferred",
                Work::Parked { .. } => "compensation-parked",
                Work::Failed { .. } => "compensation-failed",
            },
            Self::NotCompensated { .. } => "not-compensated",
            Self::Compensated { .. } => "compensated",
        }
    }

    /// The work on the action or the compensation; `None` if neither is worked on.
    #[must_use]
    pub fn work(&self) -> Option<&Work> {
        match self {
            Self::Acting(work) | Self::Compensating { work, .. } => Some(work),
            _ => None,
        }
    }

    /// The work that [`work`](Self::work) returns, for a caller that changes it.
    pub(crate) fn work_mut(&mut self) -> Option<&mut Work> {
        match self {
            Self::Acting(work) | Self::Compensating { work, .. } => Some(work),
            _ => None,
        }
    }

    /// The attempt whose request is out: at the action, its probe or the compensation. `None` if
    /// none is out.
    #[must_use]
    pub fn out(&self) -> Option<Out> {
        match self.work() {
            Some(Work::Out(out)) => Some(*out),
            _ => None,
        }
    }

    /// The attempt that [`out`](Self::out) returns, for a caller that changes it.
    pub(crate) fn out_mut(&mut self) -> Option<&mut Out> {
        match self.work_mut() {
            Some(Work::Out(out)) => Some(out),
            _ => None,
        }
    }

    /// Since when the step waits for a service that may not be called, or for an agent that takes its request.
    /// `None` if it waits for neither.
    #[must_use]
    pub fn deferred_since(&self) -> Option<Timestamp> {
        self.work().and_then(Work::deferred_since)
    }

    /// When the attempt that is out was first found beyond its complete-by; `None` if none is out, or it was not.
    #[must_use]
    pub fn unheard_since(&self) -> Option<Timestamp> {
        self.out().and_then(|out| out.unheard_since)
    }

    /// Whether the action's own request is out. False while a probe or a compensation is.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.out()
            .is_some_and(|out| out.direction == Direction::Forward)
    }

    /// Whether an attempt at the action is to be made at the next claim, after an earlier one. False while the
    /// step has not been started, and while it waits before another attempt.
    #[must_use]
    pub fn is_retry_due(&self) -> bool {
        matches!(self, Self::Acting(Work::Due { .. }))
    }

    /// Whether an attempt at the action or the compensation has failed and the Supervisor has not
    /// counted it yet.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        matches!(self.work(), Some(Work::Failed { .. }))
    }

    /// The complete-by of the request that is out; `None` if none is out.
    #[must_use]
    pub fn complete_by(&self) -> Option<Timestamp> {
        self.out().map(|out| out.complete_by)
    }

    /// When the deferred attempt is to be made again; `None` if none is deferred.
    #[must_use]
    pub fn deferred_until(&self) -> Option<Timestamp> {
        match self.work() {
            Some(Work::Deferred { until, .. }) => Some(*until),
            _ => None,
        }
    }

    /// When the wait before another attempt is over; `None` if the step is not in one.
    #[must_use]
    pub fn delayed_until(&self) -> Option<Timestamp> {
        match self.work() {
            Some(Work::Delayed { until, .. }) => Some(*until),
            _ => None,
        }
    }

    /// When the step's wait for a moment, for events or for child orders began; `None` if it is not parked.
    #[must_use]
    pub fn parked_since(&self) -> Option<Timestamp> {
        match self.work() {
            Some(Work::Parked { since, .. }) => Some(*since),
            _ => None,
        }
    }

    /// When the step's wait for a moment or for events ends at the latest, or is looked at before that; `None` if it is
    /// not parked.
    #[must_use]
    pub fn parked_until(&self) -> Option<Timestamp> {
        match self.work() {
            Some(Work::Parked { until, .. }) => Some(*until),
            _ => None,
        }
    }

    /// The moment that the step waits for: [`complete_by`](Self::complete_by) of the request that
    /// is out, [`deferred_until`](Self::deferred_until), [`delayed_until`](Self::delayed_until) or
    /// [`parked_until`](Self::parked_until). `None` if it waits for none of them.
    #[must_use]
    pub fn awaited_until(&self) -> Option<Timestamp> {
        self.complete_by()
            .or(self.deferred_until())
            .or(self.delayed_until())
            .or(self.parked_until())
    }

    /// The effect that is to be compensated and is not yet; `None` if there is none.
    #[must_use]
    pub fn to_compensate(&self) -> Option<&Applied> {
        match self {
            Self::Compensating { applied, .. } | Self::NotCompensated { applied, .. } => {
                Some(applied)
            }
            _ => None,
        }
    }

    /// The output of the action, from the service or from an operator; null if there is none, or if the effect
    /// was in doubt when its compensation began. `None` in every state before the effect is known to have
    /// happened or to be compensated.
    #[must_use]
    pub fn output(&self) -> Option<&Output> {
        match self {
            Self::Completed { output, .. } => Some(output),
            Self::Compensating { applied, .. }
            | Self::NotCompensated { applied, .. }
            | Self::Compensated { applied, .. } => Some(&applied.output),
            Self::Waiting
            | Self::Skipped
            | Self::Acting(_)
            | Self::Refused { .. }
            | Self::Ambiguous { .. } => None,
        }
    }

    /// The output that [`output`](Self::output) returns, for a caller that changes it.
    pub(crate) fn output_mut(&mut self) -> Option<&mut Output> {
        match self {
            Self::Completed { output, .. } => Some(output),
            Self::Compensating { applied, .. }
            | Self::NotCompensated { applied, .. }
            | Self::Compensated { applied, .. } => Some(&mut applied.output),
            _ => None,
        }
    }

    /// Number of the last attempt at the action; `None` where the state does not tell it: waiting,
    /// skipped, and every state of a compensation.
    #[must_use]
    pub fn attempt(&self) -> Option<Attempt> {
        match self {
            Self::Acting(work) => Some(work.attempt()),
            Self::Completed { attempt, .. }
            | Self::Refused { attempt }
            | Self::Ambiguous { attempt } => Some(*attempt),
            _ => None,
        }
    }

    /// Whether the step is completed or skipped, so that steps after it may start.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Completed { .. } | Self::Skipped)
    }
}

impl StepRecord {
    /// The record of a step that has not been started.
    #[must_use]
    pub fn new(step: StepId) -> Self {
        Self {
            step,
            state: StepState::Waiting,
            action: Leg::default(),
            compensation: Leg::default(),
            failures_by_code: BTreeMap::new(),
            key: 0,
            in_doubt: None,
            callback: None,
            in_progress: None,
            children: None,
            input: None,
            error: None,
        }
    }

    /// The outputs that the record has of the step: its own, and those of its child orders until they are joined.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = &Output> {
        let children = self.children.iter().flat_map(Children::outputs);
        self.state.output().into_iter().chain(children)
    }

    pub(crate) fn outputs_mut(&mut self) -> impl Iterator<Item = &mut Output> {
        let children = self.children.iter_mut().flat_map(Children::outputs_mut);
        self.state.output_mut().into_iter().chain(children)
    }

    /// How many failures of the action in this run count when one has this code: those with the same code if it is one
    /// of [`failures_by_code`](Self::failures_by_code), else all without such a code.
    #[must_use]
    pub fn failures_like(&self, code: &str) -> u32 {
        let by_code = &self.failures_by_code;
        let others = || self.action.failures.saturating_sub(by_code.values().sum());
        by_code.get(code).copied().unwrap_or_else(others)
    }

    /// A new run of the order: failures and calls of the action are counted from zero.
    pub(crate) fn begin_action_anew(&mut self) {
        self.action.begin_run();
        self.failures_by_code.clear();
    }

    /// Raises [`key`](Self::key): the service is asked for another effect than before.
    pub(crate) fn raise_key(&mut self) {
        self.key += 1;
        self.callback = None;
    }

    /// The leg that a request of this direction belongs to. A probe belongs to the action.
    #[must_use]
    pub fn leg(&self, direction: Direction) -> &Leg {
        match direction {
            Direction::Forward | Direction::Probe => &self.action,
            Direction::Compensate => &self.compensation,
        }
    }

    /// The leg that [`leg`](Self::leg) returns, for a caller that changes its counts.
    pub(crate) fn leg_mut(&mut self, direction: Direction) -> &mut Leg {
        match direction {
            Direction::Forward | Direction::Probe => &mut self.action,
            Direction::Compensate => &mut self.compensation,
        }
    }

    /// How many attempts were made at the step in all runs, at its action, probe and compensation together:
    /// [`actions`](Self::actions) plus [`compensations`](Self::compensations).
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.actions().saturating_add(self.compensations())
    }

    /// How many attempts were made at the action and its probe, in all runs: the highest number of such an
    /// attempt, one that is out included. Too high for a step that a migration has added in a later run,
    /// because its attempts are not numbered from 1.
    #[must_use]
    pub fn actions(&self) -> u32 {
        let present = self.state.attempt().map_or(0, |attempt| attempt.0);
        present.max(self.action.earlier)
    }

    /// How many attempts were made at the compensation, in all runs: the highest number of such an attempt,
    /// one that is out included. Too high for a step that a migration has added in a later run, as for
    /// [`actions`](Self::actions).
    #[must_use]
    pub fn compensations(&self) -> u32 {
        let present = match &self.state {
            StepState::Compensating { work, .. } => work.attempt().0,
            StepState::NotCompensated { attempt, .. } | StepState::Compensated { attempt, .. } => {
                attempt.0
            }
            _ => 0,
        };
        present.max(self.compensation.earlier)
    }

    /// [`Direction::Compensate`] once the step is being compensated or was, else [`Direction::Forward`].
    /// Never [`Direction::Probe`].
    #[must_use]
    pub fn direction(&self) -> Direction {
        match self.state {
            StepState::Compensating { .. }
            | StepState::NotCompensated { .. }
            | StepState::Compensated { .. } => Direction::Compensate,
            _ => Direction::Forward,
        }
    }
}
