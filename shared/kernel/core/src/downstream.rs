//! The shared record of a downstream: its circuit breaker, and what operators have set.

use serde::{Deserialize, Serialize};
use triad_workflow::{AgentName, Millis, StepId, WorkflowName};

use crate::breaker::{Breaker, BreakerGate, BreakerSettings};
use crate::failure::{Failure, FailureKind};
use crate::ids::Timestamp;
use crate::message::{Alert, AlertKind, Envelope};
use crate::operate::OperationRefusal;
use crate::order::{Hold, OperatorAct};

/// Default of `recheck_held` in the runtime's settings: the longest wait until an agent looks again at work
/// that an operator holds back, 30 s. Each wait is between half of this time and all of it.
pub const HELD_RECHECK: Millis = Millis(30_000);
/// Most step types of one downstream that can be paused at once, inclusive.
pub const MAX_PAUSED_STEPS: usize = 64;

/// Most earlier changes that a downstream's record keeps, besides the last one, inclusive.
pub const MAX_EARLIER: usize = 20;

/// Key of a downstream's record in the control store: `downstream/<agent>`.
#[must_use]
pub fn key(agent: &AgentName) -> String {
    format!("downstream/{agent}")
}

/// The record of one downstream in the control store, shared by all instances. The default has a
/// closed breaker and nothing set by operators.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Downstream {
    /// The state of the circuit breaker. It decides about no call while `forced` is set.
    #[serde(default)]
    pub breaker: Breaker,
    /// What an operator has put in place of the breaker; `None` if the breaker decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forced: Option<Forced>,
    /// Step types that operators have paused; at most [`MAX_PAUSED_STEPS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paused: Vec<PausedStep>,
    /// The last change of this record.
    #[serde(default)]
    pub last: Change,
    /// The changes before the last one, the newest first; at most [`MAX_EARLIER`], older ones are dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Change>,
}

/// An operator's order that overrides the breaker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forced {
    /// What is done in place of the breaker's decision: every call is made, or none.
    pub to: ForcedTo,
    /// Which operator did it, why and since when.
    #[serde(flatten)]
    pub hold: Hold,
}

/// What an operator has put in place of the breaker's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForcedTo {
    /// No call is made: the downstream is paused.
    Open,
    /// Every call is made, whatever fails.
    Closed,
}

/// A step type that is paused: one step of one workflow, in all its versions and orders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PausedStep {
    /// Name of the workflow.
    pub workflow: WorkflowName,
    /// Id of the step.
    pub step: StepId,
    /// Which operator paused it, why and since when.
    #[serde(flatten)]
    pub hold: Hold,
}

/// The last change of a downstream's record. One message on the topic `alerts` reports it to operators. The default,
/// empty and at moment 0, means that nothing has ever changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Change {
    /// When the record was changed.
    pub at: Timestamp,
    /// For a person: what changed, why, and which operator did it if one did; empty if nothing ever changed.
    pub what: String,
    /// The operator who did it, and why; `None` if the breaker did, if nothing ever changed, and in a record of
    /// an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<OperatorAct>,
    /// Whether the bus has acknowledged the message that reports the change to operators. False also if nothing has
    /// ever changed.
    pub told: bool,
}

impl Change {
    /// The text of the change, without operator and reason.
    #[must_use]
    pub fn alone(&self) -> &str {
        let of = |act| self.what.strip_suffix(&*by_operator(act));
        self.operator.as_ref().and_then(of).unwrap_or(&self.what)
    }
}

/// Ending of the text of an operator's change.
fn by_operator(act: &OperatorAct) -> String {
    format!(": {} ({})", act.why, act.by)
}

/// What an operator can do to a downstream. [`Downstream::operated`] checks whether it is possible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DownstreamAction {
    /// Make no call, or make every call, whatever the breaker says.
    Force(ForcedTo),
    /// Let the breaker decide again. It begins closed, with no openings counted.
    Release,
    /// Make no call for this step of this workflow.
    PauseStep(WorkflowName, StepId),
    /// Make calls for this paused step again.
    ResumeStep(WorkflowName, StepId),
}

/// Whether an agent may make a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// The call may be made.
    Call,
    /// The call may be made as a probe, by the instance that first writes [`Breaker::probing`] to
    /// the record by compare-and-set.
    Probe,
    /// No call may be made before this moment, for this reason. The work is deferred, not failed.
    Wait(Timestamp, Failure),
}

