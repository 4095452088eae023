//! Search keys: the values by which an operator finds the orders of a customer, of an invoice, of a parcel.
//!
//! A workflow declares at most [`MAX_SEARCH_KEYS`] of them, each a name and an expression over an order's
//! details. They are computed once, when the order is submitted, and found exactly: the whole value, byte
//! by byte, and no part of it.
//!
//! A key helps people and is never a reason for an order to fail. An order has no key of a name whose value is
//! missing, null, empty, longer than [`MAX_VALUE_BYTES`], a list or an object, or whose expression has no value for
//! it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::expr::{Expression, Scope};
use crate::model::Definition;
use crate::names::{InvalidName, SearchName};
use crate::template::Template;

/// Most search keys of one workflow, inclusive. Each costs an order a write unit: see
/// `docs/decisions/0047-search-keys-are-two-sparse-indexes.md`.
pub const MAX_SEARCH_KEYS: usize = 2;
/// Longest value of a search key, in bytes of UTF-8, inclusive. With the longest name and id a row of an
/// index stays within one write unit.
pub const MAX_VALUE_BYTES: usize = 256;

/// One search key of one order: a name and a value. As text it is `customer=ALFKI`, which is also its form in
/// stores and messages. A name has no `=`, so the first `=` ends the name, whatever is in the value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SearchKey {
    name: SearchName,
    value: String,
}

/// Why a text, or a name and a value, is not a [`SearchKey`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSearchKey {
    /// There is no `=` in the text.
    #[error("is no search key: write its name, `=` and the whole value, such as `customer=ALFKI`")]
    NoValue,
    /// The text before the `=` is not a valid name.
    #[error("is no search key: {0}")]
    Name(#[from] InvalidName),
    /// The value is empty, or longer than [`MAX_VALUE_BYTES`]; the number is its length in bytes.
    #[error("is no search key: a value has 1 to {MAX_VALUE_BYTES} bytes, and this one {0}")]
    Bytes(usize),
}

impl SearchKey {
    /// Makes a key of a name and a value. The value is taken as it is: blanks count, and so do upper and
    /// lower case.
    ///
    /// # Errors
    /// [`InvalidSearchKey::Bytes`] if the value is empty or longer than [`MAX_VALUE_BYTES`].
    pub fn new(name: SearchName, value: impl Into<String>) -> Result<Self, InvalidSearchKey> {
        let value = value.into();
        match value.len() {
            1..=MAX_VALUE_BYTES => Ok(Self { name, value }),
            bytes => Err(InvalidSearchKey::Bytes(bytes)),
        }
    }

    /// The name that the workflow declares.
    #[must_use]
    pub fn name(&self) -> &SearchName {
        &self.name
    }

    /// The value, which has 1 to [`MAX_VALUE_BYTES`] bytes.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl fmt::Display for SearchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

impl FromStr for SearchKey {
    type Err = InvalidSearchKey;

    /// Reads `name=value`.
    ///
    /// # Errors
    /// [`InvalidSearchKey`] if there is no `=`, the name is not valid, or the value is empty or too long.
    ///
    /// # Example
    /// ```
    /// use triad_workflow::SearchKey;
    /// let key: SearchKey = "customer=a=b".parse().unwrap();
    /// assert_eq!((key.name().as_str(), key.value()), ("customer", "a=b"));
    /// ```
    fn from_str(text: &str) -> Result<Self, InvalidSearchKey> {
        let (name, value) = text.split_once('=').ok_or(InvalidSearchKey::NoValue)?;
        Self::new(SearchName::new(name)?, value)
    }
}

impl TryFrom<String> for SearchKey {
    type Error = InvalidSearchKey;
    fn try_from(text: String) -> Result<Self, InvalidSearchKey> {
        text.parse()
    }
}

impl From<SearchKey> for String {
    fn from(key: SearchKey) -> Self {
        key.to_string()
    }
}

/// The search keys that a workflow declares, compiled: at most [`MAX_SEARCH_KEYS`], by name.
#[derive(Debug, Default)]
pub struct SearchKeys(Vec<(SearchName, Expression)>);

impl SearchKeys {
    /// Compiles the search keys of a definition that has passed the checks.
    pub(crate) fn compile(definition: &Definition) -> Result<Self, String> {
        let declared = definition.search.iter();
        let compiled = declared.map(|(name, written)| {
            let name = SearchName::new(name).map_err(|e| e.to_string())?;
            Ok((name, expression(written)?))
        });
        compiled.collect::<Result<_, String>>().map(Self)
    }

    /// The declared names, sorted; none if the workflow declares no search key.
    pub fn names(&self) -> impl Iterator<Item = &SearchName> {
        self.0.iter().map(|(name, _)| name)
    }

    /// The declared names, sorted, each with the expression of its value.
    pub fn expressions(&self) -> impl Iterator<Item = (&SearchName, &Expression)> {
        self.0.iter().map(|(name, expression)| (name, expression))
    }

    /// Computes the keys of an order with these details, sorted by name. A name for which the order has no
    /// value that can be a key is left out. All expressions together may do the work of one scope,
    /// [`MAX_WORK`](crate::expr::MAX_WORK); an expression for which too little of it is left has no value.
    ///
    /// # Example
    /// ```
    /// use serde_json::json;
    /// use triad_workflow::{Limits, Workflow};
    /// let text = r#"{"workflow": "w", "search": {"customer": "${details.customerID}"},
    ///     "steps": [{"id": "a", "agent": "x", "action": "go", "compensation": "none"}]}"#;
    /// let definition = serde_json::from_str(text).unwrap();
    /// let workflow = Workflow::compile(definition, &Limits::published()).unwrap();
    /// let keys = workflow.search.of(&json!({"customerID": "ALFKI"}));
    /// assert_eq!(keys[0].to_string(), "customer=ALFKI");
    /// assert!(workflow.search.of(&json!({})).is_empty());
    /// ```
    #[must_use]
    pub fn of(&self, details: &Value) -> Vec<SearchKey> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let scope = Scope::new(&Value::Null, details, [], None);
        let keys = self.0.iter().filter_map(|(name, expression)| {
            let value = text(expression.evaluate(&scope).ok()?)?;
            SearchKey::new(name.clone(), value).ok()
        });
        keys.collect()
    }
}

/// The expression of a search key.
///
/// # Errors
/// For the author: why the text is not one expression.
pub(crate) fn expression(written: &str) -> Result<Expression, String> {
    match Template::compiled(&Value::String(written.to_owned()))? {
        Template::Value(expression) => Ok(expression),
        _ => Err(format!("`{written}` is not one expression, `${{ … }}`")),
    }
}

/// A value as a search uses it: texts unchanged, numbers and truth values in their JSON form.
fn text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
