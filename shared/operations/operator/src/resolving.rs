//! Checks that an operator's output for a resolved step has the fields that other steps read.

use serde::Serialize;
use serde_json::Value;
use triad_workflow::{Expression, ReadOf, StepId, StepIndex, Workflow};

/// A field that another step, or the step's own compensation, reads and that an output does not have.
/// As text `notify reads reference (its input)`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Lacking {
    /// The step that reads the field.
    pub reader: StepId,
    /// The field of the output: names with dots between them.
    pub field: String,
    /// The part of the reading step in which the field is read: `input`, `when` or `compensation`.
    pub place: &'static str,
}

impl std::fmt::Display for Lacking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            reader,
            field,
            place,
        } = self;
        write!(f, "{reader} reads {field} (its {place})")
    }
}

/// The fields that `output` lacks, each once, if the step at the position `resolved` is resolved with it:
/// fields of the step's output that the workflow reads for every order. Empty if none is missing. Fields that
/// are read only under a condition are not looked at, because the output may be right without them. A field
/// that is null is not missing.
///
/// # Panics
/// If the workflow has no step at the position `resolved`.
#[must_use]
pub fn lacking(workflow: &Workflow, resolved: StepIndex, output: &Value) -> Vec<Lacking> {
    let id = workflow.steps[resolved].id.as_str();
    let mut found = Vec::new();
    for (index, step) in workflow.steps.iter().enumerate() {
        let mut look = |place, expressions: Vec<&Expression>, is_own_output: bool| {
            let reads = expressions.iter().flat_map(|e| e.sure_reads());
            for (of, path) in reads {
                let is_it = match of {
                    ReadOf::Step(name) => name == id,
                    ReadOf::Output => is_own_output,
                };
                if is_it && !has(output, &path) {
                    found.push(Lacking {
                        reader: step.id.clone(),
                        field: path.join("."),
                        place,
                    });
                }
            }
        };
        let conditions: Vec<&Expression> = step.when.iter().collect();
        let is_input = |e: &&Expression| !conditions.iter().any(|when| std::ptr::eq(*when, *e));
        look(
            "input",
            step.expressions().filter(is_input).collect(),
            false,
        );
        look("when", conditions, false);
        if let Some(compensation) = &step.compensation {
            let expressions = compensation.input.expressions();
            look("compensation", expressions, index == resolved);
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Whether a value has a path; the value there may be null.
fn has(value: &Value, path: &[String]) -> bool {
    let mut place = value;
    path.iter().all(|name| match place.get(name) {
        Some(next) => {
            place = next;
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use triad_workflow::{Definition, Limits};

    use super::*;

    fn workflow() -> Workflow {
        let definition: Definition = serde_json::from_value(json!({"workflow": "w", "steps": [
            {"id": "wire", "agent": "bank", "action": "wire",
                "compensation": {"action": "recall", "input": {"id": "${output.id}", "all": "${output}"}}},
            {"id": "tell", "agent": "mail", "action": "send", "when": "steps.wire.amount > 0",
                "input": {"ref": "see ${steps.wire.ref.number}", "maybe": "${has(steps.wire.note) ? steps.wire.note : ''}"},
                "compensation": "none"},
            {"id": "last", "agent": "mail", "action": "send",
                "input": {"city": "${steps[\"wire\"].city}", "list": "${steps.wire.lines.map(l, l.sku)}"},
                "compensation": "none"},
        ]}))
        .expect("a definition");
        Workflow::compile(definition, &Limits::published()).expect("a sound workflow")
    }

    fn told(output: &Value) -> Vec<String> {
        let workflow = workflow();
        let wire = workflow.step_index("wire").expect("a step");
        lacking(&workflow, wire, output)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn what_later_steps_surely_read_must_be_there() {
        let whole = json!({"id": 1, "amount": 1, "ref": {"number": 7}, "city": null, "lines": []});
        assert_eq!(told(&whole), Vec::<String>::new());
        assert_eq!(
            told(&json!({"ref": 7})),
            [
                "last reads city (its input)",
                "last reads lines (its input)",
                "tell reads amount (its when)",
                "tell reads ref.number (its input)",
                "wire reads id (its compensation)",
            ]
        );
        assert_eq!(told(&Value::Null).len(), 5, "null has no fields");
    }
}
