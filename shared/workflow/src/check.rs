//! Every check of a definition as a whole, before anything runs.
//!
//! All problems are collected, so that an author mends a file in one pass. The rules about
//! compensation follow the saga literature: steps before the point of no return are compensatable, the
//! pivot is neither, steps after it are retryable.

use std::collections::BTreeSet;
use std::fmt;

use crate::duration::Millis;
use crate::model::{CompensationDefinition, Definition, ThenDefinition};
use crate::names::check_name;
use crate::workflow::{StepIndex, Workflow};

/// Most steps of one workflow, inclusive; at least one is needed. The process record holds a record
/// for each.
pub const MAX_STEPS: usize = 32;
/// Most calls to the remote service that an author may allow one attempt, inclusive. At least one
/// call is needed.
pub const MAX_CALLS: u32 = 100;
/// Largest number of failed attempts, inclusive, that an author may have met with another attempt;
/// the same for extra attempts after a longer wait.
pub const MAX_THRESHOLD: u32 = 100;
/// Most calls that one order may cause in all, inclusive, as [`Workflow::worst_case_calls`] counts
/// them.
pub const MAX_CALLS_PER_ORDER: u64 = 10_000;
/// Longest name of an action, in bytes, inclusive. It consists of ASCII letters, digits, `-` and
/// `_`.
pub const MAX_ACTION_BYTES: usize = 64;

