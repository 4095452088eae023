//! Checks of amended details: what a step has read stays, and each step that starts later sees what was amended.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use triad_core::order::IncidentKind;
use triad_core::outbox::{Emission, Writer};
use triad_core::{Direction, IdempotencyKey, Order, StepRecord, StepState};
use triad_workflow::Workflow;

use crate::service::Arriving;
use crate::world::State;

/// The steps that read a field of the details, each with the field, and whether only its condition reads it; as in
/// `crate::definitions`. Written here once more, because the production code is checked against it.
const READS: [(&str, &str, &str, bool); 5] = [
    ("line", "reserve", "item", false),
    ("letter", "write", "item", false),
    ("choice", "gift", "gift", true),
    ("choice", "pay", "sum", false),
    ("sale", "paid", "sum", false),
];

/// The input of a step's action with these details, of the steps above that have one.
fn wanted(step: &str, details: &Value) -> Option<Value> {
    match step {
        "reserve" | "write" => Some(json!({"item": details["item"]})),
        "pay" => Some(json!({"sum": details["sum"].as_i64()? + 1})),
        _ => None,
    }
}

/// The fields that this step has read. An input that an operator has put in place reads none.
fn fields_read<'a>(order: &'a Order, record: &'a StepRecord) -> impl Iterator<Item = &'a str> {
    let is_begun = record.state != StepState::Waiting;
    let of_step = READS.iter().filter(move |(workflow, step, ..)| {
        is_begun && order.workflow.name.as_str() == *workflow && record.step.as_str() == *step
    });
    let is_read = |when: bool| when || record.input.is_none() && record.state != StepState::Skipped;
    of_step
        .filter(move |(.., when)| is_read(*when))
        .map(|(_, _, field, _)| *field)
}

impl State {
    /// The details of an order as a step that starts now has to see them. The amendments of these worlds are flat.
    pub(crate) fn details_now(&self, order: &Order) -> Value {
        let submitted = self.store.details(&order.id);
        let mut details = submitted.map_or_else(|| json!({}), |details| (*details).clone());
        let amended = order.amendment.as_ref().and_then(Value::as_object);
        for (name, value) in amended.into_iter().flatten() {
            match (value, details.as_object_mut()) {
                (Value::Null, Some(fields)) => drop(fields.remove(name)),
                _ => details[name] = value.clone(),
            }
        }
        details
    }

    /// Checks a write that amends the details, and remembers the details of each step that it starts.
    pub(crate) fn check_amendment(&mut self, before: &Order, after: &Order, workflow: &Workflow) {
        let details = self.details_now(after);
        if before.amendment != after.amendment {
            self.check_amended(before, after, workflow, &details);
        }
        for record in &after.steps {
            let was = before.steps.iter().find(|was| was.step == record.step);
            let has_waited = was.is_none_or(|was| was.state == StepState::Waiting);
            if has_waited && record.state != StepState::Waiting && record.input.is_none() {
                let key =
                    IdempotencyKey::of(&after.id, &record.step, Direction::Forward, record.key);
                self.history.begun_with.insert(key.0, details.clone());
            }
        }
    }

    fn check_amended(&mut self, before: &Order, after: &Order, workflow: &Workflow, is: &Value) {
        let was = self.details_now(before);
        let asks = |e: &Emission| matches!(e, Emission::Request { .. });
        let is_one_act = after.outbox.writer == Writer::Operator
            && after.incidents.last().map(|line| line.what) == Some(IncidentKind::Amended)
            && (&before.state, &before.steps) == (&after.state, &after.steps)
            && !after.outbox.entries.iter().any(asks);
        self.kernel
            .check("an-amendment-is-one-act", is_one_act, || {
                format!(
                    "{}: {:?} to {:?}",
                    after.id, before.amendment, after.amendment
                )
            });
        let mut read: BTreeSet<&str> = BTreeSet::new();
        for record in &after.steps {
            read.extend(fields_read(after, record));
        }
        let keys = workflow.definition.search.values();
        read.extend(keys.filter_map(|key| key.strip_prefix("${details.")?.strip_suffix('}')));
        let changed: Vec<&&str> = read
            .iter()
            .filter(|field| was.get(**field) != is.get(**field))
            .collect();
        let name = "what-was-read-of-the-details-is-not-amended";
        self.kernel.check(name, changed.is_empty(), || {
            format!("{}: {changed:?} of {was} in {is}", after.id)
        });
    }

    /// A call has the input that its step had when it was started.
    pub(crate) fn check_input(&mut self, call: &Arriving) {
        let (Direction::Forward, Some(details)) =
            (call.direction, self.history.begun_with.get(&call.key))
        else {
            return;
        };
        let Some(wanted) = wanted(&call.step, details) else {
            return;
        };
        let name = "a-call-has-the-details-with-which-its-step-began";
        self.kernel.check(name, call.input == wanted, || {
            format!("{}: {} and not {wanted}", call.key, call.input)
        });
    }
}
