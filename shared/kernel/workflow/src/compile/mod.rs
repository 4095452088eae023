//! Compilation of a written definition to a workflow: checked, with every default resolved.

mod later;
mod waits;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::check::{self, Limits, Problem};
use crate::details::DetailsSchema;
use crate::duration::Millis;
use crate::expr::Expression;
use crate::hash::DefinitionHash;
use crate::model::{
    CompensationAction, CompensationDefinition, Definition, PolicyDefinition, RetryDefinition,
    StepDefinition, ThenDefinition,
};
use crate::names::{AgentName, StepId, WorkflowName};
use crate::problem::Path;
use crate::search::SearchKeys;
use crate::service::CallDefinition;
use crate::template::Template;
use crate::workflow::{
    Above, Call, Compensation, DEFAULT_ATTEMPT_TIMEOUT, Otherwise, Policy, Probe, Repeat, Retry,
    Step, StepKind, Workflow,
};

const DEFAULT_CALLS: u32 = 3;
const DEFAULT_BACKOFF: (Millis, Millis) = (Millis(100), Millis(5_000));
const DEFAULT_THRESHOLD: u32 = 3;
const DELAY_GROWTH_LIMIT: u64 = 64;
const DEFAULT_DEFER_FOR: Millis = Millis(24 * 3_600_000);

impl Workflow {
    /// Checks a definition as a whole and compiles it, with every default resolved.
    ///
    /// # Errors
    /// Every problem that was found, at least one: what the module [`check`] looks for. The
    /// number of calls and the time of the whole order are checked only if the steps compile.
    pub fn compile(definition: Definition, limits: &Limits) -> Result<Self, Vec<Problem>> {
        let mut checked = check::check(&definition, limits);
        let planned = checked.order.take().ok_or(());
        match planned.map(|order| Self::put_together(definition, &order)) {
            Ok(Ok(workflow)) => {
                checked.problems.extend(check::check_compiled(&workflow));
                if checked.problems.is_empty() {
                    return Ok(workflow);
                }
            }
            // The problem of a part that does not compile is in the list already.
            Ok(Err(problem)) if checked.problems.is_empty() => checked.problems.push(*problem),
            Ok(Err(_)) | Err(()) => {}
        }
        Err(checked.problems)
    }

    /// Compiles the steps in their run order.
    fn put_together(
        definition: Definition,
        order: &[check::Planned],
    ) -> Result<Self, Box<Problem>> {
        let mut steps: Vec<Step> = Vec::with_capacity(order.len());
        for planned in order {
            let written = &definition.steps[planned.written];
            let step = step(written, &definition.defaults, planned).map_err(|e| {
                Box::new(Problem::new(Path::step(planned.written), e).named(&definition))
            })?;
            steps.push(step);
        }
        let name = WorkflowName::new(&definition.workflow)
            .map_err(|e| Box::new(Problem::new(Path::top().key("workflow"), e.to_string())))?;
        let search = SearchKeys::compile(&definition)
            .map_err(|e| Box::new(Problem::new(Path::top().key("search"), e)))?;
        Ok(Self {
            name,
            hash: DefinitionHash::of(&definition),
            order_timeout: definition.order_timeout,
            progress: definition.progress,
            details: definition.details_schema.as_ref().map(DetailsSchema::new),
            variables: Vec::new(),
            output: None,
            parts: Vec::new(),
            search,
            calls: calls(&steps, &definition),
            steps,
            definition,
        })
    }

    /// Compiles a published definition from its canonical JSON. Agents and skew were checked when
    /// it was published, and are not checked again.
    ///
    /// # Errors
    /// Every problem that was found, at least one: the text is not a definition in JSON, because it is
    /// damaged or of a later format, or the definition does not pass the checks of
    /// [`compile`](Self::compile).
    pub fn from_published(canonical_json: &str) -> Result<Self, Vec<Problem>> {
        let definition: Definition = serde_json::from_str(canonical_json).map_err(|e| {
            vec![Problem::of_all(format!(
                "the published definition cannot be read: {e}"
            ))]
        })?;
        let workflow = Self::compile(definition, &Limits::published())?;
        Ok(Self {
            hash: DefinitionHash::of_stored(canonical_json),
            ..workflow
        })
    }
}

