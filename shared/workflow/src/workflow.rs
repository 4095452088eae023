//! A checked and compiled workflow: what the core runs.

use serde_json::Value;

use crate::check::{self, Limits, Problem};
use crate::duration::Millis;
use crate::expr::Expression;
use crate::hash::DefinitionHash;
use crate::model::{
    CompensationAction, CompensationDefinition, Definition, PolicyDefinition, RetryDefinition,
    StepDefinition, ThenDefinition,
};
use crate::names::{AgentName, StepId, WorkflowName};
use crate::template::Template;

/// Position of a step in [`Workflow::steps`].
pub type StepIndex = usize;

const DEFAULT_COMPLETE_WITHIN: Millis = Millis(30_000);
const DEFAULT_CALLS: u32 = 3;
const DEFAULT_BACKOFF: (Millis, Millis) = (Millis(100), Millis(5_000));
const DEFAULT_THRESHOLD: u32 = 3;
const DELAY_GROWTH_LIMIT: u64 = 64;

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
    /// What the Supervisor does about failed attempts.
    pub policy: Policy,
    /// How the effect is undone; `None` where there is nothing to undo or no way back.
    pub compensation: Option<Compensation>,
    /// Whether this is the point of no return.
    pub is_pivot: bool,
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
    /// What ends it.
    pub then: Above,
}

/// What ends the Supervisor's patience with a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Above {
    /// Undo what has been done.
    Compensate,
    /// Stop in Error, with an alert.
    Error,
}

/// An undo action, with every default resolved.
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
    /// Checks and compiles a definition.
    ///
    /// # Errors
    /// Every problem found, not only the first.
    pub fn compile(definition: Definition, limits: &Limits) -> Result<Self, Vec<Problem>> {
        let order = check::check(&definition, limits)?;
        let defaults = &definition.defaults;
        let mut steps: Vec<Step> = Vec::with_capacity(order.len());
        for planned in &order {
            let written = &definition.steps[planned.written];
            let step = compile_step(written, defaults, planned).map_err(|reason| {
                vec![Problem {
                    step: Some(written.id.clone()),
                    reason,
                }]
            })?;
            steps.push(step);
        }
        let name = WorkflowName::new(&definition.workflow).map_err(|e| {
            vec![Problem {
                step: None,
                reason: e.to_string(),
            }]
        })?;
        let workflow = Self {
            name,
            hash: DefinitionHash::of(&definition),
            steps,
            definition,
        };
        let problems = check::check_compiled(&workflow, limits);
        if problems.is_empty() {
            Ok(workflow)
        } else {
            Err(problems)
        }
    }

    /// Compiles a definition that was checked before it was published.
    ///
    /// # Errors
    /// The problems, where a stored definition is damaged or of a later format.
    pub fn from_published(canonical_json: &str) -> Result<Self, Vec<Problem>> {
        let definition: Definition = serde_json::from_str(canonical_json).map_err(|e| {
            vec![Problem {
                step: None,
                reason: format!("the published definition cannot be read: {e}"),
            }]
        })?;
        Self::compile(definition, &Limits::published())
    }

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

    /// Most calls that one order can ever cause, forward and undo, without an operator.
    #[must_use]
    pub fn worst_case_calls(&self) -> u64 {
        self.steps
            .iter()
            .map(|s| {
                let undo = s
                    .compensation
                    .as_ref()
                    .map_or(0, |c| u64::from(c.retry.calls) * u64::from(c.threshold + 1));
                u64::from(s.retry.calls) * u64::from(s.policy.max_attempts()) + undo
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

fn compile_step(
    written: &StepDefinition,
    defaults: &crate::model::Defaults,
    planned: &check::Planned,
) -> Result<Step, String> {
    let agent = AgentName::new(&written.agent).map_err(|e| e.to_string())?;
    let complete_within = written
        .complete_within
        .or(defaults.complete_within)
        .unwrap_or(DEFAULT_COMPLETE_WITHIN);
    let retry = retry(written.retry.as_ref().or(defaults.retry.as_ref()));
    let policy = policy(
        written.supervisor.as_ref().or(defaults.supervisor.as_ref()),
        planned.may_be_undone,
        written.supervisor.is_some(),
    );
    let compensation = match &written.compensation {
        Some(CompensationDefinition::Action(action)) if planned.may_be_undone => Some(
            compensation(action, &agent, complete_within, retry, &policy)?,
        ),
        _ => None,
    };
    Ok(Step {
        id: StepId::new(&written.id).map_err(|e| e.to_string())?,
        agent,
        action: written.action.clone(),
        input: input(&written.input)?,
        after: planned.after.clone(),
        when: written
            .when
            .as_deref()
            .map(Expression::compile)
            .transpose()?,
        complete_within,
        retry,
        policy,
        compensation,
        is_pivot: written.point_of_no_return,
    })
}

fn compensation(
    action: &CompensationAction,
    agent: &AgentName,
    complete_within: Millis,
    step_retry: Retry,
    policy: &Policy,
) -> Result<Compensation, String> {
    Ok(Compensation {
        agent: match &action.agent {
            Some(other) => AgentName::new(other).map_err(|e| e.to_string())?,
            None => agent.clone(),
        },
        action: action.action.clone(),
        input: input(&action.input)?,
        complete_within: action.complete_within.unwrap_or(complete_within),
        retry: action.retry.as_ref().map_or(step_retry, |r| retry(Some(r))),
        threshold: action.threshold.unwrap_or(policy.threshold),
        delay: (policy.delay, policy.max_delay),
    })
}

fn input(value: &Value) -> Result<Template, String> {
    if value.is_null() {
        Ok(Template::Constant(Value::Object(serde_json::Map::new())))
    } else {
        Template::compile(value)
    }
}

fn retry(written: Option<&RetryDefinition>) -> Retry {
    let (initial, max) = DEFAULT_BACKOFF;
    match written {
        None => Retry {
            calls: DEFAULT_CALLS,
            initial,
            max,
        },
        Some(r) => {
            let initial = r.initial.unwrap_or(initial);
            Retry {
                calls: r.calls,
                initial,
                max: r.max.unwrap_or(max).max(initial),
            }
        }
    }
}

fn policy(written: Option<&PolicyDefinition>, may_be_undone: bool, own: bool) -> Policy {
    let fallback = if may_be_undone {
        Above::Compensate
    } else {
        Above::Error
    };
    let Some(p) = written else {
        return Policy {
            threshold: DEFAULT_THRESHOLD,
            delay: Millis(0),
            max_delay: Millis(0),
            wait: None,
            then: fallback,
        };
    };
    let delay = p.delay.unwrap_or_default();
    Policy {
        threshold: p.threshold,
        delay,
        max_delay: p
            .max_delay
            .unwrap_or(Millis(delay.0.saturating_mul(DELAY_GROWTH_LIMIT)))
            .max(delay),
        wait: p.wait.as_ref().map(|w| (w.delay, w.times)),
        then: match p.then {
            Some(ThenDefinition::Error) => Above::Error,
            // A step that says `compensate` itself past the pivot is refused by the checks; a
            // workflow-wide default applies only where undoing is possible.
            Some(ThenDefinition::Compensate) if may_be_undone || own => Above::Compensate,
            Some(ThenDefinition::Compensate) | None => fallback,
        },
    }
}
