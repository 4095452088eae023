//! Types of expressions: what can never work is told before an order meets it.
//!
//! Each expression is gone through once, with what is known of each value before there is an order: the
//! fields of `order` exactly, `details` as far as a schema says, outputs of steps not at all. What may
//! work for some order is let through. Only files that are loaded are held against this, never
//! published definitions: orders that run on one go on as they did.
//!
//! Two rules go further than what can never work. An expression that does something with the output of
//! a step that may be skipped needs a guard, for it fails for each order for which the step is skipped.
//! And `{{ … }}`, which is another template language, would be sent as it stands.

mod guards;
mod infer;
mod kinds;
mod library;
mod said;
mod schema;

use serde_json::Value;

use crate::check::expressions::{Role, Written, compiled};
use crate::check::search;
use crate::details::DetailsSchema;
use crate::expr::{Expression, Scope};
use crate::model::{CompensationDefinition, Definition};
use crate::problem::{At, Problem, Problems};
use guards::{Conditions, Facts, assume};
use infer::{Around, Fault, Infer};
use kinds::{Fields, Kinds, Type};

/// What in the expressions of a definition can never work. Expressions that do not compile are left out:
/// [`Workflow::compile`](crate::Workflow::compile) tells of them.
pub(crate) fn check(definition: &Definition) -> Vec<Problem> {
    let mut problems = Problems::default();
    let written = compiled(definition, &mut Problems::default());
    let conditions: Conditions<'_> = definition
        .steps
        .iter()
        .enumerate()
        .map(|(index, step)| (step.id.as_str(), when(&written, index)))
        .collect();
    for expression in &written {
        let faults = faults(definition, expression, &conditions, &written);
        told(
            &expression.at,
            &expression.expression,
            faults,
            &mut problems,
        );
    }
    for (at, expression) in search::compiled(definition, &mut Problems::default()) {
        let faults = faults_of_search_key(definition, &expression, &conditions);
        told(&at, &expression, faults, &mut problems);
    }
    if let Some(written) = &definition.details_schema
        && let Err(reason) = DetailsSchema::new(written).check()
    {
        problems.add(At::top().key("details_schema"), reason.to_string());
    }
    for (index, step) in definition.steps.iter().enumerate() {
        let at = At::step(index);
        braces(&step.input, &at.key("input"), &mut problems);
        if let Some(CompensationDefinition::Action(c)) = &step.compensation {
            braces(&c.input, &at.keys("compensation.input"), &mut problems);
        }
    }
    problems
        .0
        .into_iter()
        .map(|p| p.named(definition))
        .collect()
}

fn told(at: &At, expression: &Expression, faults: Vec<Fault>, problems: &mut Problems) {
    for fault in faults {
        let mut problem = Problem::new(at.clone(), fault.reason);
        problem.hint = fault.hint;
        let texts = [Some(expression.source().to_owned()), fault.text];
        problems.push(problem.on_text(texts.into_iter().flatten()));
    }
}

fn when(written: &[Written], step: usize) -> Option<&Expression> {
    let found = written
        .iter()
        .find(|w| w.step == step && w.role == Role::When);
    found.map(|w| &w.expression)
}

fn faults(
    definition: &Definition,
    written: &Written,
    conditions: &Conditions<'_>,
    all: &[Written],
) -> Vec<Fault> {
    // A step that runs has had its own condition hold.
    let facts = match (written.role, when(all, written.step)) {
        (Role::Input | Role::Compensation, Some(own)) => assume(own.tree(), true, conditions),
        _ => Facts::new(),
    };
    let around = Around {
        order: order(),
        details: details(definition),
        output: (written.role == Role::Compensation).then(Type::any),
        conditions,
        facts,
    };
    let mut infer = Infer::new(&around);
    let found = crate::expr::with_stack(|| infer.of(written.expression.tree()));
    if written.role == Role::When && infer.faults.is_empty() {
        let condition = written.expression.source();
        if found.may_be_skipped.is_some() || !found.kinds.may(Kinds::BOOL) {
            let is = match found.may_be_skipped {
                Some(id) => format!("null where step {id} is skipped"),
                None => found.kinds.said(),
            };
            infer.faults.push(Fault {
                reason: format!("has to be true or false, and `{condition}` is {is}"),
                hint: Some("compare it with something, such as `details.count > 0`".to_owned()),
                text: None,
            });
        }
    }
    infer.faults
}

/// What can never work in the expression of a search key. One that reads what it must not has been told
/// of.
fn faults_of_search_key(
    definition: &Definition,
    expression: &Expression,
    conditions: &Conditions<'_>,
) -> Vec<Fault> {
    if search::read_beside_details(expression).is_some() {
        return Vec::new();
    }
    let around = Around {
        order: order(),
        details: details(definition),
        output: None,
        conditions,
        facts: Facts::new(),
    };
    let mut infer = Infer::new(&around);
    let found = crate::expr::with_stack(|| infer.of(expression.tree()));
    if infer.faults.is_empty() && !found.kinds.may(SEARCHED) {
        infer.faults.push(Fault {
            reason: format!(
                "a search key is a text, a number, or true or false, and `{}` is {}",
                expression.source(),
                found.kinds.said()
            ),
            hint: None,
            text: None,
        });
    }
    infer.faults
}

/// What the value of a search key may be.
const SEARCHED: Kinds = Kinds(Kinds::STRING.0 | Kinds::NUMBER.0 | Kinds::BOOL.0);

/// What expressions see as `details`.
fn details(definition: &Definition) -> Type {
    let written = definition.details_schema.as_ref();
    written.map_or_else(|| Type::of(Kinds::MAP), schema::details)
}

/// What expressions see as `order`.
fn order() -> Type {
    let sample = Scope::order("", "", false);
    let fields = sample.as_object().into_iter().flatten();
    Type::map(Fields {
        known: fields
            .map(|(name, _)| (name.clone(), Type::of(Kinds::STRING)))
            .collect(),
        is_open: false,
    })
}

/// Texts that another template language would fill in. Bounded: the nesting of what is loaded is.
fn braces(value: &Value, at: &At, problems: &mut Problems) {
    match value {
        Value::String(text) => {
            let outside = crate::template::outside(text);
            let found = outside.iter().find_map(|text| {
                let (_, rest) = text.split_once("{{")?;
                let (inner, _) = rest.split_once("}}")?;
                Some(inner)
            });
            if let Some(inner) = found {
                let plain = inner.trim();
                let reason = format!(
                    "`{{{{{inner}}}}}` would be sent as it stands: an expression is written `${{ … }}`"
                );
                let hint = format!(
                    "write `${{{plain}}}`, or `${{\"{{{{{plain}}}}}\"}}` if the service is to have the braces"
                );
                let problem = Problem::new(at.clone(), reason).hint(hint);
                problems.push(problem.on_text(["{{".to_owned()]));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                braces(item, &at.index(index), problems);
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                braces(item, &at.key(key), problems);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