/// One thing that is wrong with a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Id of the step; `None` if the problem is of the whole definition.
    pub step: Option<String>,
    /// For the author: what is wrong, and often what to write instead.
    pub reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.step {
            Some(step) => write!(f, "step {step}: {}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

/// What a definition is checked against: the agents that exist, and the clock skew of the
/// installation.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Names of the agents that exist; `None` where the caller cannot know them, and then any name
    /// is allowed.
    pub agents: Option<BTreeSet<String>>,
    /// Largest clock difference between any two machines. Each complete-within has to be at least
    /// twice this plus 10 ms.
    pub skew: Millis,
}

impl Limits {
    /// The limits for a definition that was checked when it was published: any agents, no skew.
    #[must_use]
    pub fn published() -> Self {
        Self {
            agents: None,
            skew: Millis(0),
        }
    }
}

/// A step's place in the run order.
pub(crate) struct Planned {
    pub written: usize,
    pub after: Vec<StepIndex>,
    pub may_be_undone: bool,
}

struct Problems(Vec<Problem>);

impl Problems {
    fn add(&mut self, step: Option<&str>, reason: impl Into<String>) {
        self.0.push(Problem {
            step: step.map(str::to_owned),
            reason: reason.into(),
        });
    }
}

/// Checks the shape: names, references, order, compensation. Returns the run order.
pub(crate) fn check(
    definition: &Definition,
    limits: &Limits,
) -> Result<Vec<Planned>, Vec<Problem>> {
    let mut problems = Problems(Vec::new());
    check_names(definition, limits, &mut problems);
    let after = resolve_after(definition, &mut problems);
    let order = sort(definition, &after, &mut problems);
    check_numbers(definition, limits, &mut problems);
    check_repeat(definition, &mut problems);
    check_expressions(definition, &mut problems);
    let Some(order) = order else {
        return Err(problems.0);
    };
    let ancestors = ancestors(&after, &order);
    let undoable = check_undo(definition, &ancestors, &mut problems);
    if !problems.0.is_empty() {
        return Err(problems.0);
    }
    let mut place = vec![0; order.len()];
    for (to, &from) in order.iter().enumerate() {
        place[from] = to;
    }
    Ok(order
        .iter()
        .map(|&written| {
            let mut after: Vec<_> = after[written].iter().map(|&a| place[a]).collect();
            after.sort_unstable();
            after.dedup();
            Planned {
                written,
                after,
                may_be_undone: undoable[written],
            }
        })
        .collect())
}

fn check_names(definition: &Definition, limits: &Limits, problems: &mut Problems) {
    if let Err(e) = check_name(&definition.workflow) {
        problems.add(None, format!("workflow: {e}"));
    }
    if definition.steps.is_empty() {
        problems.add(None, "a workflow needs at least one step");
    }
    if definition.steps.len() > MAX_STEPS {
        problems.add(
            None,
            format!("{} steps; {MAX_STEPS} are allowed", definition.steps.len()),
        );
    }
    let mut seen = BTreeSet::new();
    for step in &definition.steps {
        let id = Some(step.id.as_str());
        if let Err(e) = check_name(&step.id) {
            problems.add(id, format!("id: {e}"));
        }
        if !seen.insert(&step.id) {
            problems.add(id, "another step has the same id");
        }
        check_action(&step.action, id, problems);
        if let Some(probe) = &step.probe {
            check_action(&probe.action, id, problems);
        }
        let mut agents = vec![&step.agent];
        if let Some(CompensationDefinition::Action(c)) = &step.compensation {
            check_action(&c.action, id, problems);
            agents.extend(&c.agent);
        }
        for agent in agents {
            if let Err(e) = check_name(agent) {
                problems.add(id, format!("agent: {e}"));
            } else if let Some(known) = &limits.agents
                && !known.contains(agent)
            {
                let known: Vec<_> = known.iter().map(String::as_str).collect();
                problems.add(
                    id,
                    format!(
                        "unknown agent {agent:?}; configured are: {}",
                        known.join(", ")
                    ),
                );
            }
        }
    }
}

fn check_action(action: &str, step: Option<&str>, problems: &mut Problems) {
    // An action becomes a path segment of the HTTP agent's URL.
    let fits = !action.is_empty()
        && action.len() <= MAX_ACTION_BYTES
        && action
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if !fits {
        problems.add(
            step,
            format!("action {action:?}: use 1 to {MAX_ACTION_BYTES} of a-z, A-Z, 0-9, '-' and '_'"),
        );
    }
}

fn resolve_after(definition: &Definition, problems: &mut Problems) -> Vec<Vec<usize>> {
    let position = |id: &str| definition.steps.iter().position(|s| s.id == id);
    definition
        .steps
        .iter()
        .enumerate()
        .map(|(at, step)| match &step.after {
            None => at.checked_sub(1).into_iter().collect(),
            Some(ids) => ids
                .iter()
                .filter_map(|id| {
                    let found = position(id);
                    if found.is_none() {
                        problems.add(Some(&step.id), format!("after: there is no step {id:?}"));
                    }
                    found
                })
                .collect(),
        })
        .collect()
}

/// Run order: of the steps whose predecessors are placed, always the one written first.
fn sort(
    definition: &Definition,
    after: &[Vec<usize>],
    problems: &mut Problems,
) -> Option<Vec<usize>> {
    let count = after.len();
    let mut order = Vec::with_capacity(count);
    let mut placed = vec![false; count];
    while order.len() < count {
        let next = (0..count).find(|&s| !placed[s] && after[s].iter().all(|&a| placed[a]));
        let Some(next) = next else {
            let stuck: Vec<_> = (0..count)
                .filter(|&s| !placed[s])
                .map(|s| definition.steps[s].id.as_str())
                .collect();
            problems.add(
                None,
                format!(
                    "steps come after one another in a circle: {}",
                    stuck.join(", ")
                ),
            );
            return None;
        };
        placed[next] = true;
        order.push(next);
    }
    Some(order)
}

fn ancestors(after: &[Vec<usize>], order: &[usize]) -> Vec<BTreeSet<usize>> {
    let mut all = vec![BTreeSet::new(); after.len()];
    for &step in order {
        let mut mine = BTreeSet::new();
        for &a in &after[step] {
            mine.insert(a);
            mine.extend(&all[a]);
        }
        all[step] = mine;
    }
    all
}

/// The rules about compensation; returns for each step whether it can ever be compensated.
fn check_undo(
    definition: &Definition,
    ancestors: &[BTreeSet<usize>],
    problems: &mut Problems,
) -> Vec<bool> {
    let steps = &definition.steps;
    let pivots: Vec<usize> = (0..steps.len())
        .filter(|&s| steps[s].point_of_no_return)
        .collect();
    if let [first, second, ..] = pivots.as_slice() {
        problems.add(
            Some(&steps[*second].id),
            format!(
                "step {} is the point of no return already",
                steps[*first].id
            ),
        );
    }
    let pivot = pivots.first().copied();
    (0..steps.len())
        .map(|s| {
            let step = &steps[s];
            let id = Some(step.id.as_str());
            let past_pivot = pivot.is_some_and(|p| s == p || ancestors[s].contains(&p));
            if let Some(p) = pivot
                && !past_pivot
                && !ancestors[p].contains(&s)
            {
                problems.add(
                    id,
                    format!(
                        "runs beside the point of no return {}: put it before or after it",
                        steps[p].id
                    ),
                );
            }
            let then = step.supervisor.as_ref().and_then(|p| p.then);
            if past_pivot {
                if then == Some(ThenDefinition::Compensate) {
                    problems.add(id, "cannot compensate from the point of no return on: use then: error");
                }
                if matches!(step.compensation, Some(CompensationDefinition::Action(_))) {
                    problems.add(id, "a compensation from the point of no return on would never run: remove it");
                }
            } else if step.compensation.is_none() {
                problems.add(
                    id,
                    "has no compensation: declare how it is undone, or compensation: none if it has no effect to undo",
                );
            }
            !past_pivot
        })
        .collect()
}

fn check_numbers(definition: &Definition, limits: &Limits, problems: &mut Problems) {
    let defaults = &definition.defaults;
    let mut check = |id: Option<&str>,
                     within: Option<Millis>,
                     retry: Option<&crate::model::RetryDefinition>,
                     threshold: Option<u32>| {
        let least = Millis(limits.skew.0.saturating_mul(2).saturating_add(10));
        if let Some(within) = within
            && within < least
        {
            problems.add(
                id,
                format!("complete_within {within} cannot fit: with clocks {} apart it needs at least {least}", limits.skew),
            );
        }
        if let Some(r) = retry {
            if r.calls == 0 || r.calls > MAX_CALLS {
                problems.add(
                    id,
                    format!("retry.calls is {}; use 1 to {MAX_CALLS}", r.calls),
                );
            }
            if r.total.is_some_and(|t| t < r.calls) {
                problems.add(id, "retry.total is below retry.calls");
            }
            if let (Some(initial), Some(max)) = (r.initial, r.max)
                && initial > max
            {
                problems.add(
                    id,
                    format!("retry.initial {initial} is above retry.max {max}"),
                );
            }
            if let (Some(initial), Some(within)) = (r.initial, within)
                && r.calls > 1
                && initial >= within
            {
                problems.add(
                    id,
                    format!("retry.initial {initial} cannot fit in complete_within {within}"),
                );
            }
        }
        if threshold.is_some_and(|t| t > MAX_THRESHOLD) {
            problems.add(id, format!("threshold is above {MAX_THRESHOLD}"));
        }
    };
    check(
        None,
        defaults.complete_within,
        defaults.retry.as_ref(),
        defaults.supervisor.as_ref().map(|p| p.threshold),
    );
    for step in &definition.steps {
        let id = Some(step.id.as_str());
        let within = step.complete_within.or(defaults.complete_within);
        check(
            id,
            within,
            step.retry.as_ref(),
            step.supervisor.as_ref().map(|p| p.threshold),
        );
        check(
            id,
            step.probe.as_ref().and_then(|p| p.complete_within),
            None,
            None,
        );
        if let Some(CompensationDefinition::Action(c)) = &step.compensation {
            check(id, c.complete_within, c.retry.as_ref(), c.threshold);
        }
    }
    let of_steps = definition.steps.iter();
    let policies = of_steps.map(|step| (Some(step.id.as_str()), step.supervisor.as_ref()));
    for (id, policy) in [(None, defaults.supervisor.as_ref())]
        .into_iter()
        .chain(policies)
    {
        if policy.is_some_and(|p| p.retry_at_once && p.delay.is_some_and(|d| d > Millis(0))) {
            problems.add(
                id,
                "supervisor.retry_at_once and supervisor.delay exclude one another: remove one of the two",
            );
        }
        let wait = policy.and_then(|policy| policy.wait.as_ref());
        if wait.is_some_and(|wait| wait.times > MAX_THRESHOLD) {
            problems.add(
                id,
                format!("supervisor.wait.times is above {MAX_THRESHOLD}"),
            );
        }
    }
}

/// Steps whose effect may not be repeated.
fn check_repeat(definition: &Definition, problems: &mut Problems) {
    for step in &definition.steps {
        let id = Some(step.id.as_str());
        if step.at_most_once && step.probe.is_some() {
            problems.add(
                id,
                "at_most_once stops for an operator and probe asks the service: declare one of the two",
            );
        }
        let once = step.at_most_once || step.probe.is_some();
        if once && step.retry.as_ref().is_some_and(|r| r.calls > 1) {
            problems.add(
                id,
                "its effect may not be repeated, so an attempt is one call: write retry.calls: 1",
            );
        }
        let retry = step.retry.as_ref().or(definition.defaults.retry.as_ref());
        if step.probe.is_some() && retry.and_then(|r| r.total) == Some(1) {
            problems.add(
                id,
                "retry.total: 1 leaves no call to ask whether the effect happened: write at_most_once, or a larger total",
            );
        }
    }
}

/// Every expression of every step compiles; one problem for each that does not.
fn check_expressions(definition: &Definition, problems: &mut Problems) {
    use crate::expr::Expression;
    let template = |input: &serde_json::Value| {
        crate::bounds::check_nesting(input).map_err(|e| e.to_string())?;
        crate::template::Template::compile(input).map(|_| ())
    };
    for step in &definition.steps {
        let id = Some(step.id.as_str());
        if let Some(when) = &step.when
            && let Err(reason) = Expression::compile(when)
        {
            problems.add(id, format!("when: {reason}"));
        }
        if let Err(reason) = template(&step.input) {
            problems.add(id, format!("input: {reason}"));
        }
        if let Some(CompensationDefinition::Action(c)) = &step.compensation
            && let Err(reason) = template(&c.input)
        {
            problems.add(id, format!("compensation.input: {reason}"));
        }
    }
}

/// Checks that need compiled steps: what expressions read, and the worst case.
pub(crate) fn check_compiled(workflow: &Workflow, limits: &Limits) -> Vec<Problem> {
    let _ = limits;
    let mut problems = Problems(Vec::new());
    for (at, step) in workflow.steps.iter().enumerate() {
        let id = Some(step.id.as_str());
        let own = step.input.expressions();
        for expression in own.iter().copied().chain(&step.when) {
            for read in expression.steps() {
                match workflow.step_index(read) {
                    None => problems.add(id, format!("reads the output of {read:?}, and there is no such step")),
                    Some(other) if !workflow.is_after(at, other) => problems.add(
                        id,
                        format!("reads the output of {read}, which need not have completed by then: add it to after"),
                    ),
                    Some(_) => {}
                }
            }
        }
        for expression in step.compensation.iter().flat_map(|c| c.input.expressions()) {
            for read in expression.steps() {
                match workflow.step_index(read) {
                    Some(other) if other == at => {
                        problems.add(id, "a compensation reads its own step's output as `output`");
                    }
                    Some(other) if workflow.is_after(at, other) => {}
                    _ => problems.add(id, format!("its compensation reads the output of {read:?}, which it does not come after")),
                }
            }
        }
    }
    let least = workflow.one_attempt_each();
    if let Some(within) = workflow.complete_within
        && within < least
    {
        problems.add(
            None,
            format!("complete_within {within} cannot hold: the steps may take {least} in one attempt each"),
        );
    }
    let calls = workflow.worst_case_calls();
    if calls > MAX_CALLS_PER_ORDER {
        problems.add(
            None,
            format!("one order could cause {calls} calls; {MAX_CALLS_PER_ORDER} are allowed: lower retry.calls or thresholds"),
        );
    }
    problems.0
}
