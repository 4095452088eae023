//! Types of an order's details from their schema.
//!
//! Only certain facts are used: a part with `anyOf`, `if` and the like may have any type.

use serde_json::{Map, Value};

use super::kinds::{Fields, Kinds, Type};

/// Deepest nesting that is read.
const MAX_DEPTH: usize = 16;

/// The type of details that fit a schema.
pub(super) fn details(schema: &Map<String, Value>) -> Type {
    let root = Value::Object(schema.clone());
    let mut found = part(&root, &root, 0);
    // Details are an object, whatever the schema says.
    found.kinds = Kinds::MAP;
    found
}

fn part(root: &Value, schema: &Value, depth: usize) -> Type {
    if depth > MAX_DEPTH {
        return Type::any();
    }
    if let Some(target) = schema["$ref"].as_str() {
        let named = target.strip_prefix('#').and_then(|p| root.pointer(p));
        // Keywords beside a reference apply too, but they say less than its target.
        return named.map_or_else(Type::any, |named| part(root, named, depth + 1));
    }
    let mut found = Type::of(kinds(schema));
    if found.kinds.may(Kinds::LIST)
        && schema["items"].is_object()
        && schema["prefixItems"].is_null()
    {
        found.elements = Some(part(root, &schema["items"], depth + 1).into());
    }
    if found.kinds.may(Kinds::MAP) {
        let known = schema["properties"].as_object().into_iter().flatten();
        let is_open = schema["additionalProperties"] != false
            || ["patternProperties", "allOf", "anyOf", "oneOf", "if"]
                .iter()
                .any(|key| !schema[*key].is_null());
        let known: Vec<(String, Type)> = known
            .map(|(name, of)| (name.clone(), part(root, of, depth + 1)))
            .collect();
        found.fields = Some(
            Fields {
                known: known.into_iter().collect(),
                is_open,
            }
            .into(),
        );
    }
    found
}

fn kinds(schema: &Value) -> Kinds {
    let of_type = |name: &str| match name {
        "null" => Kinds::NULL,
        "boolean" => Kinds::BOOL,
        // 2.0 is an integer too, and is read as a floating-point number.
        "integer" | "number" => Kinds::NUMBER,
        "string" => Kinds::STRING,
        "array" => Kinds::LIST,
        "object" => Kinds::MAP,
        _ => Kinds::JSON,
    };
    let of_value = |value: &Value| match value {
        Value::Null => Kinds::NULL,
        Value::Bool(_) => Kinds::BOOL,
        Value::Number(_) => Kinds::NUMBER,
        Value::String(_) => Kinds::STRING,
        Value::Array(_) => Kinds::LIST,
        Value::Object(_) => Kinds::MAP,
    };
    match &schema["type"] {
        Value::String(name) => of_type(name),
        Value::Array(names) => names
            .iter()
            .filter_map(Value::as_str)
            .map(of_type)
            .fold(Kinds::NEVER, |all, kind| all | kind),
        _ => match (&schema["enum"], schema.get("const")) {
            (Value::Array(values), _) => {
                let kinds = values.iter().map(of_value);
                kinds.fold(Kinds::NEVER, |all, kind| all | kind)
            }
            (_, Some(value)) => of_value(value),
            _ => Kinds::JSON,
        },
    }
}
