//! Templates: JSON values whose strings may hold expressions, `${ … }`.

use serde_json::Value;

use crate::bounds;
use crate::expr::{CompileError, EvalError, Expression, Scope, VARIABLES};
use crate::problem::Path;

/// Largest value that one template may give, as JSON, in bytes, inclusive: 128 KiB.
pub const MAX_RESULT_BYTES: usize = 128 * 1024;

/// A JSON value in which strings may hold expressions, `${ … }`.
///
/// A string that is exactly one `${ … }` becomes the value of that expression, of whatever type. A string
/// that also holds text, or several expressions, becomes a string: values that are strings are inserted as
/// they are, other values as JSON text. Names of fields are never expressions.
#[derive(Debug)]
pub enum Template {
    /// A value without any expression in it.
    Constant(Value),
    /// The value of one expression.
    Value(Expression),
    /// Text and expressions, at least two parts, which are joined to one string.
    Text(Vec<TextPart>),
    /// A list, at least one element of which holds an expression.
    List(Vec<Template>),
    /// An object, by names in sorted order, at least one field of which holds an expression.
    Object(Vec<(String, Template)>),
}

/// A piece of a [`Template::Text`].
#[derive(Debug)]
pub enum TextPart {
    /// Text that is taken over as it is.
    Text(String),
    /// An expression, whose value is inserted: a string as it is, another value as JSON text.
    Value(Expression),
}

/// Compiles the source of one expression.
pub(crate) type Compile<'a> = dyn Fn(&str) -> Result<Expression, String> + 'a;

impl Template {
    /// What [`EvalError::source_text`] says if the value of a whole template is too large or nested too deep.
    pub const WHOLE: &str = "input";

    /// Compiles a value of a definition, in which strings may hold expressions.
    ///
    /// # Errors
    /// [`CompileError`]: why an expression does not compile, the first one if several do not, or that a `${`
    /// has no `}`.
    pub fn compile(value: &Value) -> Result<Self, CompileError> {
        Self::compiled(value).map_err(CompileError)
    }

    /// As [`compile`](Self::compile), with only the reason as error.
    pub(crate) fn compiled(value: &Value) -> Result<Self, String> {
        Self::compiled_over(value, &VARIABLES)
    }

    /// As [`compiled`](Self::compiled), for expressions that see these variables.
    pub(crate) fn compiled_over(value: &Value, variables: &[&str]) -> Result<Self, String> {
        Self::compiled_by(value, &|source| {
            Expression::compiled_over(source, variables)
        })
    }

    /// As [`compiled`](Self::compiled), with the way to compile an expression.
    pub(crate) fn compiled_by(value: &Value, expression: &Compile<'_>) -> Result<Self, String> {
        let compiled = |value: &Value| Self::compiled_by(value, expression);
        Ok(match value {
            Value::String(text) => Self::compile_text(text, expression)?,
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(compiled).collect::<Result<_, _>>()?;
                if items.iter().all(|t| matches!(t, Self::Constant(_))) {
                    Self::Constant(value.clone())
                } else {
                    Self::List(items)
                }
            }
            Value::Object(map) => {
                let fields: Vec<_> = map
                    .iter()
                    .map(|(k, v)| Ok((k.clone(), compiled(v)?)))
                    .collect::<Result<_, String>>()?;
                if fields.iter().all(|(_, t)| matches!(t, Self::Constant(_))) {
                    Self::Constant(value.clone())
                } else {
                    Self::Object(fields)
                }
            }
            other => Self::Constant(other.clone()),
        })
    }

    fn compile_text(text: &str, expression: &Compile<'_>) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            if start > 0 {
                parts.push(TextPart::Text(rest[..start].to_owned()));
            }
            let body = &rest[start + 2..];
            let end =
                closing_brace(body).ok_or_else(|| format!("`{text}` has ${{ without its }}"))?;
            let source = body[..end].trim();
            parts.push(TextPart::Value(expression(source)?));
            rest = &body[end + 1..];
        }
        if parts.is_empty() {
            return Ok(Self::Constant(Value::String(text.to_owned())));
        }
        if !rest.is_empty() {
            parts.push(TextPart::Text(rest.to_owned()));
        }
        if parts.len() == 1
            && let Some(TextPart::Value(_)) = parts.first()
            && let Some(TextPart::Value(only)) = parts.pop()
        {
            return Ok(Self::Value(only));
        }
        Ok(Self::Text(parts))
    }

    /// Every expression in the template, in the order of the text, with the fields of an object sorted by
    /// name; empty for a constant.
    pub fn expressions(&self) -> Vec<&Expression> {
        match self {
            Self::Constant(_) => Vec::new(),
            Self::Value(e) => vec![e],
            Self::Text(parts) => parts
                .iter()
                .filter_map(|p| match p {
                    TextPart::Value(e) => Some(e),
                    TextPart::Text(_) => None,
                })
                .collect(),
            Self::List(items) => items.iter().flat_map(Self::expressions).collect(),
            Self::Object(fields) => fields.iter().flat_map(|(_, t)| t.expressions()).collect(),
        }
    }

    /// Computes the template's value in a scope.
    ///
    /// # Errors
    /// [`EvalError`] of the first expression for which [`Expression::evaluate`] fails, or of the template
    /// itself if its whole value is larger than [`MAX_RESULT_BYTES`] or nested deeper than
    /// [`MAX_NESTING`](crate::bounds::MAX_NESTING).
    pub fn render(&self, scope: &Scope) -> Result<Value, EvalError> {
        let value = self.value(scope)?;
        bounds::check(&value, MAX_RESULT_BYTES).map_err(|e| EvalError {
            source_text: Self::WHOLE.to_owned(),
            reason: format!("its value {e}"),
        })?;
        Ok(value)
    }

    fn value(&self, scope: &Scope) -> Result<Value, EvalError> {
        Ok(match self {
            Self::Constant(v) => v.clone(),
            Self::Value(e) => e.evaluate(scope)?,
            Self::Text(parts) => {
                let mut text = String::new();
                for part in parts {
                    match part {
                        TextPart::Text(t) => text.push_str(t),
                        TextPart::Value(e) => match e.evaluate(scope)? {
                            Value::String(s) => text.push_str(&s),
                            other => text.push_str(&other.to_string()),
                        },
                    }
                }
                Value::String(text)
            }
            Self::List(items) => Value::Array(
                items
                    .iter()
                    .map(|t| t.value(scope))
                    .collect::<Result<_, _>>()?,
            ),
            Self::Object(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(k, t)| Ok((k.clone(), t.value(scope)?)))
                    .collect::<Result<_, EvalError>>()?,
            ),
        })
    }
}