/// The descriptions of the actions that steps, their compensations and probes name.
fn calls(
    steps: &[Step],
    definition: &Definition,
) -> BTreeMap<(AgentName, String), Arc<CallDefinition>> {
    let named = steps.iter().flat_map(|step| {
        let call = step.call();
        let probe = call.and_then(|call| match &call.repeat {
            Repeat::Probe(probe) => Some((&call.agent, &probe.action)),
            Repeat::Safe | Repeat::Never => None,
        });
        let compensation = step.compensation.as_ref().map(|c| (&c.agent, &c.action));
        let poll = call.and_then(|call| {
            let poll = call.finishes_later.as_ref()?.poll.as_ref()?;
            Some((&call.agent, poll.action.as_ref()?))
        });
        let action = call.map(|call| (&call.agent, &call.action));
        let asked = probe.into_iter().chain(poll);
        action.into_iter().chain(asked).chain(compensation)
    });
    let described = named.filter_map(|(agent, action)| {
        let service = definition.agents.get(agent.as_str())?;
        Some((
            (agent.clone(), action.clone()),
            Arc::new(service.call(action)),
        ))
    });
    described.collect()
}

/// Most calls in one attempt that only asks the service.
const PROBE_CALLS: u32 = 3;

/// Compiles a step that has passed the checks.
pub(crate) fn step(
    written: &StepDefinition,
    defaults: &crate::model::Defaults,
    planned: &check::Planned,
) -> Result<Step, String> {
    let attempt_timeout = written
        .attempt_timeout
        .or(defaults.attempt_timeout)
        .unwrap_or(DEFAULT_ATTEMPT_TIMEOUT);
    let retry = written.retry.as_ref().or(defaults.retry.as_ref());
    let supervised = written.supervisor.as_ref().or(defaults.supervisor.as_ref());
    let policy = policy(supervised);
    let kind = match (&written.wait, &written.awaits) {
        (Some(timer), _) => StepKind::Timer(waits::timer(timer)?),
        (None, Some(events)) => {
            StepKind::Await(Box::new(waits::events(events, planned.may_be_compensated)?))
        }
        (None, None) => StepKind::Call(Box::new(call(written, attempt_timeout, retry, policy)?)),
    };
    let then = match &kind {
        StepKind::Await(wait) if wait.otherwise == Otherwise::Error => Above::Error,
        _ => above(
            supervised,
            planned.may_be_compensated,
            written.supervisor.is_some(),
        ),
    };
    let compensation = match &written.compensation {
        Some(CompensationDefinition::Action(action)) if planned.may_be_compensated => {
            let agent = action.agent.as_ref().or(written.agent.as_ref());
            let agent = agent.ok_or("its compensation has no agent")?;
            Some(compensation(
                action,
                agent,
                attempt_timeout,
                retry,
                &policy,
            )?)
        }
        _ => None,
    };
    Ok(Step {
        id: StepId::new(&written.id).map_err(|e| e.to_string())?,
        after: planned.after.clone(),
        when: written
            .when
            .as_deref()
            .map(Expression::compiled)
            .transpose()?,
        kind,
        then,
        compensation,
        is_pivot: written.point_of_no_return,
    })
}

fn call(
    written: &StepDefinition,
    attempt_timeout: Millis,
    written_retry: Option<&RetryDefinition>,
    policy: Policy,
) -> Result<Call, String> {
    let (Some(agent), Some(action)) = (&written.agent, &written.action) else {
        return Err("it has neither an agent with an action, nor `wait` or `await`".to_owned());
    };
    let mut retry = retry(written_retry);
    let repeat = repeat(written, attempt_timeout, retry);
    if !repeat.is_safe() {
        retry.calls_per_attempt = 1;
    }
    let declared = written_retry.and_then(|r| r.calls_per_run);
    let calls_per_run = declared.unwrap_or_else(|| {
        let probe = match &repeat {
            Repeat::Probe(probe) => probe.retry.calls_per_attempt,
            Repeat::Safe | Repeat::Never => 0,
        };
        (retry.calls_per_attempt + probe).saturating_mul(policy.max_attempts())
    });
    Ok(Call {
        agent: AgentName::new(agent).map_err(|e| e.to_string())?,
        action: action.clone(),
        input: input(&written.input)?,
        attempt_timeout,
        retry,
        calls_per_run,
        is_counted: declared.is_some() || !repeat.is_safe(),
        repeat,
        policy,
        finishes_later: written
            .finishes_later
            .as_ref()
            .map(|later| later::compile(later, attempt_timeout, retry).map(Box::new))
            .transpose()?,
    })
}

