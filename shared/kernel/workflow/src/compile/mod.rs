//! Compilation of a written definition to a workflow: checked, with every default resolved.

mod later;
mod policy;
mod run;
mod waits;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::check::{self, Limits, NameRule, Problem};
use crate::details::DetailsSchema;
use crate::duration::Millis;
use crate::hash::DefinitionHash;
use crate::model::{
    CompensationAction, CompensationDefinition, Definition, RetryDefinition, StepDefinition,
};
use crate::names::{AgentName, StepId, WorkflowName, check_name, check_workflow};
use crate::parts;
use crate::problem::Path;
use crate::search::SearchKeys;
use crate::service::CallDefinition;
use crate::template::Template;
use crate::variables::Variables;
use crate::workflow::{
    Above, Call, Compensation, DEFAULT_ATTEMPT_TIMEOUT, Otherwise, Policy, Probe, Repeat, Retry,
    Step, StepKind, Workflow,
};

impl Workflow {
    /// Checks a definition as a whole and compiles it, with every default resolved.
    ///
    /// # Errors
    /// Every problem that was found, at least one: what the module [`check`] looks for. The
    /// number of calls and the time of the whole order are checked only if the steps compile.
    pub fn compile(definition: Definition, limits: &Limits) -> Result<Self, Vec<Problem>> {
        Self::compile_named(definition, limits, check_name)
    }

