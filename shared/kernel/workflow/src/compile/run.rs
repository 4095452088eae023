//! Compilation of steps that run other orders, and of the parts of a workflow.

use serde_json::{Map, Value};

use crate::check::{Limits, Planned, Problem};
use crate::model::{
    CompensationDefinition, Definition, ForEachDefinition, NoCompensation, StepDefinition,
};
use crate::names::{WorkflowName, check_workflow};
use crate::parts;
use crate::template::Template;
use crate::variables::{INDEX, Variables};
use crate::workflow::{ForEach, Run, Workflow};

const DEFAULT_AT_ONCE: u32 = 10;

/// Compiles the parts that the steps of a definition make, in the order in which the steps are written. Adds their
/// problems, each at the place where its author wrote what it is about. `order` is `None` if it is not known.
pub(super) fn parts(
    definition: &Definition,
    order: Option<&[Planned]>,
    limits: &Limits,
    problems: &mut Vec<Problem>,
) -> Vec<Workflow> {
    let mut compiled = Vec::new();
    for step in 0..definition.steps.len() {
        let mut planned = order.into_iter().flatten();
        let planned = planned.find(|planned| planned.written == step);
        let may_be_compensated = planned.is_none_or(|planned| planned.may_be_compensated);
        let Some(part) = parts::of_step(definition, step, may_be_compensated) else {
            continue;
        };
        match Workflow::compile_named(part.definition, limits, check_workflow) {
            Ok(workflow) => compiled.push(workflow),
            Err(of_part) => {
                let moved = of_part.into_iter().filter_map(|p| part.place.moved(p));
                problems.extend(moved.map(|p| p.named(definition)));
            }
        }
    }
    compiled
}

/// Compiles what a step says of the orders that it runs.
pub(super) fn compile(
    definition: &Definition,
    written: &StepDefinition,
    may_be_compensated: bool,
    parts: &[Workflow],
) -> Result<Run, String> {
    let variables = Variables::of(definition);
    let each = written.for_each.as_ref();
    let of_element = variables.of_element(each.map(ForEachDefinition::element));
    let none = CompensationDefinition::None(NoCompensation::None);
    let is_compensated = may_be_compensated && written.compensation != Some(none);
    let compiled = each
        .map(|each| {
            Ok::<_, String>(ForEach {
                list: Template::Value(variables.bare(&each.list)?),
                item: each.element().to_owned(),
                at_once: each.at_once.unwrap_or(DEFAULT_AT_ONCE),
                tolerate: each.tolerate.unwrap_or(0),
            })
        })
        .transpose()?;
    let (workflow, version, details, within) = match (&written.run, each) {
        (Some(run), _) => {
            let workflow = WorkflowName::new(&run.workflow).map_err(|e| e.to_string())?;
            (workflow, None, run.details.clone(), run.within)
        }
        (None, Some(each)) => {
            let name = parts::name(&definition.workflow, &written.id);
            let part = parts.iter().find(|part| part.name.as_str() == name);
            let part = part.ok_or("its work for an element does not compile")?;
            let details = Value::Object(details_of_part(each));
            (
                part.name.clone(),
                Some(part.hash.clone()),
                details,
                each.within,
            )
        }
        (None, None) => return Err("it has neither `run` nor `for_each`".to_owned()),
    };
    Ok(Run {
        workflow,
        version,
        details: super::input(&details, &of_element)?,
        within,
        each: compiled,
        is_compensated,
    })
}

/// The details of an order of a part: the element, its place, and what the author gives beside them.
fn details_of_part(each: &ForEachDefinition) -> Map<String, Value> {
    let own = [each.element(), INDEX].map(|name| (name.to_owned(), format!("${{{name}}}").into()));
    each.with.clone().into_iter().chain(own).collect()
}
