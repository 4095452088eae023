//! One step's record: where it is in its life, and what its two legs have used up.
//!
//! A step has two legs: its action, and the compensation of that action. Attempts at either go the
//! same way ([`Work`]): an attempt is due, its request is out, and it is answered, deferred or failed.

mod stored;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use triad_workflow::StepId;

use crate::failure::Failure;
use crate::ids::{Attempt, Direction, Timestamp};

/// One step's record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "stored::StoredStep", into = "stored::StoredStep")]
pub struct StepRecord {
    /// The step.
    pub step: StepId,
    /// Where it is.
    pub state: StepState,
    /// What its action has used up.
    pub action: Leg,
    /// What its compensation has used up.
    pub compensation: Leg,
    /// Number of the idempotency key: raised when an operator has the step done again after it
    /// was compensated or refused, because the earlier key is spent.
    pub key: u32,
    /// An attempt was silent or lost its answer: the effect may have happened.
    pub in_doubt: bool,
    /// Since when it has been waiting for a service that is not to be called for now.
    pub deferred_since: Option<Timestamp>,
    /// When the Supervisor first met the attempt that is out beyond its complete-by.
    pub unheard_since: Option<Timestamp>,
    /// The input that an operator has put in the place of the definition's.
    pub input: Option<Value>,
    /// The last failure.
    pub error: Option<Failure>,
}

/// What one leg of a step, its action or its compensation, has used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Leg {
    /// Failed attempts in this round.
    pub failures: u32,
    /// Calls to the remote service in this round: those reported, and the whole allowance of
    /// silent attempts.
    pub calls: u32,
    /// Attempts in the rounds before this one: attempts are numbered on, so that no reply of an
    /// earlier round fits a later one.
    pub earlier: u32,
}

impl Leg {
    /// A new round: failures and calls are counted from zero, attempts are numbered on.
    pub(crate) fn begin_round(&mut self) {
        self.failures = 0;
        self.calls = 0;
    }
}

/// Where a step is.
#[derive(Debug, Clone, PartialEq)]
pub enum StepState {
    /// Not started.
    Waiting,
    /// Its condition was false.
    Skipped,
    /// Its action is worked on.
    Acting(Work),
    /// Done.
    Completed {
        /// Number of the attempt.
        attempt: Attempt,
        /// When its request was made.
        started: Timestamp,
        /// When its reply was sent; when it was taken, if it does not say.
        finished: Timestamp,
        /// Place in the order of completion, from 0.
        position: u32,
        /// What the service answered.
        output: Value,
    },
    /// The service refused, and cannot have had an effect.
    Refused {
        /// Number of the attempt.
        attempt: Attempt,
    },
    /// Given up without knowing whether it had an effect, and without a way to compensate.
    Ambiguous {
        /// Number of the last attempt.
        attempt: Attempt,
    },
    /// Its compensation is worked on.
    Compensating {
        /// Where that is.
        work: Work,
        /// What is compensated.
        applied: Applied,
    },
    /// The Supervisor's patience with the compensation has ended: for an operator.
    NotCompensated {
        /// Number of the last attempt at it; 0 if none was ever made.
        attempt: Attempt,
        /// What is not compensated.
        applied: Applied,
    },
    /// Compensated.
    Compensated {
        /// Number of the attempt.
        attempt: Attempt,
        /// When its reply was sent; when it was taken, if it does not say.
        finished: Timestamp,
    },
}

/// Where the work on one leg of a step is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Another attempt is to be made: at the next claim, or when its turn comes.
    Due {
        /// Number of the last attempt; before the first of a round, of the last one of earlier rounds.
        last: Attempt,
    },
    /// A request is out.
    Out(Out),
    /// The service is not to be called for now: paused, or its circuit breaker is open.
    Deferred {
        /// Number of the attempt that was deferred.
        attempt: Attempt,
        /// When to try again.
        until: Timestamp,
    },
    /// The agent reported that the attempt failed; the Supervisor will count it.
    Failed {
        /// Number of the attempt.
        attempt: Attempt,
        /// When its request was made.
        started: Timestamp,
        /// Calls that it made. The leg's `calls` is the sum of them all.
        calls: u32,
    },
}

impl Work {
    /// Number of the last attempt that was made.
    #[must_use]
    pub fn attempt(&self) -> Attempt {
        match self {
            Self::Due { last } => *last,
            Self::Out(out) => out.attempt,
            Self::Deferred { attempt, .. } | Self::Failed { attempt, .. } => *attempt,
        }
    }
}

/// A request that is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Out {
    /// What is asked for: the action, the question whether it happened, or the compensation.
    pub direction: Direction,
    /// Number of the attempt.
    pub attempt: Attempt,
    /// When the request was made.
    pub started: Timestamp,
    /// After this, its reply changes nothing.
    pub complete_by: Timestamp,
}

