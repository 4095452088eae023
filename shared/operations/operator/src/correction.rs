//! A corrected input of a step, made from the present one, and the differences.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use triad_core::operate::NoInput;

/// How an operator corrects a step's input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Correction {
    /// The new input is this value, whatever the present one is.
    Whole(Value),
    /// The new input is the present one with these values in their places. They are put in, in this order.
    Set(#[schemars(with = "Vec<String>")] Vec<Set>),
}

/// A value that is put at one place of an input: as text `PATH=VALUE`, such as `amount=12.5` or
/// `lines[0].sku=A-1`.
///
/// A path is names with dots between them and positions in brackets, from 0; a name with a dot, a
/// bracket or an equals sign in it stands in brackets and quotation marks, `["a.b"]`. The value is JSON,
/// or else the text as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Set {
    path: Vec<PathSegment>,
    value: Value,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PathSegment {
    Field(String),
    Item(usize),
}

/// The error for a text that cannot be read as a [`Set`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not PATH=VALUE, such as amount=12.5, lines[0].sku=A-1 or [\"a.b\"]=true")]
pub struct InvalidSet(
    /// The text that was given.
    pub String,
);

/// Why an input cannot be corrected. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CorrectionError {
    /// The present input, which was to be changed, does not exist.
    #[error("nothing can be set, for there is no present input: {0}; give the whole input")]
    NoPresent(
        /// Why there is none.
        NoInput,
    ),
    /// The present input has nothing at this place.
    #[error("the present input has no {path}; {known}")]
    NoSuchPlace {
        /// The place that was to be set.
        path: String,
        /// What the input has there instead, for people: names of fields, a number of items, or the value.
        known: String,
    },
}

impl Correction {
    /// Makes a new input from the `present` one, where there is one.
    ///
    /// # Errors
    /// Only for [`Correction::Set`]: [`CorrectionError::NoPresent`] if there is no present input,
    /// [`CorrectionError::NoSuchPlace`] if the input has nothing at a place that is to be set.
    pub fn of(&self, present: Result<&Value, &NoInput>) -> Result<Value, CorrectionError> {
        match self {
            Self::Whole(input) => Ok(input.clone()),
            Self::Set(all) => {
                let none = |why: &NoInput| CorrectionError::NoPresent(why.clone());
                let mut input = present.cloned().map_err(none)?;
                for set in all {
                    set.apply(&mut input)?;
                }
                Ok(input)
            }
        }
    }
}

impl Set {
    /// The path of its place, as text.
    pub(crate) fn place(&self) -> String {
        display_path(&self.path)
    }

    fn apply(&self, input: &mut Value) -> Result<(), CorrectionError> {
        let mut place = input;
        for (at, part) in self.path.iter().enumerate() {
            let known = describe(place);
            let found = match part {
                PathSegment::Field(name) => place.as_object_mut().and_then(|map| map.get_mut(name)),
                PathSegment::Item(item) => {
                    place.as_array_mut().and_then(|list| list.get_mut(*item))
                }
            };
            place = found.ok_or_else(|| CorrectionError::NoSuchPlace {
                path: display_path(&self.path[..=at]),
                known,
            })?;
        }
        *place = self.value.clone();
        Ok(())
    }
}

/// Describes the value at a place, for people.
fn describe(value: &Value) -> String {
    match value {
        Value::Object(map) if map.is_empty() => "there are no fields".to_owned(),
        Value::Object(map) => {
            let names: Vec<&str> = map.keys().map(String::as_str).collect();
            format!("there are: {}", names.join(", "))
        }
        Value::Array(list) => format!("there are {} items, from 0", list.len()),
        other => format!("there is {other}"),
    }
}