    /// As [`compile`](Self::compile), with the rule for the workflow's name.
    fn compile_named(
        definition: Definition,
        limits: &Limits,
        rule: NameRule,
    ) -> Result<Self, Vec<Problem>> {
        let mut checked = check::check(&definition, limits, rule);
        let order = checked.order.take();
        let parts = run::parts(&definition, order.as_deref(), limits, &mut checked.problems);
        let planned = order.ok_or(());
        match planned.map(|order| Self::put_together(definition, &order, parts)) {
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
        parts: Vec<Self>,
    ) -> Result<Self, Box<Problem>> {
        let outer = parts::outer(&definition);
        let mut steps: Vec<Step> = Vec::with_capacity(order.len());
        for planned in order {
            let step = step(&outer, planned, &parts).map_err(|e| {
                Box::new(Problem::new(Path::step(planned.written), e).named(&definition))
            })?;
            steps.push(step);
        }
        let name = WorkflowName::new(&definition.workflow)
            .map_err(|e| Box::new(Problem::new(Path::top().key("workflow"), e.to_string())))?;
        let search = SearchKeys::compile(&definition)
            .map_err(|e| Box::new(Problem::new(Path::top().key("search"), e)))?;
        let output = match &definition.output {
            Value::Null => None,
            written => Some(Variables::of(&definition).template(written)),
        };
        let output = output
            .transpose()
            .map_err(|e| Box::new(Problem::new(Path::top().key("output"), e)))?;
        Ok(Self {
            name,
            hash: DefinitionHash::of(&definition),
            order_timeout: definition.order_timeout,
            progress: definition.progress,
            details: definition.details_schema.as_ref().map(DetailsSchema::new),
            variables: definition.variables.clone(),
            output,
            parts,
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
        let workflow = Self::compile_named(definition, &Limits::published(), check_workflow)?;
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

/// Compiles a step that has passed the checks. The definition is without the work of its parts.
fn step(
    definition: &Definition,
    planned: &check::Planned,
    parts: &[Workflow],
) -> Result<Step, String> {
    let written = &definition.steps[planned.written];
    let defaults = &definition.defaults;
    let variables = Variables::of(definition);
    let attempt_timeout = written
        .attempt_timeout
        .or(defaults.attempt_timeout)
        .unwrap_or(DEFAULT_ATTEMPT_TIMEOUT);
    let retry = written.retry.as_ref().or(defaults.retry.as_ref());
    let supervised = written.supervisor.as_ref().or(defaults.supervisor.as_ref());
    let policy = policy::policy(supervised);
    let may_be_compensated = planned.may_be_compensated;
    let is_own = written.supervisor.is_some();
    let by_code = policy::by_code(supervised, may_be_compensated, is_own);
    let kind = match (&written.wait, &written.awaits) {
        (Some(timer), _) => StepKind::Timer(waits::timer(timer, &variables)?),
        (None, Some(events)) => StepKind::Await(Box::new(waits::events(
            events,
            may_be_compensated,
            &variables,
        )?)),
        (None, None) if written.runs_orders() => StepKind::Run(Box::new(run::compile(
            definition,
            written,
            may_be_compensated,
            parts,
        )?)),
        (None, None) => {
            let of_codes = by_code.values().map(|by_code| by_code.policy);
            let policies: Vec<Policy> = std::iter::once(policy).chain(of_codes).collect();
            let call = call(written, attempt_timeout, retry, &policies, &variables)?;
            StepKind::Call(Box::new(call))
        }
    };
    let then = match &kind {
        StepKind::Await(wait) if wait.otherwise == Otherwise::Error => Above::Error,
        _ => policy::above(supervised, may_be_compensated, is_own),
    };
    let compensation = match &written.compensation {
        Some(CompensationDefinition::Action(action)) if may_be_compensated => {
            let agent = action.agent.as_ref().or(written.agent.as_ref());
            let agent = agent.ok_or("its compensation has no agent")?;
            Some(compensation(
                action,
                agent,
                attempt_timeout,
                retry,
                &policy,
                &variables,
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
            .map(|when| variables.expression(when))
            .transpose()?,
        kind,
        then,
        by_code,
        compensation,
        is_pivot: written.point_of_no_return,
    })
}

/// Compiles a call. The first of its policies holds after most failures, each other one after those with its code.
fn call(
    written: &StepDefinition,
    attempt_timeout: Millis,
    written_retry: Option<&RetryDefinition>,
    policies: &[Policy],
    variables: &Variables<'_>,
) -> Result<Call, String> {
    let (Some(agent), Some(action)) = (&written.agent, &written.action) else {
        return Err(
            "it has neither an agent with an action, nor `wait`, `await` or `run`".to_owned(),
        );
    };
    let mut retry = policy::retry(written_retry);
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
        let retries: u32 = policies.iter().map(|p| p.max_attempts() - 1).sum();
        (retry.calls_per_attempt + probe).saturating_mul(1 + retries)
    });
    let policy = policies.first().copied();
    let policy = policy.unwrap_or_else(|| policy::policy(None));
    Ok(Call {
        agent: AgentName::new(agent).map_err(|e| e.to_string())?,
        action: action.clone(),
        input: input(&written.input, variables)?,
        attempt_timeout,
        retry,
        calls_per_run,
        is_counted: declared.is_some() || !repeat.is_safe(),
        repeat,
        policy,
        finishes_later: written
            .finishes_later
            .as_ref()
            .map(|later| later::compile(later, attempt_timeout, retry, variables).map(Box::new))
            .transpose()?,
    })
}

fn compensation(
    action: &CompensationAction,
    agent: &str,
    attempt_timeout: Millis,
    step_retry: Option<&RetryDefinition>,
    policy: &Policy,
    variables: &Variables<'_>,
) -> Result<Compensation, String> {
    let written = action.retry.as_ref().or(step_retry);
    let retry = policy::retry(written);
    let policy = Policy {
        failure_threshold: action.failure_threshold.unwrap_or(policy.failure_threshold),
        wait: None,
        ..*policy
    };
    let declared = written.and_then(|r| r.calls_per_run);
    Ok(Compensation {
        agent: AgentName::new(agent).map_err(|e| e.to_string())?,
        action: action.action.clone(),
        input: input(&action.input, variables)?,
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

fn input(value: &Value, variables: &Variables<'_>) -> Result<Template, String> {
    if value.is_null() {
        Ok(Template::Constant(Value::Object(serde_json::Map::new())))
    } else {
        variables.template(value)
    }
}
