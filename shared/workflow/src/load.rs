//! Reading workflow files: YAML, the published JSON Schema, then every check.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;

use crate::check::{Limits, Problem};
use crate::duration::Millis;
use crate::model::Definition;
use crate::workflow::Workflow;

/// Largest workflow file, in bytes, inclusive: 256 KiB.
pub const MAX_FILE_BYTES: usize = 256 * 1024;

/// Everything that is wrong with one workflow file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    /// Name of the file, as the caller gave it.
    pub file: String,
    /// What is wrong, at least one problem.
    pub problems: Vec<Problem>,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.problems.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write!(f, "{}: {problem}", self.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for LoadError {}

/// Reads, checks and compiles the text of one workflow file. `file` is its name for error messages;
/// nothing is read from disk. YAML is read as version 1.2 has it: `yes`, `no` and `on` are texts.
///
/// # Errors
/// [`LoadError`] if the text has more than [`MAX_FILE_BYTES`], is not YAML, breaks the JSON Schema,
/// or has problems that [`Workflow::compile`] finds. It has every problem of the first of these
/// checks that fails.
///
/// # Example
/// ```
/// use triad_workflow::{Limits, load};
/// let text = "workflow: w\nsteps: [{id: a, agent: x, action: go, compensation: none}]";
/// let workflow = load::from_yaml("w.yaml", text, &Limits::published()).unwrap();
/// assert_eq!(workflow.steps.len(), 1);
/// ```
pub fn from_yaml(file: &str, text: &str, limits: &Limits) -> Result<Workflow, LoadError> {
    let fail = |problems| LoadError {
        file: file.to_owned(),
        problems,
    };
    let one = |reason: String| fail(vec![Problem { step: None, reason }]);
    if text.len() > MAX_FILE_BYTES {
        return Err(one(format!("is larger than {MAX_FILE_BYTES} bytes")));
    }
    // As YAML 1.2 has it: `y`, `no` and `on` are texts.
    let options = serde_saphyr::options! { strict_booleans: true };
    let value: Value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|e| one(format!("is not YAML: {e}")))?;
    let problems = schema_problems(&value);
    if !problems.is_empty() {
        return Err(fail(problems));
    }
    let definition: Definition = serde_json::from_value(value).map_err(|e| one(e.to_string()))?;
    Workflow::compile(definition, limits).map_err(fail)
}

/// The JSON Schema of workflow files, made from [`Definition`].
#[must_use]
pub fn json_schema() -> Value {
    let mut schema = schemars::schema_for!(Definition).to_value();
    schema["title"] = "Triad workflow definition".into();
    schema
}

fn schema_problems(value: &Value) -> Vec<Problem> {
    let schema = json_schema();
    let validator = jsonschema::validator_for(&schema).expect("the generated schema is valid");
    validator
        .iter_errors(value)
        .map(|e| {
            let path = e.instance_path().to_string();
            let step = step_of(&path, value);
            let place = path.trim_start_matches('/').replace('/', ".");
            let reason = if place.is_empty() {
                e.to_string()
            } else {
                format!("{place}: {e}")
            };
            Problem { step, reason }
        })
        .collect()
}

/// Id of the step that a path such as `/steps/2/retry` lies in.
fn step_of(path: &str, value: &Value) -> Option<String> {
    let index: usize = path
        .strip_prefix("/steps/")?
        .split('/')
        .next()?
        .parse()
        .ok()?;
    let step = &value["steps"][index];
    Some(match step["id"].as_str() {
        Some(id) => id.to_owned(),
        None => format!("number {}", index + 1),
    })
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
        assert_eq!(workflow.steps[0].agent.as_str(), "on");
    }
}
