//! The variables that the expressions of a definition see.

use cel::common::ast::Expr;
use serde_json::Value;

use crate::expr::{Expression, Scope, VARIABLES};
use crate::model::Definition;
use crate::names::MAX_NAME_BYTES;
use crate::template::Template;
use crate::workflow::Workflow;

/// The variable that is the place of an element in its list, from 0.
pub(crate) const INDEX: &str = "index";
/// The variable that is the input of one of several ways to do a step's work.
pub(crate) const INPUT: &str = "input";
/// The variable of conditions that is what an event brings.
pub(crate) const EVENT: &str = "event";
const OUTPUT: &str = "output";
/// Names that expressions have already.
const TAKEN: [&str; 6] = ["order", "details", "steps", OUTPUT, EVENT, INDEX];

/// Checks the name of a variable that an author gives.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let rest = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !(starts && rest && name.len() <= MAX_NAME_BYTES) {
        return Err(format!(
            "{name:?} cannot be the name of a variable: use 1 to {MAX_NAME_BYTES} of a-z, A-Z, 0-9 and '_', starting with a letter"
        ));
    }
    if TAKEN.contains(&name) {
        return Err(format!("`{name}` is another variable: use another name"));
    }
    let read = Expression::compiled_over(name, &[name]);
    match read.is_ok_and(|read| matches!(read.tree().expr, Expr::Ident(_))) {
        true => Ok(()),
        false => Err(format!(
            "`{name}` is a word of expressions: use another name"
        )),
    }
}

/// The variables that expressions see at one place of a definition.
#[derive(Debug, Clone)]
pub(crate) struct Variables<'a> {
    names: Vec<&'a str>,
    /// Those that are values of the details.
    of_details: &'a [String],
}

impl<'a> Variables<'a> {
    /// Those that all expressions see, and those that the definition makes of its details.
    pub(crate) fn of(definition: &'a Definition) -> Self {
        let own = definition.variables.iter().map(String::as_str);
        Self {
            names: VARIABLES.into_iter().chain(own).collect(),
            of_details: &definition.variables,
        }
    }

    /// Those of conditions on what an event brings: `event` in place of `output`.
    pub(crate) fn of_event(&self) -> Self {
        let mut of_event = self.clone();
        for name in &mut of_event.names {
            if *name == OUTPUT {
                *name = EVENT;
            }
        }
        of_event
    }

    /// These and, for an element of a list, its name and its place.
    pub(crate) fn of_element(&self, element: Option<&'a str>) -> Self {
        let mut more = self.clone();
        more.names
            .extend(element.into_iter().flat_map(|name| [name, INDEX]));
        more
    }

    #[cfg(feature = "load")]
    pub(crate) fn names(&self) -> &[&'a str] {
        &self.names
    }

    /// Compiles an expression.
    pub(crate) fn expression(&self, source: &str) -> Result<Expression, String> {
        Expression::compiled_with(source, &self.names, self.of_details)
    }

    /// Compiles an expression that an author may write with `${ … }` around it or without.
    pub(crate) fn bare(&self, source: &str) -> Result<Expression, String> {
        let text = source.trim();
        let inner = text
            .strip_prefix("${")
            .and_then(|rest| rest.strip_suffix('}'));
        self.expression(inner.unwrap_or(text).trim())
    }

    /// Compiles a value in which strings may hold expressions.
    pub(crate) fn template(&self, value: &Value) -> Result<Template, String> {
        Template::compiled_by(value, &|source| self.expression(source))
    }
}

impl Workflow {
    /// The variables of this workflow's expressions, for one order: as [`Scope::new`], and each of
    /// [`variables`](Self::variables) with its value of the details, null if they have none of that name.
    #[must_use]
    pub fn scope<'a>(
        &self,
        order: &Value,
        details: &Value,
        steps: impl IntoIterator<Item = (&'a str, &'a Value)>,
        output: Option<&Value>,
    ) -> Scope {
        let scope = Scope::new(order, details, steps, output);
        self.variables.iter().fold(scope, |scope, name| {
            scope.with(name, details.get(name).unwrap_or(&Value::Null))
        })
    }
}