fn display_path(path: &[PathSegment]) -> String {
    let mut text = String::new();
    for part in path {
        match part {
            PathSegment::Item(item) => text += &format!("[{item}]"),
            // Quoted as JSON: the parser reads it as such.
            PathSegment::Field(name) if !is_plain(name) => {
                text += &format!("[{}]", Value::String(name.clone()));
            }
            PathSegment::Field(name) => {
                text += if text.is_empty() { "" } else { "." };
                text += name;
            }
        }
    }
    text
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.contains(['.', '[', ']', '=', '"'])
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", display_path(&self.path), self.value)
    }
}

impl TryFrom<String> for Set {
    type Error = InvalidSet;

    fn try_from(text: String) -> Result<Self, InvalidSet> {
        text.parse()
    }
}

impl From<Set> for String {
    fn from(set: Set) -> Self {
        set.to_string()
    }
}

impl FromStr for Set {
    type Err = InvalidSet;

    fn from_str(text: &str) -> Result<Self, InvalidSet> {
        let mut path = Vec::new();
        let mut rest = text;
        loop {
            let (part, left) =
                first_part(rest, path.is_empty()).ok_or_else(|| InvalidSet(text.to_owned()))?;
            path.push(part);
            rest = left;
            if let Some(value) = rest.strip_prefix('=') {
                let json = serde_json::from_str(value);
                let value = json.unwrap_or_else(|_| Value::String(value.to_owned()));
                return Ok(Self { path, value });
            }
        }
    }
}

/// Splits a path into its first segment and the rest.
fn first_part(text: &str, is_first: bool) -> Option<(PathSegment, &str)> {
    if let Some(inner) = text.strip_prefix('[') {
        if inner.starts_with('"') {
            let mut names = serde_json::Deserializer::from_str(inner).into_iter::<String>();
            let name = names.next()?.ok()?;
            let left = inner[names.byte_offset()..].strip_prefix(']')?;
            return Some((PathSegment::Field(name), left));
        }
        let (item, left) = inner.split_once(']')?;
        return Some((PathSegment::Item(item.parse().ok()?), left));
    }
    let text = if is_first {
        text
    } else {
        text.strip_prefix('.')?
    };
    let end = text.find(['.', '[', '='])?;
    let name = &text[..end];
    is_plain(name).then(|| (PathSegment::Field(name.to_owned()), &text[end..]))
}

/// One place at which two inputs differ. As text `amount: 12 -> 12.5`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// The place, in the form of the path of a [`Set`]; empty if the whole inputs differ.
    pub path: String,
    /// The value before; `None` if there was none.
    pub before: Option<Value>,
    /// The value after; `None` if there is none.
    pub after: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |v: &Option<Value>| v.as_ref().map_or("nothing".to_owned(), Value::to_string);
        let path = if self.path.is_empty() {
            "input"
        } else {
            &self.path
        };
        write!(
            f,
            "{path}: {} -> {}",
            value(&self.before),
            value(&self.after)
        )
    }
}

/// Every place at which two inputs differ. Objects are compared field by field, and lists item by item, at
/// any depth. A `before` of `None` is an input without a value.
#[must_use]
pub fn differences(before: Option<&Value>, after: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    differ(&mut Vec::new(), before, Some(after), &mut found);
    found
}

