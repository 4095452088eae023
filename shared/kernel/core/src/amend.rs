//! The amendment of an order: what was replaced in its details since they were submitted.
//!
//! The stored details never change. The record holds a JSON merge patch (RFC 7396) over them, and whoever reads the
//! details reads them through [`details`]. The patch is the difference between the details as they were submitted and
//! as they are now, so several amendments are one patch, and one that is taken back leaves nothing.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value};
use triad_workflow::bounds::OutOfBounds;
use triad_workflow::{Expression, SearchName, Step, StepId};

use crate::order::Order;
use crate::step::{StepRecord, StepState};

/// Largest amendment of an order as JSON, in bytes, inclusive, over all that were made: 8 KiB. The process record
/// holds it.
pub const MAX_AMENDMENT_BYTES: usize = 8 * 1024;

/// The details of an order as they are now: `submitted`, with the order's amendment.
#[must_use]
pub fn details<'a>(order: &Order, submitted: &'a Value) -> Cow<'a, Value> {
    match &order.amendment {
        None => Cow::Borrowed(submitted),
        Some(amendment) => Cow::Owned(merged(submitted, amendment)),
    }
}

/// A value with a merge patch. The recursion is as deep as the patch.
pub(crate) fn merged(value: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch.clone();
    };
    let mut fields = value.as_object().cloned().unwrap_or_default();
    for (name, patch) in patch {
        if patch.is_null() {
            fields.remove(name);
        } else {
            let merged = merged(fields.get(name).unwrap_or(&Value::Null), patch);
            fields.insert(name.clone(), merged);
        }
    }
    Value::Object(fields)
}

/// The merge patch that makes `after` of `before`, which must have been made of it by merge patches. Empty if they are
/// the same.
pub(crate) fn difference(before: &Value, after: &Value) -> Map<String, Value> {
    let none = Map::new();
    let (before, after) = (
        before.as_object().unwrap_or(&none),
        after.as_object().unwrap_or(&none),
    );
    let removed = before.keys().filter(|name| !after.contains_key(*name));
    let mut patch: Map<_, _> = removed.map(|name| (name.clone(), Value::Null)).collect();
    for (name, is) in after {
        match before.get(name) {
            Some(was) if was == is => {}
            Some(was) if was.is_object() && is.is_object() => {
                patch.insert(name.clone(), difference(was, is).into());
            }
            _ => {
                patch.insert(name.clone(), is.clone());
            }
        }
    }
    patch
}

/// A part of the details, as the names that lead to it; none for the whole of them. As text such as
/// `details.address.city`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part(Vec<String>);

impl Part {
    /// Whether one of the two is in the other, or they are the same.
    fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(one, other)| one == other)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("details")?;
        self.0.iter().try_for_each(|name| write!(f, ".{name}"))
    }
}

/// The parts of `before` that a patch of [`difference`] changes.
pub(crate) fn parts(before: &Value, patch: &Map<String, Value>) -> Vec<Part> {
    let mut found = Vec::new();
    for (name, is) in patch {
        let below = match (before.get(name), is) {
            (Some(was @ Value::Object(_)), Value::Object(patch)) => parts(was, patch),
            _ => vec![Part(Vec::new())],
        };
        found.extend(below.into_iter().map(|Part(mut names)| {
            names.insert(0, name.clone());
            Part(names)
        }));
    }
    found
}

/// The parts of the details that an expression reads.
fn parts_read(expression: &Expression) -> impl Iterator<Item = Part> {
    let reads = expression.reads().into_iter();
    let of_details = reads.filter(|names| names.first().is_some_and(|name| name == "details"));
    of_details.map(|names| Part(names[1..].to_vec()))
}

/// Whether the expression reads this part of the details, some of it, or what it is in.
pub(crate) fn reads(expression: &Expression, part: &Part) -> bool {
    parts_read(expression).any(|read| read.meets(part))
}

/// The expressions on which the order depends already because of a step. A step that waits has read nothing, one that
/// was skipped its condition, and one that was started its condition, its input or what it waits for, and the input
/// of its compensation, which has to compensate what was done. An input that an operator has put in place reads
/// nothing.
pub(crate) fn read_by<'a>(record: &StepRecord, step: &'a Step) -> Vec<&'a Expression> {
    let when = step.when.iter();
    let own: Vec<&Expression> = match &record.state {
        StepState::Waiting => return Vec::new(),
        StepState::Skipped => return when.collect(),
        _ if record.input.is_some() => when.collect(),
        _ => step.expressions().collect(),
    };
    let compensation = step.compensation.iter();
    let compensation = compensation.flat_map(|compensation| compensation.input.expressions());
    own.into_iter().chain(compensation).collect()
}

