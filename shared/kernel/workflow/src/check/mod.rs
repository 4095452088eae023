//! Checks of a whole definition, before an order runs on it.
//!
//! All problems are collected, so that an author can fix a file in one pass. The rules about compensation follow the
//! saga literature: steps before the point of no return are compensatable, the pivot is neither, steps after it are
//! retryable.

mod compensation;
pub(crate) mod expressions;
mod kinds;
mod numbers;
mod run;
pub(crate) mod search;
pub(crate) mod variables;

pub use crate::workflow::MAX_INSTANCES;
use std::collections::BTreeSet;

use crate::duration::Millis;
use crate::model::{CompensationDefinition, Definition};
use crate::names::{self, InvalidName, check_name};
use crate::parts;
use crate::problem::{Path, Problems};
use crate::service;
use crate::workflow::{StepIndex, Workflow};

pub use crate::names::MAX_ACTION_BYTES;
pub use crate::problem::{Problem, TextPosition};

/// Most steps of one workflow, inclusive; at least one is needed. The process record holds a record
/// for each.
pub const MAX_STEPS: usize = 32;
/// Most events that one step may wait for, inclusive.
pub const MAX_EVENTS: usize = 8;
/// Most names of those who may decide, inclusive; of those to whom a decision is escalated, as many again.
pub const MAX_DECIDERS: usize = 16;
/// Most times that a decision is asked for again, inclusive.
pub const MAX_REMINDERS: u64 = 100;
/// Most codes of failures for which one policy says what follows, inclusive.
pub const MAX_CODES: usize = 16;
/// Most other ways to do the work of one step, inclusive.
pub const MAX_ALTERNATIVES: usize = 4;
/// Most child orders of one step that may be under way at once, inclusive.
pub const MAX_AT_ONCE: u32 = 50;
/// Most calls to the remote service that an author may allow for one attempt, inclusive. At least one
/// call is needed.
pub const MAX_CALLS: u32 = 100;
/// Largest threshold, inclusive, that an author may give: the number of failed attempts that are each
/// followed by another attempt. It is also the largest number of extra attempts after a longer wait.
pub const MAX_THRESHOLD: u32 = 100;
/// Most calls that one order may cause in one run, inclusive, as [`Workflow::worst_case_calls`] counts
/// them.
pub const MAX_CALLS_PER_ORDER: u64 = 10_000;

/// Inputs of the checks: the agents that exist, and the clock skew of the installation.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Names of the agents that exist; `None` if the caller cannot know them, and then any name is allowed.
    pub agents: Option<BTreeSet<String>>,
    /// Largest clock difference between any two machines. Each attempt timeout of a step, a probe or a
    /// compensation has to be at least twice this plus 10 ms.
    pub skew: Millis,
}

impl Limits {
    /// The limits for a definition that was checked when it was published: any agents are allowed, and the
    /// skew is zero.
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
    pub may_be_compensated: bool,
}

/// Results of the checks of a definition.
pub(crate) struct Checked {
    /// The run order; `None` if the dependencies of steps have a cycle.
    pub order: Option<Vec<Planned>>,
    pub problems: Vec<Problem>,
}

/// The rule for the name of a workflow.
pub(crate) type NameRule = fn(&str) -> Result<(), InvalidName>;

/// Checks names, references, order, compensation and expressions. Plans the run order. The work of parts is left out.
pub(crate) fn check(definition: &Definition, limits: &Limits, rule: NameRule) -> Checked {
    let mut problems = Problems::default();
    if let Err(e) = rule(&definition.workflow) {
        problems.add(Path::top().key("workflow"), e.to_string());
    }
    variables::check(definition, &mut problems);
    run::check(definition, &mut problems);
    for (name, service) in &definition.agents {
        let at = Path::top().key("agents").key(name);
        let used = definition.agents_in_use().any(|agent| agent == name);
        if !used {
            let problem = Problem::new(at.clone(), "no step has this agent").on_key();
            let names = definition.agents_in_use();
            problems.push(problem.nearest(name, names));
        }
        service::check::check(service, &at, &mut problems);
    }
    let outer = parts::outer(definition);
    let definition = outer.as_ref();
    check_names(definition, limits, &mut problems);
    kinds::check(definition, &mut problems);
    let after = resolve_after(definition, &mut problems);
    let order = sort(definition, &after, &mut problems);
    numbers::check(definition, limits, &mut problems);
    numbers::check_repeat(definition, &mut problems);
    let ancestors = order.as_ref().map(|order| ancestors(&after, order));
    expressions::check(definition, ancestors.as_deref(), &mut problems);
    search::check(definition, &mut problems);
    let planned = order.zip(ancestors).map(|(order, ancestors)| {
        let may_be_compensated = compensation::check(definition, &ancestors, &mut problems);
        let mut place = vec![0; order.len()];
        for (to, &from) in order.iter().enumerate() {
            place[from] = to;
        }
        order
            .iter()
            .map(|&written| {
                let mut after: Vec<_> = after[written].iter().map(|&a| place[a]).collect();
                after.sort_unstable();
                after.dedup();
                Planned {
                    written,
                    after,
                    may_be_compensated: may_be_compensated[written],
                }
            })
            .collect()
    });
    let named = |problem: Problem| problem.named(definition);
    Checked {
        order: planned,
        problems: problems.0.into_iter().map(named).collect(),
    }
}

