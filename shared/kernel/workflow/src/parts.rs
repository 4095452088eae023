//! Parts of a workflow: what a step does for each element of a list is a workflow of its own, and each element has an
//! order of it. So is each way to do the work of a step that has several (`on_failure`, `first_of`).
//!
//! An author writes that work inside of the step. For the checks and the compilation a definition is taken apart: the
//! rest of the step stays in the [`outer`] definition, and the work becomes a [`Part`], a definition like any other,
//! which may have parts itself. So each rule about steps is written once. A problem of a part is moved to the place where
//! its author wrote it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

use crate::model::{
    AlternativeDefinition, CodePolicyDefinition, CompensationDefinition, Definition,
    ForEachDefinition, NoCompensation, PolicyDefinition, StepDefinition, ThenDefinition,
    compensations,
};
use crate::names::WorkflowName;
use crate::problem::{Path, Problem, Segment};
use crate::variables::{INDEX, INPUT, check_name};

/// Separates the name of a workflow from the id of the step that makes a part of it, and that from the number of a part
/// among those of its step.
const DOT: char = '.';
/// What stands before that number.
const WAY: &str = "way-";

/// A part of a workflow.
pub(crate) struct Part {
    pub place: Place,
    pub definition: Definition,
}

/// Where the work of a part is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The step that makes the part, by its position in the file.
    pub step: usize,
    inside: Inside,
}

/// Where in its step the work of a part is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    /// In the step itself, as one action.
    Step,
    /// In its list of steps.
    Group,
    /// In a list of ways to do the step's work, by its position.
    Way(usize),
}

/// The name of the workflow that a step makes.
pub(crate) fn name(workflow: &str, step: &str) -> String {
    format!("{workflow}{DOT}{step}")
}

/// The name of the workflow of one way to do the work of a step, by its number from 0.
pub(crate) fn name_of_way(workflow: &str, step: &str, way: usize) -> String {
    format!("{workflow}{DOT}{step}{DOT}{WAY}{}", way + 1)
}

/// Whether a definition is that of a part.
pub(crate) fn is_part(definition: &Definition) -> bool {
    definition.workflow.contains(DOT)
}

/// Whether a definition is that of one way to do the work of a step.
pub(crate) fn is_way(definition: &Definition) -> bool {
    is_part(definition) && definition.variables == [INPUT]
}

/// The definition without the work of its parts.
pub(crate) fn outer(definition: &Definition) -> Cow<'_, Definition> {
    if !definition.steps.iter().any(StepDefinition::makes_parts) {
        return Cow::Borrowed(definition);
    }
    let steps = definition.steps.iter();
    Cow::Owned(Definition {
        steps: steps.map(around).collect(),
        ..definition.clone()
    })
}

/// What of a step is left around its parts: when it begins, what its ways to do the work are asked for and when they are
/// tried, and what follows when the work fails.
fn around(step: &StepDefinition) -> StepDefinition {
    if !step.makes_parts() {
        return step.clone();
    }
    let each = step.for_each.as_ref();
    let around = |ways: &[AlternativeDefinition]| {
        let ways = ways.iter().filter(|_| each.is_none());
        ways.map(|way| AlternativeDefinition {
            unless: way.unless.clone(),
            input: way.input.clone(),
            ..AlternativeDefinition::default()
        })
        .collect()
    };
    let says_none = match each {
        Some(each) => each.steps.is_some(),
        None => compensations(step).next().is_none(),
    };
    let none = step.compensation.as_ref();
    let none = none.filter(|c| says_none && matches!(c, CompensationDefinition::None(_)));
    StepDefinition {
        id: step.id.clone(),
        after: step.after.clone(),
        when: step.when.clone(),
        wait: step.wait.clone(),
        awaits: step.awaits.clone(),
        for_each: each.map(|each| ForEachDefinition {
            steps: None,
            ..each.clone()
        }),
        input: match each {
            Some(_) => Value::Null,
            None => step.input.clone(),
        },
        on_failure: around(&step.on_failure),
        first_of: around(&step.first_of),
        supervisor: step.supervisor.as_ref().map(what_follows),
        compensation: none.cloned(),
        point_of_no_return: step.point_of_no_return,
        ..StepDefinition::default()
    }
}