/// What is known about an effect that is to be compensated.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// Place in the order of completion; `None` if it is ambiguous whether it was applied.
    pub position: Option<u32>,
    /// What the service answered; null if ambiguous.
    pub output: Value,
}

impl StepState {
    /// An attempt at the action is to be made, after `last`.
    pub(crate) fn due(last: Attempt) -> Self {
        Self::Acting(Work::Due { last })
    }

    /// The state's name, as people have it and as it is stored.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Skipped => "skipped",
            Self::Acting(Work::Due { .. }) => "retry-due",
            Self::Acting(Work::Out(out)) if out.direction == Direction::Probe => "probing",
            Self::Acting(Work::Out(_)) => "running",
            Self::Acting(Work::Deferred { .. }) => "parked",
            Self::Acting(Work::Failed { .. }) => "failed",
            Self::Completed { .. } => "completed",
            Self::Refused { .. } => "refused",
            Self::Ambiguous { .. } => "ambiguous",
            Self::Compensating { work, .. } => match work {
                Work::Due { .. } => "undo-due",
                Work::Out(_) => "undoing",
                Work::Deferred { .. } => "undo-parked",
                Work::Failed { .. } => "undo-failed",
            },
            Self::NotCompensated { .. } => "not-undone",
            Self::Compensated { .. } => "undone",
        }
    }

    /// What is worked on, on either leg.
    #[must_use]
    pub fn work(&self) -> Option<&Work> {
        match self {
            Self::Acting(work) | Self::Compensating { work, .. } => Some(work),
            _ => None,
        }
    }

    /// The same, to go on from it.
    pub(crate) fn work_mut(&mut self) -> Option<&mut Work> {
        match self {
            Self::Acting(work) | Self::Compensating { work, .. } => Some(work),
            _ => None,
        }
    }

    /// The request that is out, on either leg.
    #[must_use]
    pub fn out(&self) -> Option<Out> {
        match self.work() {
            Some(Work::Out(out)) => Some(*out),
            _ => None,
        }
    }

    /// Whether the action itself has been asked for and not answered.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.out()
            .is_some_and(|out| out.direction == Direction::Forward)
    }

    /// Whether another attempt at the action is to be made.
    #[must_use]
    pub fn is_retry_due(&self) -> bool {
        matches!(self, Self::Acting(Work::Due { .. }))
    }

    /// Whether an attempt has failed, on either leg, and is not counted yet.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        matches!(self.work(), Some(Work::Failed { .. }))
    }

    /// When the request that is out must have been answered.
    #[must_use]
    pub fn complete_by(&self) -> Option<Timestamp> {
        self.out().map(|out| out.complete_by)
    }

    /// When deferred work is to be tried again.
    #[must_use]
    pub fn deferred_until(&self) -> Option<Timestamp> {
        match self.work() {
            Some(Work::Deferred { until, .. }) => Some(*until),
            _ => None,
        }
    }

    /// Until when an answer or a second try is awaited: the first of the two above that there is.
    #[must_use]
    pub fn awaited_until(&self) -> Option<Timestamp> {
        self.complete_by().or(self.deferred_until())
    }

    /// What is to be compensated and is not yet.
    #[must_use]
    pub fn to_compensate(&self) -> Option<&Applied> {
        match self {
            Self::Compensating { applied, .. } | Self::NotCompensated { applied, .. } => {
                Some(applied)
            }
            _ => None,
        }
    }

    /// Number of the last attempt at the action, as far as the state knows it.
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

    /// Whether steps that come after this one may start.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Completed { .. } | Self::Skipped)
    }
}

impl StepRecord {
    /// A step that has not been started.
    #[must_use]
    pub fn new(step: StepId) -> Self {
        Self {
            step,
            state: StepState::Waiting,
            action: Leg::default(),
            compensation: Leg::default(),
            key: 0,
            in_doubt: false,
            deferred_since: None,
            unheard_since: None,
            input: None,
            error: None,
        }
    }

    /// The leg that a request in a direction belongs to: a probe asks on behalf of the action.
    #[must_use]
    pub fn leg(&self, direction: Direction) -> &Leg {
        match direction {
            Direction::Forward | Direction::Probe => &self.action,
            Direction::Compensate => &self.compensation,
        }
    }

    /// The same, to count on it.
    pub(crate) fn leg_mut(&mut self, direction: Direction) -> &mut Leg {
        match direction {
            Direction::Forward | Direction::Probe => &mut self.action,
            Direction::Compensate => &mut self.compensation,
        }
    }

    /// The direction that the step is worked on in, as a whole: forward, or back.
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
