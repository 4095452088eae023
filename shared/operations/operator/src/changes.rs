//! Differences between two versions of a workflow, in the words of its file.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use triad_workflow::{Workflow, hash::canonical_json};

/// The differences between two versions of a workflow, as lines for people: one for what is not about a
/// step, one for each step that was added, changed or removed, and one if the steps have another order.
/// Empty if there are no differences.
pub fn changes(before: &Workflow, after: &Workflow) -> Vec<String> {
    let (before, after) = (parts(before), parts(after));
    let mut lines = Vec::new();
    let rest = differences(&before.rest, &after.rest);
    if !rest.is_empty() {
        lines.push(format!("changed  {}", rest.join(", ")));
    }
    for id in &after.order {
        match before.steps.get(id) {
            None => lines.push(format!("added    step {id}")),
            Some(step) => {
                let fields = differences(step, &after.steps[id]);
                if !fields.is_empty() {
                    lines.push(format!("changed  step {id}: {}", fields.join(", ")));
                }
            }
        }
    }
    let gone = before
        .order
        .iter()
        .filter(|id| !after.steps.contains_key(*id));
    lines.extend(gone.map(|id| format!("removed  step {id}")));
    let stayed = |one: &Parts, other: &Parts| -> Vec<String> {
        let both = one.order.iter().filter(|id| other.steps.contains_key(*id));
        both.cloned().collect()
    };
    if stayed(&before, &after) != stayed(&after, &before) {
        lines.push("changed  the order of the steps".to_owned());
    }
    lines
}

struct Parts {
    steps: BTreeMap<String, Map<String, Value>>,
    /// The ids of the steps, in order.
    order: Vec<String>,
    rest: Map<String, Value>,
}

fn parts(workflow: &Workflow) -> Parts {
    // The canonical form of a definition is an object.
    let json = canonical_json(&workflow.definition);
    let mut rest: Map<String, Value> = serde_json::from_str(&json).unwrap_or_default();
    let steps = rest.remove("steps").unwrap_or_default();
    let mut order = Vec::new();
    let mut by_id = BTreeMap::new();
    for step in steps.as_array().into_iter().flatten() {
        if let (Some(id), Value::Object(fields)) = (step["id"].as_str(), step) {
            order.push(id.to_owned());
            by_id.insert(id.to_owned(), fields.clone());
        }
    }
    Parts {
        steps: by_id,
        order,
        rest,
    }
}

/// The names of the fields that differ.
fn differences(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<String> {
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    let differs = |name: &&String| before.get(*name) != after.get(*name);
    names.into_iter().filter(differs).cloned().collect()
}

#[cfg(test)]
mod tests {
    use triad_workflow::{Limits, load};

    use super::*;

    fn workflow(text: &str) -> Workflow {
        load::from_yaml("w.yaml", text, &Limits::published()).expect("it is sound")
    }

    #[test]
    fn steps_and_fields_that_differ_are_named() {
        let before = workflow(
            "workflow: w
steps:
  - {id: a, agent: x, action: go, compensation: none}
  - {id: b, agent: x, action: go, compensation: none}
  - {id: c, agent: x, action: go, compensation: none}
",
        );
        let after = workflow(
            "workflow: w
progress: true
steps:
  - {id: a, agent: y, action: go, compensation: none, input: {n: 1}}
  - {id: d, agent: x, action: go, compensation: none}
  - {id: c, agent: x, action: go, compensation: none}
",
        );
        assert_eq!(
            changes(&before, &after),
            [
                "changed  progress",
                "changed  step a: agent, input",
                "added    step d",
                "removed  step b"
            ]
        );
        assert_eq!(changes(&before, &before), Vec::<String>::new());
        let turned = workflow(
            "workflow: w
steps:
  - {id: c, agent: x, action: go, compensation: none}
  - {id: b, agent: x, action: go, compensation: none}
  - {id: a, agent: x, action: go, compensation: none}
",
        );
        assert_eq!(
            changes(&before, &turned),
            ["changed  the order of the steps"]
        );
    }
}