fn differ(
    path: &mut Vec<PathSegment>,
    before: Option<&Value>,
    after: Option<&Value>,
    found: &mut Vec<Difference>,
) {
    match (before, after) {
        (Some(was), Some(is)) if was == is => {}
        (Some(Value::Object(was)), Some(Value::Object(is))) => {
            let added = is.keys().filter(|name| !was.contains_key(*name));
            for name in was.keys().chain(added) {
                path.push(PathSegment::Field(name.clone()));
                differ(path, was.get(name), is.get(name), found);
                path.pop();
            }
        }
        (Some(Value::Array(was)), Some(Value::Array(is))) => {
            for item in 0..was.len().max(is.len()) {
                path.push(PathSegment::Item(item));
                differ(path, was.get(item), is.get(item), found);
                path.pop();
            }
        }
        (before, after) => found.push(Difference {
            path: display_path(path),
            before: before.cloned(),
            after: after.cloned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use triad_workflow::StepId;

    use super::*;

    fn set(all: &[&str], present: &Value) -> Result<Value, CorrectionError> {
        let all = all.iter().map(|text| text.parse().expect("a set"));
        Correction::Set(all.collect()).of(Ok(present))
    }

    #[test]
    fn values_are_set_in_their_places_and_the_rest_stays() {
        let present = json!({"amount": 12, "to": {"city": "X"}, "lines": [{"sku": "a"}, {"sku": "b"}], "a.b": 1});
        let after = set(
            &[
                "amount=12.5",
                "to.city=Lisboa",
                "lines[1].sku=7x",
                "[\"a.b\"]=true",
                "to.city=\"Porto\"",
            ],
            &present,
        );
        let expected = json!({"amount": 12.5, "to": {"city": "Porto"}, "lines": [{"sku": "a"}, {"sku": "7x"}], "a.b": true});
        assert_eq!(after, Ok(expected));
        assert_eq!(
            set(&["amount=a=b"], &json!({"amount": 1})),
            Ok(json!({"amount": "a=b"}))
        );
        assert_eq!(
            set(&["amount="], &json!({"amount": 1})),
            Ok(json!({"amount": ""}))
        );
    }

    #[test]
    fn a_value_in_its_place_is_written_as_it_is_read() {
        for text in [
            "amount=12.5",
            "to.city=\"7\"",
            "lines[1].sku=\"a=b\"",
            "[\"a.b\\u0001\"]=null",
        ] {
            let set: Set = text.parse().expect(text);
            assert_eq!(set.to_string(), text);
            let read: Set = set.to_string().parse().expect("what was written");
            assert_eq!(read, set);
        }
    }

    #[test]
    fn a_place_that_is_not_there_is_named_with_those_that_are() {
        let present = json!({"amount": 12, "to": {"city": "X"}, "lines": [1]});
        for (text, said) in [
            (
                "amont=1",
                "the present input has no amont; there are: amount, lines, to",
            ),
            (
                "to.town=1",
                "the present input has no to.town; there are: city",
            ),
            (
                "lines[1]=1",
                "the present input has no lines[1]; there are 1 items, from 0",
            ),
            (
                "amount.x=1",
                "the present input has no amount.x; there is 12",
            ),
        ] {
            let error = set(&[text], &present).expect_err(text);
            assert_eq!(error.to_string(), said);
        }
        let why = NoInput::NoStep(StepId::new("s").expect("an id"));
        let none = Correction::Set(vec!["a=1".parse().expect("a set")]).of(Err(&why));
        assert_eq!(none, Err(CorrectionError::NoPresent(why)));
    }

    #[test]
    fn what_is_no_path_and_value_is_refused() {
        for bad in [
            "", "amount", "=1", ".a=1", "a..b=1", "a[x]=1", "a[0=1", "[\"a=1", "a.=1",
        ] {
            assert_eq!(bad.parse::<Set>(), Err(InvalidSet(bad.to_owned())), "{bad}");
        }
    }

    #[test]
    fn what_differs_is_told_place_by_place() {
        let before = json!({"a": 1, "b": {"c": [1, 2], "d": 1}, "gone": 1});
        let after = json!({"a": 1, "b": {"c": [1, 3, 4], "d": "x"}, "new": null});
        let told: Vec<String> = differences(Some(&before), &after)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            told,
            [
                "b.c[1]: 2 -> 3",
                "b.c[2]: nothing -> 4",
                "b.d: 1 -> \"x\"",
                "gone: 1 -> nothing",
                "new: nothing -> null"
            ]
        );
        assert_eq!(differences(Some(&before), &before), []);
        let whole = differences(None, &json!(1));
        assert_eq!(whole[0].to_string(), "input: nothing -> 1");
    }
}