fn check_names(definition: &Definition, limits: &Limits, problems: &mut Problems) {
    let top = Path::top();
    let count = definition.steps.len();
    if count == 0 {
        problems.push(
            Problem::new(top.key("steps"), "a workflow needs at least one step")
                .hint("write `- id: …` below it, with `agent`, `action` and `compensation`"),
        );
    }
    if count > MAX_STEPS {
        let reason = format!("{count} steps; {MAX_STEPS} are allowed");
        problems.add(top.key("steps"), reason);
    }
    for (index, step) in definition.steps.iter().enumerate() {
        let at = Path::step(index);
        let same = definition.steps[..index]
            .iter()
            .position(|s| s.id == step.id);
        if let Err(e) = check_name(&step.id) {
            problems.add(at.key("id"), e.to_string());
        } else if let Some(first) = same {
            let reason = format!("step number {} has the same id", first + 1);
            problems
                .push(Problem::new(at.key("id"), reason).hint("give each step an id of its own"));
        }
        if let Some(action) = &step.action {
            check_action(action, at.key("action"), problems);
        }
        if let Some(probe) = &step.probe {
            check_action(&probe.action, at.keys("probe.action"), problems);
        }
        let poll = step.finishes_later.as_ref().and_then(|l| l.poll.as_ref());
        if let Some(action) = poll.and_then(|poll| poll.action.as_ref()) {
            check_action(action, at.keys("finishes_later.poll.action"), problems);
        }
        if let Some(agent) = &step.agent {
            check_agent(agent, at.key("agent"), limits, problems);
        }
        if let Some(CompensationDefinition::Action(c)) = &step.compensation {
            check_action(&c.action, at.keys("compensation.action"), problems);
            if let Some(agent) = &c.agent {
                check_agent(agent, at.keys("compensation.agent"), limits, problems);
            }
        }
    }
}

fn check_agent(agent: &str, at: Path, limits: &Limits, problems: &mut Problems) {
    if let Err(e) = check_name(agent) {
        problems.add(at, e.to_string());
    } else if let Some(known) = &limits.agents
        && !known.contains(agent)
    {
        let known: Vec<_> = known.iter().map(String::as_str).collect();
        let reason = format!(
            "unknown agent {agent:?}; configured are: {}",
            known.join(", ")
        );
        problems.push(Problem::new(at, reason).nearest(agent, known));
    }
}

fn check_action(action: &str, at: Path, problems: &mut Problems) {
    if let Err(reason) = names::check_action(action) {
        problems.add(at, reason);
    }
}

/// Ids of all steps.
pub(crate) fn ids(definition: &Definition) -> impl Iterator<Item = &str> {
    definition.steps.iter().map(|step| step.id.as_str())
}

fn resolve_after(definition: &Definition, problems: &mut Problems) -> Vec<Vec<usize>> {
    let mut resolve = |index: usize, written: &[String]| {
        let mut found = Vec::new();
        for (nth, id) in written.iter().enumerate() {
            match ids(definition).position(|known| known == id) {
                Some(step) => found.push(step),
                None => {
                    let at = Path::step(index).key("after").index(nth);
                    let problem = Problem::new(at, format!("there is no step {id:?}"));
                    problems.push(problem.nearest(id, ids(definition)).of_ids());
                }
            }
        }
        found
    };
    let steps = definition.steps.iter().enumerate();
    steps
        .map(|(index, step)| match &step.after {
            None => index.checked_sub(1).into_iter().collect(),
            Some(written) => resolve(index, written),
        })
        .collect()
}

/// Run order: each time the first written step whose predecessors are placed.
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
            let first = (0..count).find(|&s| !placed[s]).unwrap_or(0);
            let reason = format!(
                "steps come after one another in a circle: {}",
                stuck.join(", ")
            );
            problems.push(
                Problem::new(Path::step(first).key("after"), reason)
                    .hint("let one of them come after none of the others"),
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

/// Checks of compiled steps: the worst case.
pub(crate) fn check_compiled(workflow: &Workflow) -> Vec<Problem> {
    let mut problems = Problems::default();
    let least = workflow.one_attempt_each();
    if let Some(within) = workflow.order_timeout
        && within < least
    {
        let reason =
            format!("{within} cannot hold: the steps may take {least} in one attempt each");
        problems.push(
            Problem::new(Path::top().key("order_timeout"), reason)
                .hint("give the order more time, or its steps less"),
        );
    }
    let calls = workflow.worst_case_calls();
    if calls > MAX_CALLS_PER_ORDER {
        problems.add(
            Path::top().key("steps"),
            format!("one order could cause {calls} calls; {MAX_CALLS_PER_ORDER} are allowed: lower retry.calls_per_attempt or thresholds"),
        );
    }
    problems.0
}
