//! The authored form of steps that run other orders.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::StepDefinition;
use crate::duration::Millis;

/// A child order: an order of another workflow that a step starts, and whose end it awaits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunDefinition {
    /// Name of the workflow of the child order. It runs on the version that is current when it is started.
    pub workflow: String,
    /// Details of the child order: a mapping; `${ … }` inside strings is an expression. With `for_each` there are, beside
    /// the step's variables, the element, under the name that `as` gives, and `index`, its place in the list from 0.
    /// Absent: `{}`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub details: Value,
    /// Longest time of a child order, from its submission to its end; at most 366 days. Absent: that of its workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Millis>,
}

/// A list, and what is the same for all its elements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ForEachDefinition {
    /// The list, at most 500 elements: one expression, such as `details.lines`.
    #[serde(rename = "in")]
    pub list: String,
    /// The name of the variable that is the element. Absent: `item`.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub element: Option<String>,
    /// For how many elements at once the work may be under way, 1 to 50. Absent: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u32>,
    /// For how many elements the work may fail without a failure of the step; their outputs are null. Absent: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerate: Option<u32>,
    /// What the work for an element needs beside it, such as `customer: "${details.customer}"`: values by the names of
    /// the variables under which that work sees them. It sees nothing else of the order. Not with `run`, which has
    /// `details`. Absent: none.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub with: Map<String, Value>,
    /// Longest time of the work for an element; at most 366 days. Not with `run`, which has its own. Absent: no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Millis>,
    /// The steps that are done for each element, in place of one action. They see one another's outputs, the element,
    /// `index` and what `with` gives. The output for an element is that of the last one. Absent: the step's action or
    /// its `run` is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<StepDefinition>>,
}

impl ForEachDefinition {
    /// The name of the variable that is the element.
    #[must_use]
    pub fn element(&self) -> &str {
        self.element.as_deref().unwrap_or("item")
    }
}

/// The two ways to write a `for_each`.
#[derive(Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(super) enum Written {
    /// The list alone, at most 500 elements: one expression, such as `details.lines`.
    Short(String),
    /// The list, and more.
    Whole(Box<ForEachDefinition>),
}

/// Reads either way to write a `for_each` as the second one.
pub(super) fn short_or_whole<'de, D>(from: D) -> Result<Option<ForEachDefinition>, D::Error>
where
    D: Deserializer<'de>,
{
    Ok(match Option::deserialize(from)? {
        None => None,
        Some(Written::Whole(each)) => Some(*each),
        Some(Written::Short(list)) => Some(ForEachDefinition {
            list,
            element: None,
            at_once: None,
            tolerate: None,
            with: Map::new(),
            within: None,
            steps: None,
        }),
    })
}
