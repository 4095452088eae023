//! Loading of workflow files: YAML, the published JSON Schema, then every check. Each problem has its position, and
//! none hides another that can be judged without it.

mod positions;
mod shape;
mod value;
mod yaml;

use std::collections::BTreeSet;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::check::{Limits, Problem};
use crate::duration::Millis;
use crate::model::{Definition, ServiceDefinition};
use crate::names::check_name;
use crate::problem::{Path, Problems};
use crate::types;
use crate::workflow::Workflow;
use positions::Positions;

/// The name of a file for error messages, and its text.
pub type NamedText = (String, String);
/// Gives the description of an agent's service that lies beside a workflow file, by the name of the agent; `None` if
/// there is none.
pub type Describe<'a> = dyn FnMut(&str) -> Result<Option<NamedText>, LoadError> + 'a;

/// Largest workflow file, in bytes, inclusive: 256 KiB.
pub const MAX_FILE_BYTES: usize = 256 * 1024;

/// All problems of one workflow file. As text it is a line for each problem, `FILE:LINE:COLUMN: what is wrong`, with
/// the line of the file below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    /// Name of the file, as the caller gave it.
    pub file: String,
    /// What is wrong, at least one problem, in the order of the file.
    pub problems: Vec<Problem>,
}

impl LoadError {
    /// The error of a file with one problem that is about the whole file. `reason` describes it for the author.
    #[must_use]
    pub fn whole_file(file: &str, reason: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            problems: vec![Problem::of_all(reason)],
        }
    }

    /// A line of text for each problem, `FILE:LINE:COLUMN: what is wrong`, without an excerpt of the file. A
    /// problem without a place has `FILE: what is wrong`.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.problems.iter().map(|problem| match &problem.place {
            Some(at) => format!("{}:{}:{}: {problem}", self.file, at.line, at.column),
            None => format!("{}: {problem}", self.file),
        })
    }

    /// The problems in the form for programs: each an object with the texts `file`, `path` and `reason`, the
    /// numbers `line` and `column` (from 1, or null without a place), and `step` and `hint` (each a text, or
    /// null if there is none).
    pub fn json(&self) -> impl Iterator<Item = Value> + '_ {
        self.problems.iter().map(|problem| {
            let place = problem.place.as_ref();
            json!({
                "file": self.file,
                "line": place.map(|at| at.line),
                "column": place.map(|at| at.column),
                "step": problem.step,
                "path": problem.path,
                "reason": problem.reason,
                "hint": problem.hint,
            })
        })
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (line, problem)) in self.lines().zip(&self.problems).enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            f.write_str(&line)?;
            if let Some(excerpt) = problem.place.as_ref().and_then(|p| p.excerpt()) {
                write!(f, "\n{excerpt}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for LoadError {}

/// Reads, checks and compiles the text of one workflow file. `file` is its name for error messages;
/// nothing is read from disk. YAML is read as version 1.2 has it: `yes`, `no` and `on` are texts.
///
/// # Errors
/// [`LoadError`] if the text has more than [`MAX_FILE_BYTES`], is not YAML, has a key twice, breaks the JSON
/// Schema, or has problems that [`Workflow::compile`] or [`type_problems`] finds. Of a text that is YAML it
/// has every problem; what depends on a part that cannot be used is not judged.
///
/// # Example
/// ```
/// use triad_workflow::{Limits, load};
/// let text = "workflow: w\nsteps: [{id: a, agent: x, action: go, compensation: none}]";
/// let workflow = load::from_yaml("w.yaml", text, &Limits::published()).unwrap();
/// assert_eq!(workflow.steps.len(), 1);
///
/// let wrong = load::from_yaml("w.yaml", &text.replace("agent", "agnet"), &Limits::published());
/// let told = wrong.unwrap_err().lines().collect::<Vec<_>>();
/// assert_eq!(told, ["w.yaml:2:17: step a: agnet: unknown key, did you mean `agent`?"]);
/// ```
pub fn from_yaml(file: &str, text: &str, limits: &Limits) -> Result<Workflow, LoadError> {
    with_services(file, text, limits, &mut |_| Ok(None))
}

/// As [`from_yaml`], with the descriptions of services that lie beside the file. `describe` is asked for
/// each agent that the workflow's steps name and its own `agents` do not describe. A description becomes a part of the
/// definition.
///
/// # Errors
/// [`LoadError`] in the cases of [`from_yaml`], that of `describe`, and of a description in the cases of
/// [`service_from_yaml`].
pub fn with_services(
    file: &str,
    text: &str,
    limits: &Limits,
    describe: &mut Describe<'_>,
) -> Result<Workflow, LoadError> {
    if text.len() > MAX_FILE_BYTES {
        let reason = format!("is larger than {MAX_FILE_BYTES} bytes");
        return Err(LoadError::whole_file(file, reason));
    }
    let fail = |problems| LoadError {
        file: file.to_owned(),
        problems,
    };
    let mut value = yaml::read(text).map_err(|problem| fail(vec![*problem]))?;
    let positions = Positions::of(text);
    let shaped = shape::check(&json_schema(), &mut value);
    describe_agents(&mut value, describe)?;
    let names = step_names(&value, shaped.ids_are_whole);
    let mut problems = positions.duplicates();
    problems.extend(positions.altered_numbers());
    problems.extend(shaped.problems);
    let compiled = match serde_json::from_value::<Definition>(value) {
        Ok(definition) => {
            let more = types::check(&definition);
            match Workflow::compile(definition, limits) {
                Ok(workflow) if more.is_empty() => Ok(workflow),
                Ok(_) => Err(more),
                Err(problems) => Err(problems.into_iter().chain(more).collect()),
            }
        }
        // The text is not a file with a definition, which is reported already; or the schema accepts what the model
        // does not.
        Err(_) if !problems.is_empty() => Err(Vec::new()),
        Err(e) => Err(vec![Problem::of_all(format!(
            "cannot be read as a workflow: {e}"
        ))]),
    };
    let workflow = compiled.map_err(|more| {
        let is_judged = |p: &Problem| {
            let is_of_names = p.is_of_ids && !shaped.ids_are_whole;
            !is_of_names && !shaped.repaired.iter().any(|part| p.at.is_in(part))
        };
        problems.extend(more.into_iter().filter(is_judged));
    });
    if problems.is_empty()
        && let Ok(workflow) = workflow
    {
        return Ok(workflow);
    }
    for problem in &mut problems {
        if let Some(name) = problem.at.step_index().and_then(|index| names.get(index)) {
            problem.step = Some(name.clone());
        }
        if problem.place.is_none() {
            positions.place(problem);
        }
    }
    problems.sort_by_key(|p| p.place.as_ref().map(|at| (at.line, at.column)));
    problems.dedup();
    Err(fail(problems))
}

/// The steps of a workflow, or of a `for_each`; none if there are none.
fn written_steps(of: &Value) -> Vec<&Value> {
    of["steps"].as_array().into_iter().flatten().collect()
}

/// Adds the descriptions of agents that lie beside the file.
fn describe_agents(workflow: &mut Value, describe: &mut Describe<'_>) -> Result<(), LoadError> {
    let steps = written_steps(workflow).into_iter();
    let steps = steps.flat_map(|step| [vec![step], written_steps(&step["for_each"])].concat());
    let names = steps.flat_map(|step| [&step["agent"], &step["compensation"]["agent"]]);
    let names: BTreeSet<String> = names
        .filter_map(Value::as_str)
        .filter(|name| check_name(name).is_ok() && workflow["agents"].get(name).is_none())
        .map(str::to_owned)
        .collect();
    for name in names {
        let Some((file, text)) = describe(&name)? else {
            continue;
        };
        // As it is written: the types of a description are not serialized.
        (_, workflow["agents"][name]) = read_service(&file, &text)?;
    }
    Ok(())
}

/// Reads and checks the text of one description of a service, `agents/NAME.yaml`. `file` is its name for error
/// messages; nothing is read from disk.
///
/// # Errors
/// [`LoadError`] if the text has more than [`MAX_FILE_BYTES`], is not YAML, has a key twice, breaks the JSON Schema, or
/// describes a call that cannot be made.
///
/// # Example
/// ```
/// use triad_workflow::load;
/// let text = "actions:\n  charge: { path: /v1/charges, body: form, keep: [id] }";
/// let service = load::service_from_yaml("agents/payment.yaml", text).unwrap();
/// assert_eq!(service.actions.len(), 1);
///
/// let wrong = load::service_from_yaml("agents/payment.yaml", "actions: { charge: { path: charges } }");
/// let first = wrong.unwrap_err().lines().next().unwrap();
/// assert!(first.starts_with("agents/payment.yaml:1:28: actions.charge.path: begins with one `/`"), "{first}");
/// ```
pub fn service_from_yaml(file: &str, text: &str) -> Result<ServiceDefinition, LoadError> {
    read_service(file, text).map(|(service, _)| service)
}

/// A description, and the same as a value.
fn read_service(file: &str, text: &str) -> Result<(ServiceDefinition, Value), LoadError> {
    if text.len() > MAX_FILE_BYTES {
        let reason = format!("is larger than {MAX_FILE_BYTES} bytes");
        return Err(LoadError::whole_file(file, reason));
    }
    let fail = |problems| LoadError {
        file: file.to_owned(),
        problems,
    };
    let mut value = yaml::read(text).map_err(|problem| fail(vec![*problem]))?;
    if !value.is_object() {
        let reason = "is no mapping with `actions`, `answers` or `key`, which describe a service";
        return Err(LoadError::whole_file(file, reason));
    }
    let positions = Positions::of(text);
    let shaped = shape::check(&service_json_schema(), &mut value);
    let mut problems = Problems(positions.duplicates());
    problems.0.extend(positions.altered_numbers());
    problems.0.extend(shaped.problems);
    let read = serde_json::from_value::<ServiceDefinition>(value.clone());
    match &read {
        Ok(service) => {
            crate::service::check::check(service, &Path::top(), &mut problems);
            types::service::check(service, &Path::top(), &mut problems);
        }
        Err(e) if problems.0.is_empty() => {
            problems.push(Problem::of_all(format!("cannot be read: {e}")));
        }
        Err(_) => {}
    }
    let mut problems = problems.0;
    for problem in &mut problems {
        if problem.place.is_none() {
            positions.place(problem);
        }
    }
    problems.sort_by_key(|p| p.place.as_ref().map(|at| (at.line, at.column)));
    problems.dedup();
    match read {
        Ok(service) if problems.is_empty() => Ok((service, value)),
        _ => Err(fail(problems)),
    }
}

/// The JSON Schema of descriptions of services, made from [`ServiceDefinition`].
#[must_use]
pub fn service_json_schema() -> Value {
    let mut schema = schemars::schema_for!(ServiceDefinition).to_value();
    schema["title"] = "Description of a service for Triad".into();
    schema
}

/// Names of the steps in messages: their ids, or their numbers from 1.
fn step_names(value: &Value, ids_are_whole: bool) -> Vec<String> {
    let steps = value["steps"].as_array();
    let name = |(index, step): (usize, &Value)| match step["id"].as_str() {
        Some(id) if ids_are_whole || id != shape::made_up_id(index) => id.to_owned(),
        _ => format!("number {}", index + 1),
    };
    steps.into_iter().flatten().enumerate().map(name).collect()
}

/// Problems in a definition's expressions that make them fail for every order, such as operands whose types do not
/// fit; and two further ones: an expression that needs the output of a step that may be skipped, without a guard, and
/// `{{ … }}`, which would be sent as text. Empty if there are none.
///
/// [`from_yaml`] adds these problems to those of [`Workflow::compile`]. Published definitions are not checked in this
/// way.
#[must_use]
pub fn type_problems(definition: &Definition) -> Vec<Problem> {
    types::check(definition)
}

/// The JSON Schema of workflow files, made from [`Definition`].
#[must_use]
pub fn json_schema() -> Value {
    let mut schema = schemars::schema_for!(Definition).to_value();
    schema["title"] = "Triad workflow definition".into();
    schema
}

impl JsonSchema for Millis {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^([0-9]+ ?[a-z]+ ?)+$",
            "description": "A duration such as 250ms, 10s, 5m or 2h 30m."
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_word_is_a_text_and_not_a_boolean() {
        let text = "workflow: w\nsteps: [{id: y, agent: on, action: no, compensation: none}]";
        let workflow = from_yaml("w.yaml", text, &Limits::published()).unwrap();
        assert_eq!(
            workflow.steps[0].call().expect("a call").agent.as_str(),
            "on"
        );
    }
}