/// A piece of a string, for the checks of a definition.
pub(crate) enum Piece {
    /// The source of an expression, without spaces around it.
    Expression(String),
    /// The text from a `${` on that has no `}`.
    Unclosed(String),
}

/// Every expression in a value of a definition, in the order of reading, with its path.
pub(crate) fn pieces(value: &Value, at: &Path) -> Vec<(Path, Piece)> {
    let mut found = Vec::new();
    collect(value, at, &mut found);
    found
}

/// The pieces of a string outside its expressions.
#[cfg(feature = "load")]
pub(crate) fn outside(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        found.push(&rest[..start]);
        let body = &rest[start + 2..];
        match closing_brace(body) {
            Some(end) => rest = &body[end + 1..],
            None => return found,
        }
    }
    found.push(rest);
    found
}

/// Collects the expressions of a value. The recursion ends, because the caller has checked the value's nesting.
fn collect(value: &Value, at: &Path, found: &mut Vec<(Path, Piece)>) {
    match value {
        Value::String(text) => {
            let mut rest = text.as_str();
            while let Some(start) = rest.find("${") {
                let body = &rest[start + 2..];
                let Some(end) = closing_brace(body) else {
                    found.push((at.clone(), Piece::Unclosed(rest[start..].to_owned())));
                    return;
                };
                let source = body[..end].trim().to_owned();
                found.push((at.clone(), Piece::Expression(source)));
                rest = &body[end + 1..];
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, &at.index(index), found);
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                collect(item, &at.key(key), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Position of the `}` that ends an expression: not one inside a string, nor of an inner map.
pub(crate) fn closing_brace(body: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote: Option<char> = None;
    let mut escaped = false;
    for (at, c) in body.char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(q) if c == q => quote = None,
            Some(_) => {}
            None => match c {
                '"' | '\'' => quote = Some(c),
                '{' => depth += 1,
                '}' if depth == 0 => return Some(at),
                '}' => depth -= 1,
                _ => {}
            },
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn scope() -> Scope {
        Scope::new(
            &json!({"id": "1001"}),
            &json!({"freight": 32.5, "items": [{"sku": "a", "quantity": 2}], "ship": {"city": "Reims"}}),
            [
                ("reserve-stock", &json!({"reference": "r-1"})),
                ("gift", &Value::Null),
            ],
            None,
        )
    }

    fn render(v: &Value) -> Result<Value, EvalError> {
        Template::compile(v).unwrap().render(&scope())
    }

    #[test]
    fn templates_keep_types_and_join_text() {
        let v = json!({"a": "${details.items[0].quantity * 2}", "b": "order ${order.id} to ${details.ship.city}",
            "c": ["${steps[\"reserve-stock\"].reference}", 7], "d": "${ {'x': 1}.x }", "e": "${details.items.map(i, i.sku)}"});
        assert_eq!(
            render(&v).unwrap(),
            json!({"a": 4, "b": "order 1001 to Reims", "c": ["r-1", 7], "d": 1, "e": ["a"]})
        );
    }

    #[test]
    fn a_missing_field_names_its_expression() {
        let e = render(&json!("${details.nothing.here}")).unwrap_err();
        assert_eq!(e.source_text, "details.nothing.here");
    }

    #[test]
    fn an_expression_without_its_end_is_refused() {
        assert!(Template::compile(&json!("${details.a")).is_err());
    }
}
