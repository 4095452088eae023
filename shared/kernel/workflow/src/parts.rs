//! Parts of a workflow: what a step does for each element of a list is a workflow of its own, and each element has an
//! order of it.
//!
//! An author writes that work inside of the step. For the checks and the compilation a definition is taken apart: the
//! rest of the step stays in the [`outer`] definition, and the work becomes a [`Part`], a definition like any other.
//! So each rule about steps is written once. A problem of a part is moved to the place where its author wrote it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::model::{
    CompensationDefinition, Definition, ForEachDefinition, NoCompensation, PolicyDefinition,
    StepDefinition,
};
use crate::names::WorkflowName;
use crate::problem::{Path, Problem, Segment};
use crate::variables::{INDEX, check_name};

/// Separates the name of a workflow from the id of the step that makes a part of it.
const DOT: char = '.';

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
    /// Whether it is written as a list of steps, and not as one action.
    is_group: bool,
}

/// The name of the workflow that a step makes.
pub(crate) fn name(workflow: &str, step: &str) -> String {
    format!("{workflow}{DOT}{step}")
}

/// Whether a definition is that of a part.
pub(crate) fn is_part(definition: &Definition) -> bool {
    definition.workflow.contains(DOT)
}

/// The definition without the work of its parts.
pub(crate) fn outer(definition: &Definition) -> Cow<'_, Definition> {
    if !definition.steps.iter().any(StepDefinition::makes_part) {
        return Cow::Borrowed(definition);
    }
    let steps = definition.steps.iter();
    Cow::Owned(Definition {
        steps: steps.map(around).collect(),
        ..definition.clone()
    })
}

/// What of a step is left around its part: when it begins, and what follows when the work fails.
fn around(step: &StepDefinition) -> StepDefinition {
    let Some(each) = step.for_each.as_ref().filter(|_| step.makes_part()) else {
        return step.clone();
    };
    let own = |compensation: &&_| {
        each.steps.is_some() && matches!(compensation, CompensationDefinition::None(_))
    };
    StepDefinition {
        id: step.id.clone(),
        after: step.after.clone(),
        when: step.when.clone(),
        wait: step.wait.clone(),
        awaits: step.awaits.clone(),
        for_each: Some(ForEachDefinition {
            steps: None,
            ..each.clone()
        }),
        supervisor: step.supervisor.as_ref().map(|policy| PolicyDefinition {
            then: policy.then,
            ..PolicyDefinition::default()
        }),
        compensation: step.compensation.as_ref().filter(own).cloned(),
        point_of_no_return: step.point_of_no_return,
        ..StepDefinition::default()
    }
}

/// The part that a step makes. `None` if it makes none, or if its names or its steps cannot be, which the checks of
/// the definition report. `may_be_compensated` says whether the step may be.
pub(crate) fn of_step(
    definition: &Definition,
    step: usize,
    may_be_compensated: bool,
) -> Option<Part> {
    let written = definition.steps.get(step)?;
    let each = written.for_each.as_ref().filter(|_| written.makes_part())?;
    let names = each.with.keys().map(String::as_str).chain([each.element()]);
    let is_flat = written.inner().all(|inner| inner.for_each.is_none());
    if !is_flat || names.into_iter().any(|name| check_name(name).is_err()) {
        return None;
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
    let mut part = Definition {
        workflow: name(&definition.workflow, &written.id),
        description: None,
        order_timeout: None,
        progress: false,
        details_schema: None,
        search: Default::default(),
        variables: variables.chain(each.with.keys().cloned()).collect(),
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
    Some(Part {
        place: Place {
            step,
            is_group: each.steps.is_some(),
        },
        definition: part,
    })
}

/// Every part of a definition, as it is where all steps may be compensated.
#[cfg(feature = "load")]
pub(crate) fn all(definition: &Definition) -> impl Iterator<Item = Part> {
    (0..definition.steps.len()).filter_map(|step| of_step(definition, step, true))
}

impl Place {
    /// The place of a compiled part.
    pub(crate) fn of(definition: &Definition, part: &WorkflowName) -> Option<Self> {
        let (_, id) = part.as_str().split_once(DOT)?;
        let step = definition.steps.iter().position(|step| step.id == id)?;
        let each = definition.steps[step].for_each.as_ref()?;
        Some(Self {
            step,
            is_group: each.steps.is_some(),
        })
    }

    /// A problem of the part, where its author wrote what it is about. `None` for a problem of what the part has from
    /// the definition: it is reported for the definition itself.
    pub(crate) fn moved(self, mut problem: Problem) -> Option<Problem> {
        let [Segment::Key(top), rest @ ..] = problem.at.0.as_slice() else {
            return None;
        };
        if top != "steps" {
            return None;
        }
        let outer = Path::step(self.step);
        let (mut at, rest) = match (self.is_group, rest) {
            (true, [index @ Segment::Index(_), rest @ ..]) => {
                let mut at = outer.keys("for_each.steps");
                at.0.push(index.clone());
                (at, rest)
            }
            (true, rest) => (outer.keys("for_each.steps"), rest),
            // The step and its part have the same id.
            (false, [Segment::Index(_), Segment::Key(id)]) if id == "id" => return None,
            (false, [Segment::Index(_), rest @ ..]) => (outer, rest),
            (false, rest) => (outer, rest),
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
