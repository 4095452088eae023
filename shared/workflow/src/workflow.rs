//! A checked and compiled workflow: what the core runs.

use crate::duration::Millis;
use crate::expr::Expression;
use crate::hash::DefinitionHash;
use crate::model::Definition;
use crate::names::{AgentName, StepId, WorkflowName};
use crate::template::Template;

/// Position of a step in [`Workflow::steps`].
pub type StepIndex = usize;

pub(crate) const DEFAULT_COMPLETE_WITHIN: Millis = Millis(30_000);

/// A definition that has passed every check.
///
/// Steps are in an order in which each comes after all that it depends on.
#[derive(Debug)]
pub struct Workflow {
    /// Name shared by all versions.
    pub name: WorkflowName,
    /// Content hash; with the name, the identity that orders pin.
    pub hash: DefinitionHash,
    /// The steps.
    pub steps: Vec<Step>,
    /// What was written.
    pub definition: Definition,
}

/// One step, with every default resolved.
#[derive(Debug)]
pub struct Step {
    /// Unique in the workflow.
    pub id: StepId,
    /// Who carries it out.
    pub agent: AgentName,
    /// What the agent is asked to do.
    pub action: String,
    /// Input of the action.
    pub input: Template,
    /// Steps that must have completed or been skipped first; each index is below this step's own.
    pub after: Vec<StepIndex>,
    /// The step is skipped where this is false.
    pub when: Option<Expression>,
    /// From an attempt's request to its complete-by.
    pub complete_within: Millis,
    /// Allowance of one attempt.
    pub retry: Retry,
    /// Most calls in all, over every attempt: declared, or what the attempts add up to.
    pub total_calls: u32,
    /// Whether the total is kept over redeliveries too, in the call ledger.
    pub is_counted: bool,
    /// Whether the effect may be repeated while it is unknown whether it happened.
    pub repeat: Repeat,
    /// What the Supervisor does about failed attempts.
    pub policy: Policy,
    /// How the effect is compensated; `None` where there is nothing to compensate or no way back.
    pub compensation: Option<Compensation>,
    /// Whether this is the point of no return.
    pub is_pivot: bool,
}

/// What is done while it is unknown whether an effect happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repeat {
    /// The call is repeated under the same key.
    Safe,
    /// The order stops for an operator.
    Never,
    /// The service is asked.
    Probe(Probe),
}

impl Repeat {
    /// Whether the call may be repeated in doubt.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        *self == Self::Safe
    }
}

/// The question whether an effect happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// What the agent is asked to do.
    pub action: String,
    /// From the request to its complete-by.
    pub complete_within: Millis,
    /// Allowance of one question.
    pub retry: Retry,
}

/// The agent's allowance within one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Most calls, the first included; at least 1.
    pub calls: u32,
    /// Upper bound of the first wait between calls.
    pub initial: Millis,
    /// Upper bound of any wait between calls.
    pub max: Millis,
}

/// What the Supervisor does about failed attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Failures met with another attempt.
    pub threshold: u32,
    /// Wait before the first retried attempt; zero is at once.
    pub delay: Millis,
    /// Bound of the growing wait.
    pub max_delay: Millis,
    /// Extra attempts above the threshold, each after this wait.
    pub wait: Option<(Millis, u32)>,
    /// How long work may be deferred before that counts as a failure.
    pub park: Millis,
    /// What ends it.
    pub then: Above,
}

/// What ends the Supervisor's patience with a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Above {
    /// Compensate what has been done.
    Compensate,
    /// Stop in Error, with an alert.
    Error,
}

/// A compensation, with every default resolved.
#[derive(Debug)]
pub struct Compensation {
    /// Who carries it out.
    pub agent: AgentName,
    /// What the agent is asked to do.
    pub action: String,
    /// Input of the action.
    pub input: Template,
    /// From an attempt's request to its complete-by.
    pub complete_within: Millis,
    /// Allowance of one attempt.
    pub retry: Retry,
    /// Most calls in all, over every attempt.
    pub total_calls: u32,
    /// Whether the total is kept over redeliveries too, in the call ledger.
    pub is_counted: bool,
    /// How long work may be deferred before that counts as a failure.
    pub park: Millis,
    /// Failures met with another attempt; the next is CompensationFailed.
    pub threshold: u32,
    /// Wait before a retried attempt, doubled each time up to the second value.
    pub delay: (Millis, Millis),
}

impl Policy {
    /// Attempts that a step can ever have without an operator.
    #[must_use]
    pub fn max_attempts(&self) -> u32 {
        1 + self.threshold + self.wait.map_or(0, |(_, times)| times)
    }

    /// Wait before the attempt that follows the `failures`-th failure, if there is one.
    #[must_use]
    pub fn retry_after(&self, failures: u32) -> Option<Millis> {
        if failures <= self.threshold {
            Some(growing(self.delay, self.max_delay, failures))
        } else {
            let (delay, times) = self.wait?;
            (failures - self.threshold <= times).then_some(delay)
        }
    }
}

impl Compensation {
    /// Wait before the attempt that follows the `failures`-th failure, if there is one.
    #[must_use]
    pub fn retry_after(&self, failures: u32) -> Option<Millis> {
        (failures <= self.threshold).then(|| growing(self.delay.0, self.delay.1, failures))
    }
}

fn growing(first: Millis, max: Millis, failures: u32) -> Millis {
    let doublings = failures.saturating_sub(1).min(32);
    Millis(first.0.saturating_mul(1 << doublings).min(max.0))
}

impl Workflow {
    /// Index of a step.
    #[must_use]
    pub fn step_index(&self, id: &str) -> Option<StepIndex> {
        self.steps.iter().position(|s| s.id.as_str() == id)
    }

    /// Index of the point of no return.
    #[must_use]
    pub fn pivot(&self) -> Option<StepIndex> {
        self.steps.iter().position(|s| s.is_pivot)
    }

    /// Whether `later` comes after `earlier`, directly or not.
    #[must_use]
    pub fn is_after(&self, later: StepIndex, earlier: StepIndex) -> bool {
        let mut open = self.steps[later].after.clone();
        let mut seen = vec![false; self.steps.len()];
        while let Some(step) = open.pop() {
            if step == earlier {
                return true;
            }
            if !std::mem::replace(&mut seen[step], true) {
                open.extend(&self.steps[step].after);
            }
        }
        false
    }

    /// Most calls that one order can ever cause, forward and back, without an operator.
    #[must_use]
    pub fn worst_case_calls(&self) -> u64 {
        self.steps
            .iter()
            .map(|s| {
                let undo = s
                    .compensation
                    .as_ref()
                    .map_or(0, |c| u64::from(c.total_calls));
                u64::from(s.total_calls) + undo
            })
            .sum()
    }

    /// Shortest complete-within of any step.
    #[must_use]
    pub fn shortest_complete_within(&self) -> Millis {
        self.steps
            .iter()
            .map(|s| s.complete_within)
            .min()
            .unwrap_or(DEFAULT_COMPLETE_WITHIN)
    }
}
