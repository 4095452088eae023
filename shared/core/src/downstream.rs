//! What all instances know of a downstream: its circuit breaker, and what operators have set.

use serde::{Deserialize, Serialize};
use triad_workflow::{AgentName, Millis, StepId, WorkflowName};

use crate::breaker::{Breaker, BreakerGate, BreakerSettings};
use crate::failure::{Failure, FailureKind};
use crate::ids::Timestamp;
use crate::message::{Alert, AlertKind, Envelope};
use crate::operate::OperationRefusal;
use crate::order::{Hold, OperatorAct};
use crate::topics;

/// How long work that an operator holds is left alone before it is looked at again, where the
/// installation says nothing else.
pub const HELD_RECHECK: Millis = Millis(30_000);
/// Most step types of one downstream that can be paused at once.
pub const MAX_PAUSED_STEPS: usize = 64;

/// Key of a downstream's record in the control store.
#[must_use]
pub fn key(agent: &AgentName) -> String {
    format!("downstream/{agent}")
}

/// A downstream's record.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Downstream {
    /// Its circuit breaker.
    #[serde(default)]
    pub breaker: Breaker,
    /// An operator has taken the breaker's place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forced: Option<Forced>,
    /// Step types that an operator has paused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paused: Vec<PausedStep>,
    /// The last change.
    #[serde(default)]
    pub last: Change,
}

/// What an operator has made of a breaker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forced {
    /// Whether no call is made, or every one.
    pub to: ForcedTo,
    /// Who, why and since when.
    #[serde(flatten)]
    pub hold: Hold,
}

/// How a breaker is forced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForcedTo {
    /// No call is made: the downstream is paused.
    Open,
    /// Every call is made, whatever becomes of it.
    Closed,
}

/// A step type that is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PausedStep {
    /// The workflow.
    pub workflow: WorkflowName,
    /// The step.
    pub step: StepId,
    /// Who, why and since when.
    #[serde(flatten)]
    pub hold: Hold,
}

/// The last change of a downstream's record, which is told to operators once.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Change {
    /// When.
    pub at: Timestamp,
    /// From what to what, and why.
    pub what: String,
    /// Whether the bus has acknowledged the event.
    pub told: bool,
}

/// What an operator does to a downstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DownstreamAction {
    /// Make no call, or every one.
    Force(ForcedTo),
    /// Leave it to the breaker again, which begins closed.
    Release,
    /// Pause a step type.
    PauseStep(WorkflowName, StepId),
    /// Let a step type go on.
    ResumeStep(WorkflowName, StepId),
}

/// Whether a call may be made, and if not, until when and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// It may be made.
    Call,
    /// It may be made by whoever writes the breaker with one more probe first.
    Probe,
    /// Not before then.
    Wait(Timestamp, Failure),
}

impl Downstream {
    /// Whether a call for a step may be made now; work that an operator holds is to be looked at
    /// again after `recheck`.
    #[must_use]
    pub fn admits(
        &self,
        workflow: Option<&WorkflowName>,
        step: &StepId,
        settings: &BreakerSettings,
        recheck: Millis,
        now: Timestamp,
    ) -> Admission {
        let held = |code: &str, act: &OperatorAct| {
            let text = format!("{} ({})", act.why, act.by);
            let failure = Failure::new(FailureKind::Operator, code, &text);
            Admission::Wait(now.plus(recheck), failure)
        };
        let paused = self
            .paused
            .iter()
            .find(|p| Some(&p.workflow) == workflow && &p.step == step);
        if let Some(paused) = paused {
            return held("step-paused", &paused.hold.act);
        }
        match &self.forced {
            Some(forced) if forced.to == ForcedTo::Open => {
                return held("downstream-paused", &forced.hold.act);
            }
            Some(_) => return Admission::Call,
            None => {}
        }
        match self.breaker.gate(settings, now) {
            BreakerGate::Call => Admission::Call,
            BreakerGate::Probe => Admission::Probe,
            BreakerGate::Wait(until) => {
                let failure = Failure::new(FailureKind::Transient, "breaker-open", &self.last.what);
                Admission::Wait(until, failure)
            }
        }
    }

    /// The record after a change of the breaker; the event is yet to be told.
    #[must_use]
    pub fn with_breaker(&self, breaker: Breaker, why: &str, now: Timestamp) -> Self {
        let mut next = Self {
            breaker,
            ..self.clone()
        };
        let (was, is) = (self.breaker.name(), breaker.name());
        if was != is {
            next.last = Change {
                at: now,
                what: format!("{was} to {is}: {why}"),
                told: false,
            };
        }
        next
    }

    /// The record after an operator's act.
    ///
    /// # Errors
    /// [`OperationRefusal`] where it is so already.
    pub fn operated(
        &self,
        action: &DownstreamAction,
        act: &OperatorAct,
        now: Timestamp,
    ) -> Result<Self, OperationRefusal> {
        let mut next = self.clone();
        let hold = Hold {
            at: now,
            act: act.clone(),
        };
        let what = match action {
            DownstreamAction::Force(to) => {
                if self.forced.as_ref().is_some_and(|f| f.to == *to) {
                    return Err(OperationRefusal::Already("forced"));
                }
                next.forced = Some(Forced { to: *to, hold });
                match to {
                    ForcedTo::Open => "forced open".to_owned(),
                    ForcedTo::Closed => "forced closed".to_owned(),
                }
            }
            DownstreamAction::Release => {
                if self.forced.is_none() && self.breaker.name() == "closed" {
                    return Err(OperationRefusal::Already("closed and not forced"));
                }
                next.forced = None;
                next.breaker = Breaker::default();
                "released".to_owned()
            }
            DownstreamAction::PauseStep(workflow, step) => {
                if self
                    .paused
                    .iter()
                    .any(|p| (&p.workflow, &p.step) == (workflow, step))
                {
                    return Err(OperationRefusal::Already("paused"));
                }
                if self.paused.len() >= MAX_PAUSED_STEPS {
                    return Err(OperationRefusal::Already(
                        "holding as many paused steps as it can",
                    ));
                }
                next.paused.push(PausedStep {
                    workflow: workflow.clone(),
                    step: step.clone(),
                    hold,
                });
                format!("step {workflow}/{step} paused")
            }
            DownstreamAction::ResumeStep(workflow, step) => {
                next.paused
                    .retain(|p| (&p.workflow, &p.step) != (workflow, step));
                if next.paused.len() == self.paused.len() {
                    return Err(OperationRefusal::Already("not paused"));
                }
                format!("step {workflow}/{step} resumed")
            }
        };
        next.last = Change {
            at: now,
            what: format!("{what}: {} ({})", act.why, act.by),
            told: false,
        };
        Ok(next)
    }

    /// The event that tells operators of the last change. Its id is the same however often it
    /// is sent.
    #[must_use]
    pub fn event(&self, agent: &AgentName) -> Envelope {
        let id = format!("downstream/{agent}/{}", self.last.at.0);
        let body = Alert {
            alert_id: id.clone(),
            kind: AlertKind::Breaker,
            order_id: None,
            cause: format!("downstream {agent} {}", self.last.what),
            at: self.last.at,
        };
        Envelope::event(
            topics::ALERTS.to_owned(),
            agent.as_str(),
            "triad.alert",
            id,
            None,
            &body,
        )
    }

    /// The record once its last change has been told.
    #[must_use]
    pub fn told(&self) -> Self {
        let mut next = self.clone();
        next.last.told = true;
        next
    }
}
