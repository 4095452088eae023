//! Placeholders of other template languages, which would be sent as text.

use serde_json::Value;

use crate::problem::{Path, Problem, Problems};

/// A placeholder of another template language, and the expression in it: anything in `{{ }}`, and in `{ }`, `#{ }` or
/// behind `$` an expression that reads an existing variable.
fn other_language<'t>(text: &'t str, variables: &[&str]) -> Option<(&'t str, &'t str)> {
    text.char_indices().find_map(|(at, c)| {
        let rest = &text[at..];
        let (open, close) = match c {
            '{' if rest.starts_with("{{") => ("{{", "}}"),
            '#' if rest.starts_with("#{") => ("#{", "}"),
            '{' => ("{", "}"),
            '$' => ("$", ""),
            _ => return None,
        };
        let inner = &rest[open.len()..];
        let reads = variables.iter().any(|name| {
            let behind = inner.trim_start().strip_prefix(name);
            let field = behind.and_then(|rest| rest.strip_prefix(['.', '[']));
            field.is_some_and(|rest| rest.starts_with(|c: char| !c.is_whitespace()))
        });
        let end = match close {
            "" => inner.find(|c: char| !(c.is_ascii_alphanumeric() || "._-[]\"'".contains(c))),
            close => Some(inner.find(close)?),
        };
        let inner = &inner[..end.unwrap_or(inner.len())];
        let inner = if close.is_empty() {
            inner.trim_end_matches(['.', '-', '"', '\''])
        } else {
            inner
        };
        let whole = &rest[..open.len() + inner.len() + close.len()];
        (reads || open == "{{").then_some((whole, inner.trim()))
    })
}

/// Reports placeholders of other template languages. Bounded: a loaded file has a bounded nesting.
pub(super) fn check(value: &Value, at: &Path, variables: &[&str], problems: &mut Problems) {
    match value {
        Value::String(text) => {
            let outside = crate::template::outside(text);
            if let Some((whole, plain)) = outside
                .iter()
                .find_map(|text| other_language(text, variables))
            {
                let reason = format!(
                    "`{whole}` would be sent as it stands: an expression is written `${{ … }}`"
                );
                let hint = format!(
                    "write `${{{plain}}}`, or `${{{}}}` if the service is to have it as it stands",
                    Value::from(whole)
                );
                let problem = Problem::new(at.clone(), reason).hint(hint);
                problems.push(problem.on_text([whole.to_owned()]));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                check(item, &at.index(index), variables, problems);
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                check(item, &at.key(key), variables, problems);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