/// What of a policy is about the order, when there are no more attempts.
fn what_follows(policy: &PolicyDefinition) -> PolicyDefinition {
    let by_code = policy.by_code.iter();
    let by_code = by_code.filter(|(_, after)| after.then.is_some());
    PolicyDefinition {
        then: policy.then,
        by_code: by_code
            .map(|(code, after)| {
                let then = CodePolicyDefinition {
                    then: after.then,
                    ..CodePolicyDefinition::default()
                };
                (code.clone(), then)
            })
            .collect(),
        ..PolicyDefinition::default()
    }
}

/// The parts that a step makes. None if it makes none, or if its names or its steps cannot be, which the checks of the
/// definition report. `may_be_compensated` says whether the step may be.
pub(crate) fn of_step(definition: &Definition, step: usize, may_be_compensated: bool) -> Vec<Part> {
    let Some(written) = definition.steps.get(step).filter(|step| step.makes_parts()) else {
        return Vec::new();
    };
    let Some(each) = &written.for_each else {
        let own = written.first_of.is_empty().then(|| StepDefinition {
            after: None,
            when: None,
            on_failure: Vec::new(),
            point_of_no_return: false,
            ..written.clone()
        });
        let (_, others) = written.others();
        let others = others.iter().enumerate();
        let others = others.map(|(nth, way)| (Inside::Way(nth), way.in_place_of(written)));
        let ways = own.into_iter().map(|own| (Inside::Step, own)).chain(others);
        let parts = ways.enumerate().map(|(number, (inside, way))| Part {
            place: Place { step, inside },
            definition: way_of(definition, number, way),
        });
        return parts.collect();
    };
    let names = each.with.keys().map(String::as_str).chain([each.element()]);
    let is_flat = written.inner().all(|inner| inner.for_each.is_none());
    if !is_flat || names.into_iter().any(|name| check_name(name).is_err()) {
        return Vec::new();
    }
    let mut steps = match &each.steps {
        Some(steps) => steps.clone(),
        None => vec![StepDefinition {
            after: None,
            when: None,
            for_each: None,
            point_of_no_return: false,
            ..written.clone()
        }],
    };
    if !may_be_compensated {
        let calls = |step: &&mut StepDefinition| {
            step.wait.is_none() && step.awaits.is_none() && !step.runs_orders()
        };
        for step in steps.iter_mut().filter(calls) {
            let none = CompensationDefinition::None(NoCompensation::None);
            step.compensation.get_or_insert(none);
        }
    }
    let variables = [each.element(), INDEX].into_iter().map(str::to_owned);
    let variables = variables.chain(each.with.keys().cloned()).collect();
    vec![Part {
        place: Place {
            step,
            inside: match each.steps {
                Some(_) => Inside::Group,
                None => Inside::Step,
            },
        },
        definition: part(
            definition,
            name(&definition.workflow, &written.id),
            variables,
            steps,
        ),
    }]
}

/// The part that is one way to do the work of a step. What it is asked is computed outside. If it fails, it is
/// compensated: what follows then is the step's.
fn way_of(definition: &Definition, number: usize, mut way: StepDefinition) -> Definition {
    let name = name_of_way(&definition.workflow, &way.id, number);
    if way.wait.is_some() || way.awaits.is_some() {
        let mut part = part(definition, name, vec![INPUT.to_owned()], vec![way]);
        // It makes no attempts, and what follows a failure is the step's.
        part.defaults.supervisor = None;
        return part;
    }
    let policy = way.supervisor.take();
    let policy = policy.or_else(|| definition.defaults.supervisor.clone());
    let mut policy = policy.unwrap_or_default();
    policy.then = Some(ThenDefinition::Compensate);
    for after in policy.by_code.values_mut() {
        after.then = None;
    }
    let says_nothing = CodePolicyDefinition::default();
    policy.by_code.retain(|_, after| *after != says_nothing);
    way.supervisor = Some(policy);
    way.input = format!("${{{INPUT}}}").into();
    part(definition, name, vec![INPUT.to_owned()], vec![way])
}