/// A part of the details that cannot be amended, and what has read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRead<By> {
    /// The part.
    pub part: Part,
    /// What has read it, at least one.
    pub by: Vec<By>,
}

impl<By: fmt::Display> fmt::Display for PartRead<By> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by: Vec<String> = self.by.iter().map(ToString::to_string).collect();
        write!(f, "{} by {}", self.part, by.join(", "))
    }
}

/// Why the details of an order cannot be amended so. The text names parts of the details and no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAmended {
    /// The amendment is no object.
    #[error("an amendment is an object with the fields that change")]
    NoObject,
    /// The amendment has no field.
    #[error("the amendment has no field")]
    Empty,
    /// This amendment, or all of them together, are too large or nested too deep.
    #[error("the amendment {0}")]
    Bounds(OutOfBounds),
    /// Steps have read these parts.
    #[error("steps have read {}", listed(.0))]
    Read(Vec<PartRead<StepId>>),
    /// Search keys were made of these parts when the order was submitted.
    #[error("search keys were made of {}", listed(.0))]
    Searched(Vec<PartRead<SearchName>>),
    /// The details would not fit the workflow's schema; the places and the reasons.
    #[error("the details would not fit the workflow: {}", .0.join("; "))]
    Misfits(Vec<String>),
}

fn listed<By: fmt::Display>(parts: &[PartRead<By>]) -> String {
    let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The examples of RFC 7396, appendix A.
    #[test]
    fn a_patch_is_merged_as_the_standard_says() {
        for (value, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": "b"}),
                json!({"b": "c"}),
                json!({"a": "b", "b": "c"}),
            ),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (
                json!({"a": "b", "b": "c"}),
                json!({"a": null}),
                json!({"b": "c"}),
            ),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (
                json!({"a": [{"b": "c"}]}),
                json!({"a": [1]}),
                json!({"a": [1]}),
            ),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (
                json!({"e": null}),
                json!({"a": 1}),
                json!({"e": null, "a": 1}),
            ),
            (
                json!([1, 2]),
                json!({"a": "b", "c": null}),
                json!({"a": "b"}),
            ),
            (
                json!({}),
                json!({"a": {"bb": {"ccc": null}}}),
                json!({"a": {"bb": {}}}),
            ),
        ] {
            assert_eq!(merged(&value, &patch), result, "{value} with {patch}");
        }
    }

    /// A value of a few forms, by a number.
    fn value(state: &mut u64, depth: u32) -> Value {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        match (*state >> 33) % 7 {
            0 => Value::Null,
            1 => json!(1),
            2 => json!(1.0),
            3 => json!([null, {"a": null}]),
            _ if depth == 0 => json!("x"),
            _ => {
                let mut fields = Map::new();
                for name in ["a", "b", "c"] {
                    let value = value(state, depth - 1);
                    if *state >> 40 & 3 > 0 {
                        fields.insert(name.to_owned(), value);
                    }
                }
                fields.into()
            }
        }
    }

    fn object(state: &mut u64) -> Value {
        loop {
            let value = value(state, 3);
            if value.is_object() {
                return value;
            }
        }
    }

    /// Merge patches one after the other are not always one merge patch of the two; the difference is.
    #[test]
    fn several_amendments_are_one_patch_over_the_details_as_submitted() {
        let mut state = 7;
        for _ in 0..20_000 {
            let submitted = object(&mut state);
            let mut is = submitted.clone();
            for _ in 0..3 {
                let patch = object(&mut state);
                let next = merged(&is, &patch);
                let change = difference(&is, &next);
                assert_eq!(change.is_empty(), is == next);
                assert_eq!(parts(&is, &change).is_empty(), is == next);
                is = next;
                let amendment = Value::Object(difference(&submitted, &is));
                assert_eq!(merged(&submitted, &amendment), is, "{submitted}, {patch}");
            }
        }
    }

    #[test]
    fn the_parts_that_change_are_named_as_deep_as_they_differ() {
        let before = json!({"to": {"city": "Reims", "zip": "1"}, "lines": [1], "a": {"b": 1}});
        let patch =
            json!({"to": {"city": "Lyon", "zip": "1"}, "lines": [2], "a": null, "n": {"m": 1}});
        let after = merged(&before, &patch);
        let told = parts(&before, &difference(&before, &after));
        let told: Vec<String> = told.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            ["details.a", "details.lines", "details.n", "details.to.city"]
        );
    }
}