impl Downstream {
    /// Whether a call of this agent for a step may be made at `now`. A paused step is checked first, then an
    /// operator's force, then the breaker.
    ///
    /// If an operator holds the call back, the answer is to wait for `recheck` from `now` on.
    #[must_use]
    pub fn admits(
        &self,
        agent: &AgentName,
        workflow: &WorkflowName,
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
            .find(|p| &p.workflow == workflow && &p.step == step);
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
                let what = self.outage().map_or("is down", |change| &change.what);
                let text = format!("{agent} {what}");
                let failure = Failure::new(FailureKind::Transient, "breaker-open", &text);
                Admission::Wait(until, failure)
            }
        }
    }

    /// The change by which the breaker has opened: since when the service is down, and why. `None` if the breaker is
    /// closed, or if operators have made [`MAX_EARLIER`] changes since.
    #[must_use]
    pub fn outage(&self) -> Option<&Change> {
        if matches!(self.breaker, Breaker::Closed { .. }) {
            return None;
        }
        let mut changes = std::iter::once(&self.last).chain(&self.earlier);
        changes.find(|change| change.operator.is_none() && !change.what.is_empty())
    }

    /// The record with another breaker. If it was closed and is no more, or is closed again, `last` becomes this change,
    /// with the reason `why` for people, and its message is unsent. Otherwise `last` stays: a breaker that goes to and
    /// fro between open and half-open tells of one outage.
    #[must_use]
    pub fn with_breaker(&self, breaker: Breaker, why: &str, now: Timestamp) -> Self {
        let mut next = Self {
            breaker,
            ..self.clone()
        };
        let is_closed = |breaker: &Breaker| matches!(breaker, Breaker::Closed { .. });
        match (is_closed(&self.breaker), is_closed(&breaker)) {
            (true, false) => next.note(now, format!("is down: {why}"), None),
            (false, true) => next.note(now, format!("is reachable again: {why}"), None),
            _ => {}
        }
        next
    }

    /// The record after an operator's act at `now`. `last` is this change, and its message is unsent.
    ///
    /// # Errors
    /// [`OperationRefusal::Already`] if the downstream is forced in this way already; if it is to be
    /// released, is not forced, and its breaker is closed; if the step type is to be paused and is paused
    /// already, or is to be resumed and is not paused; and if a further step type is to be paused and
    /// [`MAX_PAUSED_STEPS`] are paused already.
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
                    return Err(OperationRefusal::Already("at its limit of paused steps"));
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
        let told = what + &by_operator(act);
        next.note(now, told, Some(act.clone()));
        Ok(next)
    }

    /// Makes this the last change, with its message unsent.
    fn note(&mut self, at: Timestamp, what: String, operator: Option<OperatorAct>) {
        let change = Change {
            at,
            what,
            operator,
            told: false,
        };
        let before = std::mem::replace(&mut self.last, change);
        if !before.what.is_empty() {
            self.earlier.insert(0, before);
            self.earlier.truncate(MAX_EARLIER);
        }
    }

    /// The message, on the topic `alerts`, that reports the last change to operators. Its id is made of the agent and
    /// the time of the change, so it is the same however often the message is sent.
    #[must_use]
    pub fn event(&self, agent: &AgentName) -> Envelope {
        let alert = Alert {
            alert_id: format!("downstream/{agent}/{}", self.last.at.0),
            kind: AlertKind::Breaker,
            order_id: None,
            cause: format!("downstream {agent} {}", self.last.what),
            at: self.last.at,
        };
        alert.message(agent.as_str(), None)
    }

    /// The record once the bus has acknowledged the message about the last change.
    #[must_use]
    pub fn told(&self) -> Self {
        let mut next = self.clone();
        next.last.told = true;
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_one_change_and_its_end_another() {
        let open = |at| Breaker::Open {
            opens: 1,
            until: Timestamp(at),
        };
        let half = Breaker::HalfOpen {
            opens: 1,
            until: Timestamp(9),
            out: 1,
            good: 0,
        };
        let mut record = Downstream::default();
        for (at, breaker) in [(1, open(2)), (2, half), (3, open(4)), (4, half)] {
            record = record
                .with_breaker(breaker, "no answer", Timestamp(at))
                .told();
            assert_eq!(
                (record.last.at.0, &*record.last.what),
                (1, "is down: no answer")
            );
            assert_eq!(record.breaker, breaker);
        }
        let act = OperatorAct::new("ann", "refunds first");
        let pause = DownstreamAction::PauseStep(
            WorkflowName::new("order").unwrap(),
            StepId::new("pay").unwrap(),
        );
        let paused = record.operated(&pause, &act, Timestamp(5)).unwrap();
        assert_eq!(paused.outage().map(|change| change.at.0), Some(1));
        let well = record.with_breaker(Breaker::default(), "the probes succeeded", Timestamp(5));
        assert_eq!(well.outage(), None);
        assert_eq!(well.last.what, "is reachable again: the probes succeeded");
        assert!(!well.last.told);
        assert_eq!(well.earlier.len(), 1);
    }

    #[test]
    fn a_paused_step_holds_back_that_step_of_that_workflow_alone() {
        let workflow = |name: &str| -> WorkflowName { WorkflowName::new(name).unwrap() };
        let step = |name: &str| -> StepId { StepId::new(name).unwrap() };
        let pause = DownstreamAction::PauseStep(workflow("order"), step("pay"));
        let act = OperatorAct::new("ann", "refunds first");
        let paused = Downstream::default().operated(&pause, &act, Timestamp(1));
        let paused = paused.unwrap();
        let agent = AgentName::new("bank").unwrap();
        let settings = BreakerSettings::default();
        for (of, id, waits) in [
            ("order", "pay", true),
            ("order", "ship", false),
            ("return", "pay", false),
        ] {
            let admission = paused.admits(
                &agent,
                &workflow(of),
                &step(id),
                &settings,
                Millis(5),
                Timestamp(1),
            );
            match admission {
                Admission::Wait(until, why) if waits => {
                    assert_eq!((until, &*why.code), (Timestamp(6), "step-paused"));
                }
                other => assert_eq!((other, waits), (Admission::Call, false), "{of}/{id}"),
            }
        }
    }
}
