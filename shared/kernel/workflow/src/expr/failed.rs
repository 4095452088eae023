//! Error texts of an expression that has no value for an order.
//!
//! A text names the kind of a value, never the value: values belong to an order, and the text goes into alerts,
//! statuses and logs. The library's own texts would show values, and mappings in a random order, although the same
//! order must fail with the same text on every machine. A text may show a name that is written in the expression.

use cel::{ExecutionError, Value as CelValue};

/// Marks a failure of this crate's own functions in an error of the expression library. Its text may be shown.
pub(super) const OWN: &str = "@triad";

/// A failure of one of this crate's own functions.
pub(super) fn execution_error(reason: String) -> ExecutionError {
    ExecutionError::function_error(OWN, reason)
}

/// Why the expression `source` has no value.
pub(super) fn error_text(source: &str, error: &ExecutionError) -> String {
    use ExecutionError as E;
    let written = |text: &str| (source.contains(text)).then(|| format!(": {text}"));
    match error {
        E::NoSuchKey(key) => format!("no such key{}", written(key).unwrap_or_default()),
        E::UndeclaredReference(name) => {
            format!("there is no such name{}", written(name).unwrap_or_default())
        }
        E::InvalidArgumentCount { .. } | E::MissingArgumentOrTarget | E::NoSuchOverload(_) => {
            error.to_string()
        }
        E::UnexpectedType { got, want } if is_type(got) => {
            format!("it is of the type {got}, not {want}")
        }
        E::UnexpectedType { want, .. } => format!("it is not of the type {want}"),
        E::UnsupportedTargetType { target } => {
            format!("a function cannot be used on {}", kind(target))
        }
        E::NotSupportedAsMethod { method, target } => format!(
            "a function{} cannot be used on {}",
            written(method).unwrap_or_default(),
            kind(target)
        ),
        E::UnsupportedKeyType(key) => format!("{} cannot be a key", kind(key)),
        E::ValuesNotComparable(left, right) => {
            format!("{} cannot be compared with {}", kind(left), kind(right))
        }
        E::UnsupportedBinaryOperator(operator, left, right) => {
            format!("{} and {} have no `{operator}`", kind(left), kind(right))
        }
        E::UnsupportedIndex(index, of) => format!("{} has no {}", kind(of), index_of(index)),
        E::Overflow(operator, ..) => format!("the result of `{operator}` is too large"),
        E::DivisionByZero(_) | E::RemainderByZero(_) => "a division by zero".to_owned(),
        E::IndexOutOfBounds(_) => "a list has no such element".to_owned(),
        E::DuplicateKey(_) => "a mapping has a key twice".to_owned(),
        E::FunctionError { function, message } if function == OWN => message.clone(),
        E::FunctionError { function, .. } => {
            format!("`{function}` does not accept its arguments")
        }
        _ => "it has no value".to_owned(),
    }
}

/// The kind of a value.
pub(super) fn kind(value: &CelValue) -> &'static str {
    match value {
        CelValue::Null => "null",
        CelValue::Bool(_) => "true or false",
        CelValue::Int(_) | CelValue::UInt(_) | CelValue::Float(_) => "a number",
        CelValue::String(_) => "a text",
        CelValue::Bytes(_) => "bytes",
        CelValue::List(_) => "a list",
        CelValue::Map(_) => "a mapping",
        CelValue::Timestamp(_) => "a time",
        CelValue::Duration(_) => "a duration",
        _ => "a value of another kind",
    }
}

fn index_of(index: &CelValue) -> String {
    format!("element under {}", kind(index))
}

/// Whether a text is the name of a type, and not a value.
fn is_type(text: &str) -> bool {
    text.bytes()
        .all(|b| b.is_ascii_lowercase() || b"._".contains(&b))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Expression, Scope};

    fn failed(source: &str) -> String {
        let details = json!({
            "card": "4000-1234", "holder": {"name": "Mrs Lovelace", "city": "Reims"}, "n": 77_001, "flag": true,
            "list": ["4000-1234", 77_001], "pattern": "(4000-1234", "none": null, "high": 9_223_372_036_854_775_807_i64,
        });
        let scope = Scope::new(&json!({"id": "1"}), &details, [], None);
        let expression = Expression::compile(source).expect(source);
        match expression.evaluate(&scope) {
            Ok(value) => panic!("{source}: {value}"),
            Err(e) => e.reason,
        }
    }

    #[test]
    fn a_failure_names_kinds_and_what_is_written_and_no_value_of_the_order() {
        let sources = [
            "details.holder * 0",
            "details.holder + details.card",
            "details.card - details.n",
            "details.holder < details.list",
            "details.card < details.n",
            "-details.card",
            "!details.card",
            "details.card && true",
            "details.card ? 1 : 2",
            "details.list[details.n]",
            "details.list[details.card]",
            "details.list[details.holder]",
            "details.holder[details.card]",
            "details.holder[details.list]",
            "details.card[0]",
            "details.card.missing",
            "details.n.missing",
            "details.holder.missing",
            "details.n / 0",
            "details.n % 0",
            "details.high + details.high + details.n",
            "details.high * details.n",
            "-details.n - details.high - details.n",
            "int(details.card)",
            "int(details.holder)",
            "double(details.card)",
            "timestamp(details.card)",
            "duration(details.card)",
            "details.card.matches(details.pattern)",
            "details.n.startsWith(details.card)",
            "details.card.startsWith(details.n)",
            "details.card.unknown(details.n)",
            "unknown(details.card)",
            "size(details.n)",
            "{details.list: 1}",
            "{details.card: 1, details.card: 2}",
            "details.card.map(c, c)",
            "details.n in details.n",
            "[details.holder].map(h, h * 2)",
            "max(details.card, details.n)",
            "string(details.holder)",
            "{1: details.card, '1': details.n}",
        ];
        for source in sources {
            let reason = failed(source);
            for value in [
                "4000", "1234", "Lovelace", "Reims", "77001", "77_001", "9223372",
            ] {
                assert!(!reason.contains(value), "{source}: {reason}");
            }
            for _ in 0..20 {
                assert_eq!(failed(source), reason, "{source}: the same each time");
            }
            assert!(reason.len() < 200, "{source}: {reason}");
        }
    }

    #[test]
    fn what_is_said_leads_to_the_mistake() {
        for (source, wanted) in [
            ("details.holder.missing", "no such key: missing"),
            ("details.holder[details.card]", "no such key"),
            ("details.holder * 0", "a mapping and a number have no `mul`"),
            ("details.n / 0", "a division by zero"),
            ("details.list[5]", "a list has no such element"),
            ("int(details.card)", "`int` does not accept its arguments"),
            (
                "{1: 2, '1': 3}",
                "two keys of a mapping are the same in JSON",
            ),
        ] {
            assert_eq!(failed(source), wanted, "{source}");
        }
    }

    #[test]
    fn a_condition_that_is_none_says_what_it_is_and_not_its_value() {
        let scope = Scope::new(&json!({}), &json!({"card": "4000-1234"}), [], None);
        let condition = Expression::compile("details.card").expect("sound");
        let reason = condition.holds(&scope).expect_err("a text").reason;
        assert_eq!(reason, "it is a text, not true or false");
    }
}
