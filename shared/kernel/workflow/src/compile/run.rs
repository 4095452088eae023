//! Compilation of steps that run other orders, and of the parts of a workflow.

use serde_json::{Map, Value, json};

use crate::check::{Limits, Planned, Problem};
use crate::model::{
    AlternativeDefinition, CompensationDefinition, Definition, ForEachDefinition, NoCompensation,
    StepDefinition,
};
use crate::names::{WorkflowName, check_workflow};
use crate::parts;
use crate::template::Template;
use crate::variables::{INDEX, INPUT, Variables};
use crate::workflow::{Alternative, ForEach, Run, Started, Workflow};

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
        for part in parts::of_step(definition, step, may_be_compensated) {
            match Workflow::compile_named(part.definition, limits, check_workflow) {
                Ok(workflow) => compiled.push(workflow),
                Err(of_part) => {
                    let of_part = of_part.into_iter();
                    let moved = of_part.filter_map(|p| part.place.moved(definition, p));
                    for problem in moved.map(|p| p.named(definition)) {
                        // Several ways may take the same key from their step.
                        if !problems.contains(&problem) {
                            problems.push(problem);
                        }
                    }
                }
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
    let is_race = !written.first_of.is_empty() && each.is_none();
    // Ways that were let go have to be known to have ended, whether or not there is something to compensate.
    let is_compensated = may_be_compensated && (is_race || written.compensation != Some(none));
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
    let of_part = |name: String, details: &Value| {
        let part = parts.iter().find(|part| part.name.as_str() == name);
        let part = part.ok_or("its work does not compile")?;
        Ok::<_, String>(Started {
            workflow: part.name.clone(),
            version: Some(part.hash.clone()),
            details: super::input(details, &of_element)?,
            asks: match each {
                Some(_) => None,
                None => part.steps.first().map(|step| step.kind.to_string()),
            },
        })
    };
    let (own, others, within) = match (&written.run, each) {
        (Some(run), _) => {
            let started = Started {
                workflow: WorkflowName::new(&run.workflow).map_err(|e| e.to_string())?,
                version: None,
                details: super::input(&run.details, &of_element)?,
                asks: None,
            };
            (started, Vec::new(), run.within)
        }
        (None, Some(each)) => {
            let name = parts::name(&definition.workflow, &written.id);
            let details = Value::Object(details_of_part(each));
            (of_part(name, &details)?, Vec::new(), each.within)
        }
        (None, None) => {
            let name = |way| parts::name_of_way(&definition.workflow, &written.id, way);
            let (_, others) = written.others();
            let none = AlternativeDefinition::default();
            let own = Some(&none).filter(|_| !is_race);
            let ways = own.into_iter().chain(others).enumerate();
            let mut ways = ways.map(|(number, way)| {
                let input = Some(&way.input).filter(|input| !input.is_null());
                let details = details_of_way(input.unwrap_or(&written.input));
                Ok(Alternative {
                    started: of_part(name(number), &details)?,
                    unless: way.unless.clone(),
                })
            });
            let own = ways.next().transpose()?;
            let own = own.ok_or("it has no way to do its work")?.started;
            (own, ways.collect::<Result<_, String>>()?, None)
        }
    };
    Ok(Run {
        own,
        others,
        is_race,
        within,
        each: compiled,
        is_compensated,
    })
}

/// The details of an order that is one way to do the work of a step: what it is asked.
fn details_of_way(input: &Value) -> Value {
    let none = Value::Object(Map::new());
    let input = match input {
        Value::Null => &none,
        input => input,
    };
    json!({ INPUT: input })
}

/// The details of an order of a part: the element, its place, and what the author gives beside them.
fn details_of_part(each: &ForEachDefinition) -> Map<String, Value> {
    let own = [each.element(), INDEX].map(|name| (name.to_owned(), format!("${{{name}}}").into()));
    each.with.clone().into_iter().chain(own).collect()
}