fn part(
    definition: &Definition,
    workflow: String,
    variables: Vec<String>,
    steps: Vec<StepDefinition>,
) -> Definition {
    let mut part = Definition {
        workflow,
        description: None,
        order_timeout: None,
        progress: false,
        details_schema: None,
        search: Default::default(),
        variables,
        output: Default::default(),
        agents: Default::default(),
        defaults: definition.defaults.clone(),
        steps,
    };
    let used: BTreeSet<&str> = part.agents_in_use().collect();
    let agents = definition.agents.iter();
    let agents = agents.filter(|(name, _)| used.contains(name.as_str()));
    let agents = agents.map(|(name, service)| (name.clone(), service.clone()));
    part.agents = agents.collect();
    part
}

/// Every part of a definition, as it is where all steps may be compensated.
#[cfg(feature = "load")]
pub(crate) fn all(definition: &Definition) -> impl Iterator<Item = Part> {
    (0..definition.steps.len()).flat_map(|step| of_step(definition, step, true))
}

impl Place {
    /// The place of a compiled part.
    pub(crate) fn of(definition: &Definition, part: &WorkflowName) -> Option<Self> {
        let of_step = part.as_str().strip_prefix(&definition.workflow)?;
        let of_step = of_step.strip_prefix(DOT)?;
        let (id, way) = of_step.split_once(DOT).unwrap_or((of_step, "way-1"));
        let step = definition.steps.iter().position(|step| step.id == id)?;
        let written = &definition.steps[step];
        let is_group = written.inner().next().is_some();
        let way: usize = way.strip_prefix(WAY)?.parse().ok()?;
        let is_race = !written.first_of.is_empty() && written.for_each.is_none();
        let listed = if is_race { 1 } else { 2 };
        let inside = match way.checked_sub(listed) {
            Some(other) => Inside::Way(other),
            None if is_group => Inside::Group,
            None => Inside::Step,
        };
        Some(Self { step, inside })
    }

    /// A problem of the part, where its author wrote what it is about: for what a way to do a step's work takes from its
    /// step, in the step. `None` for a problem of what the part has from the definition, which reports it itself.
    pub(crate) fn moved(self, definition: &Definition, mut problem: Problem) -> Option<Problem> {
        let [Segment::Key(top), rest @ ..] = problem.at.0.as_slice() else {
            return None;
        };
        if top != "steps" {
            return None;
        }
        let outer = Path::step(self.step);
        let (mut at, rest) = match (self.inside, rest) {
            (Inside::Group, [index @ Segment::Index(_), rest @ ..]) => {
                let mut at = outer.keys("for_each.steps");
                at.0.push(index.clone());
                (at, rest)
            }
            (Inside::Group, rest) => (outer.keys("for_each.steps"), rest),
            // The step and its part have the same id.
            (_, [Segment::Index(_), Segment::Key(id)]) if id == "id" => return None,
            (Inside::Way(nth), [Segment::Index(_), rest @ ..]) => {
                let written = definition.steps.get(self.step)?;
                let (list, ways) = written.others();
                let Some(Segment::Key(key)) = rest.first() else {
                    return None;
                };
                let takes = |way: &AlternativeDefinition| !way.says(key) && !way.waits();
                match takes(ways.get(nth)?) {
                    false => (outer.key(list).index(nth), rest),
                    true => (outer, rest),
                }
            }
            (_, [Segment::Index(_), rest @ ..]) => (outer, rest),
            (_, rest) => (outer, rest),
        };
        let is_whole_step = problem.path.is_empty();
        let of_step = at.clone();
        at.0.extend_from_slice(rest);
        let said = if is_whole_step { &of_step } else { &at };
        let Problem { step, path, .. } = Problem::new(said.clone(), "");
        (problem.step, problem.path, problem.at) = (step, path, at);
        Some(problem)
    }
}