fn compensation(
    action: &CompensationAction,
    agent: &str,
    attempt_timeout: Millis,
    step_retry: Option<&RetryDefinition>,
    policy: &Policy,
) -> Result<Compensation, String> {
    let written = action.retry.as_ref().or(step_retry);
    let retry = retry(written);
    let policy = Policy {
        failure_threshold: action.failure_threshold.unwrap_or(policy.failure_threshold),
        wait: None,
        ..*policy
    };
    let declared = written.and_then(|r| r.calls_per_run);
    Ok(Compensation {
        agent: AgentName::new(agent).map_err(|e| e.to_string())?,
        action: action.action.clone(),
        input: input(&action.input)?,
        attempt_timeout: action.attempt_timeout.unwrap_or(attempt_timeout),
        retry,
        calls_per_run: declared.unwrap_or(
            retry
                .calls_per_attempt
                .saturating_mul(policy.max_attempts()),
        ),
        is_counted: declared.is_some(),
        policy,
    })
}

fn repeat(written: &StepDefinition, attempt_timeout: Millis, retry: Retry) -> Repeat {
    match &written.probe {
        Some(probe) => Repeat::Probe(Probe {
            action: probe.action.clone(),
            attempt_timeout: probe.attempt_timeout.unwrap_or(attempt_timeout),
            retry: asking(retry),
        }),
        None if written.at_most_once => Repeat::Never,
        None => Repeat::Safe,
    }
}

/// The calls of an attempt that only asks the service.
fn asking(retry: Retry) -> Retry {
    Retry {
        calls_per_attempt: PROBE_CALLS,
        ..retry
    }
}

fn input(value: &Value) -> Result<Template, String> {
    if value.is_null() {
        Ok(Template::Constant(Value::Object(serde_json::Map::new())))
    } else {
        Template::compiled(value)
    }
}

fn retry(written: Option<&RetryDefinition>) -> Retry {
    let (initial, max) = DEFAULT_BACKOFF;
    match written {
        None => Retry {
            calls_per_attempt: DEFAULT_CALLS,
            initial,
            max,
        },
        Some(r) => {
            let initial = r.initial.unwrap_or(initial);
            Retry {
                calls_per_attempt: r.calls_per_attempt,
                initial,
                max: r.max.unwrap_or(max).max(initial),
            }
        }
    }
}

fn policy(written: Option<&PolicyDefinition>) -> Policy {
    let Some(p) = written else {
        return Policy {
            failure_threshold: DEFAULT_THRESHOLD,
            delay: Millis(0),
            max_delay: Millis(0),
            retry_at_once: false,
            wait: None,
            defer_for: DEFAULT_DEFER_FOR,
        };
    };
    let delay = p.delay.unwrap_or_default();
    Policy {
        failure_threshold: p.failure_threshold,
        delay,
        max_delay: p
            .max_delay
            .unwrap_or(Millis(delay.0.saturating_mul(DELAY_GROWTH_LIMIT)))
            .max(delay),
        retry_at_once: p.retry_at_once,
        wait: p.wait.as_ref().map(|w| (w.delay, w.attempts)),
        defer_for: p.defer_for.unwrap_or(DEFAULT_DEFER_FOR),
    }
}

/// The action when no further attempt is made; `own` says whether the step itself sets it.
fn above(written: Option<&PolicyDefinition>, may_be_compensated: bool, own: bool) -> Above {
    match written.and_then(|p| p.then) {
        Some(ThenDefinition::Error) => Above::Error,
        // The checks refuse a step after the pivot that sets `compensate` itself; a workflow-wide default applies
        // only if the step can be compensated.
        Some(ThenDefinition::Compensate) if own => Above::Compensate,
        Some(ThenDefinition::Compensate) | None if may_be_compensated => Above::Compensate,
        Some(ThenDefinition::Compensate) | None => Above::Error,
    }
}
