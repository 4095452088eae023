//! Probably misspelt keywords in a schema of details, and schemas that no details fit.
//!
//! JSON Schema ignores unknown keywords, so `requird` has no effect.

use serde_json::{Map, Value};

use crate::problem::{Path, Problem, Problems, nearest};

/// Keywords whose value is a mapping of names to schemas.
const NAMED: [&str; 5] = [
    "definitions",
    "$defs",
    "dependentSchemas",
    "patternProperties",
    "properties",
];
/// Keywords whose value is a schema.
const ONE: [&str; 11] = [
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose value is a list of schemas.
const LISTED: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose value is not a schema.
const PLAIN: [&str; 36] = [
    "$anchor",
    "$comment",
    "$id",
    "$ref",
    "$schema",
    "$vocabulary",
    "const",
    "contentEncoding",
    "contentMediaType",
    "default",
    "dependentRequired",
    "deprecated",
    "description",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "readOnly",
    "required",
    "title",
    "type",
    "uniqueItems",
    "writeOnly",
];

/// Reports them for a usable schema.
pub(super) fn check(schema: &Map<String, Value>, at: &Path, problems: &mut Problems) {
    let is_object = |of: &Value| of == "object";
    let fits = match schema.get("type") {
        Some(Value::Array(types)) => types.iter().any(is_object),
        Some(of) => is_object(of),
        None => true,
    };
    if !fits {
        let reason = "details are always an object, so that no order fits";
        problems.push(Problem::new(at.key("type"), reason).hint("write `type: object`"));
    }
    of_schema(schema, at, problems);
}

/// Checks the keywords of a schema. The recursion ends, because the schema's nesting was checked.
fn of_schema(schema: &Map<String, Value>, at: &Path, problems: &mut Problems) {
    for (key, value) in schema {
        let (key, at) = (key.as_str(), at.key(key));
        if NAMED.contains(&key) {
            for (name, named) in value.as_object().into_iter().flatten() {
                of_value(named, &at.key(name), problems);
            }
        } else if ONE.contains(&key) {
            of_value(value, &at, problems);
        } else if LISTED.contains(&key) {
            for (index, one) in value.as_array().into_iter().flatten().enumerate() {
                of_value(one, &at.index(index), problems);
            }
        } else if !PLAIN.contains(&key) {
            let known = [&NAMED[..], &ONE, &LISTED, &PLAIN].concat();
            if let Some(near) = nearest(key, known) {
                let reason = "JSON Schema has no such keyword, and would ignore it";
                let hint = format!("did you mean `{near}`?");
                problems.push(Problem::new(at, reason).hint(hint).on_key());
            }
        }
    }
}

fn of_value(value: &Value, at: &Path, problems: &mut Problems) {
    if let Value::Object(schema) = value {
        of_schema(schema, at, problems);
    }
}
