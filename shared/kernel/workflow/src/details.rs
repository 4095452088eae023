//! The schema of a workflow's order details: a JSON Schema, draft 2020-12.
//!
//! A team writes the schema and any application the details, so the cost of a check is bounded: by the schema's size,
//! by the number of its parts with every reference resolved, and by a pattern engine with linear time. Only
//! references within the schema are allowed; nothing is read from a network or a disk.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};

/// Largest schema as JSON, in bytes, inclusive: 32 KiB.
pub const MAX_SCHEMA_BYTES: usize = 32 * 1024;
/// Most parts that a schema may have, inclusive, with every reference resolved. Each value in the schema is a part,
/// except in `const`, `enum`, `default` and `examples`.
pub const MAX_SCHEMA_PARTS: u64 = 10_000;
/// Most misfits of one order that [`DetailsSchema::misfits`] returns.
pub const MAX_MISFITS: usize = 8;
/// Largest compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A place where the details of an order do not fit their workflow's schema. As text the path, a blank and
/// the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The part of the details, such as `details.items[0].price`; a path of more than 100 characters is cut.
    pub path: String,
    /// What is wrong with this part, for a person, such as `is 0, less than 1`.
    pub reason: String,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path, self.reason)
    }
}

/// The error of a schema that cannot be used: the reason, for its author.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaError(String);

/// The schema that a workflow declares for its orders' details. It is compiled when it is first used.
#[derive(Debug)]
pub struct DetailsSchema {
    schema: Value,
    validator: OnceLock<Result<Validator, String>>,
}

impl DetailsSchema {
    /// Takes a schema as written. Nothing is checked yet: [`check`](Self::check) does that.
    #[must_use]
    pub fn new(schema: &Map<String, Value>) -> Self {
        Self {
            schema: Value::Object(schema.clone()),
            validator: OnceLock::new(),
        }
    }

    /// The schema as written.
    #[must_use]
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Checks that the schema can be used: that it is a JSON Schema of draft 2020-12, and within
    /// [`MAX_SCHEMA_BYTES`], [`MAX_SCHEMA_PARTS`] and [`MAX_NESTING`](crate::bounds::MAX_NESTING).
    ///
    /// # Errors
    /// [`SchemaError`] if the schema is too large, nested too deep or has too many parts; if a `$ref` leads to
    /// itself, to a part that the schema does not have, or to something outside of it; if it uses `$id`,
    /// `$anchor`, `$dynamicAnchor`, `$dynamicRef` or `$recursiveRef`, which are not supported; if a pattern
    /// cannot be compiled or is larger than 1 MiB when compiled; or if it is not a JSON Schema of draft
    /// 2020-12.
    pub fn check(&self) -> Result<(), SchemaError> {
        self.validator().map(|_| ())
    }

    /// The places where the details do not fit the schema, at most [`MAX_MISFITS`]. Empty if the details fit.
    ///
    /// # Errors
    /// [`SchemaError`] if the schema cannot be used. There is no such error for a schema that passed [`check`](Self::check).
    pub fn misfits(&self, details: &Value) -> Result<Vec<Misfit>, SchemaError> {
        let validator = self.validator()?;
        if validator.is_valid(details) {
            return Ok(Vec::new());
        }
        let errors = validator.iter_errors(details).take(MAX_MISFITS);
        Ok(errors.map(|error| misfit(&error)).collect())
    }

    fn validator(&self) -> Result<&Validator, SchemaError> {
        let compiled = self.validator.get_or_init(|| compile(&self.schema));
        compiled.as_ref().map_err(|why| SchemaError(why.clone()))
    }
}

fn compile(schema: &Value) -> Result<Validator, String> {
    let bytes = schema.to_string().len();
    if bytes > MAX_SCHEMA_BYTES {
        return Err(format!(
            "has {bytes} bytes as JSON; {MAX_SCHEMA_BYTES} are allowed"
        ));
    }
    crate::bounds::check_nesting(schema).map_err(|e| e.to_string())?;
    let mut size = Size {
        root: schema,
        known: BTreeMap::new(),
    };
    let parts = size.of(schema)?;
    if parts > MAX_SCHEMA_PARTS {
        return Err(format!(
            "comes to more than {MAX_SCHEMA_PARTS} parts, with every $ref replaced by what it names"
        ));
    }
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .with_pattern_options(
            PatternOptions::regex()
                .size_limit(MAX_PATTERN_BYTES)
                .dfa_size_limit(MAX_PATTERN_BYTES),
        )
        .build(schema)
        .map_err(|e| {
            let path = e.instance_path().to_string();
            let place = path.trim_start_matches('/').replace('/', ".");
            match place.is_empty() {
                true => format!("is no JSON Schema: {e}"),
                false => format!("is no JSON Schema: {place}: {e}"),
            }
        })
}

/// The size of a schema.
struct Size<'s> {
    root: &'s Value,
    /// Number of parts by reference; `None` while they are being counted.
    known: BTreeMap<String, Option<u64>>,
}

impl Size<'_> {
    /// Counts the parts of a schema. The recursion ends: the nesting was checked, and each reference is resolved
    /// once.
    fn of(&mut self, schema: &Value) -> Result<u64, String> {
        let mut parts = 1_u64;
        match schema {
            Value::Object(map) => {
                for (key, value) in map {
                    match (key.as_str(), value) {
                        // Data, not a schema.
                        ("const" | "enum" | "default" | "examples", _) => {}
                        ("$ref", Value::String(target)) => {
                            parts = parts.saturating_add(self.referred(target)?);
                        }
                        ("$dynamicRef" | "$dynamicAnchor" | "$anchor" | "$recursiveRef", _) => {
                            return Err(format!("uses {key}: refer with \"#/$defs/name\""));
                        }
                        ("$id", _) => return Err("has an $id: leave it out".to_owned()),
                        _ => parts = parts.saturating_add(self.of(value)?),
                    }
                }
            }
            Value::Array(items) => {
                for item in items {
                    parts = parts.saturating_add(self.of(item)?);
                }
            }
            _ => {}
        }
        Ok(parts)
    }

    fn referred(&mut self, target: &str) -> Result<u64, String> {
        let Some(pointer) = target.strip_prefix('#') else {
            return Err(format!(
                "refers to {target:?}: write the schema out, or refer to \"#/$defs/name\""
            ));
        };
        match self.known.get(target) {
            Some(Some(parts)) => return Ok(*parts),
            Some(None) => {
                return Err(format!("{target:?} contains itself: that has no bound"));
            }
            None => {}
        }
        let root = self.root;
        let named = root.pointer(pointer).filter(|_| !pointer.is_empty());
        let Some(named) = named else {
            return Err(match pointer {
                "" => "\"#\" contains itself: that has no bound".to_owned(),
                _ => format!("refers to {target:?}, and there is no such part"),
            });
        };
        self.known.insert(target.to_owned(), None);
        let parts = self.of(named)?;
        self.known.insert(target.to_owned(), Some(parts));
        Ok(parts)
    }
}

/// Most characters of a value or a list of names that a reason shows.
const MAX_SHOWN: usize = 100;

fn cut(text: &str) -> String {
    match text.chars().count() {
        0..=MAX_SHOWN => text.to_owned(),
        _ => text.chars().take(MAX_SHOWN).chain(['…']).collect(),
    }
}

fn misfit(error: &ValidationError<'_>) -> Misfit {
    let mut path = "details".to_owned();
    let pointer = error.instance_path().to_string();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        match part.bytes().all(|b| b.is_ascii_digit()) && !part.is_empty() {
            true => path.push_str(&format!("[{part}]")),
            false => path.push_str(&format!(".{part}")),
        }
    }
    Misfit {
        path: cut(&path),
        reason: reason(error),
    }
}

/// Why a value does not fit, without the value: it belongs to an order, and the reason is written to letters, alerts
/// and logs.
fn reason(error: &ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::Required { property } => format!("has no field {property}"),
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            format!("has the unknown field {}", cut(&unexpected.join(", ")))
        }
        ValidationErrorKind::Type { kind } => {
            let wanted = match kind {
                TypeKind::Single(one) => one.to_string(),
                TypeKind::Multiple(several) => {
                    let all: Vec<String> = several.iter().map(|t| t.to_string()).collect();
                    all.join(" or ")
                }
            };
            format!(
                "is {}, and has to be of type {wanted}",
                type_of(error.instance())
            )
        }
        ValidationErrorKind::Enum { options } => {
            format!("has to be one of {}", cut(&options.to_string()))
        }
        ValidationErrorKind::Constant { expected_value } => {
            format!("has to be {}", cut(&expected_value.to_string()))
        }
        ValidationErrorKind::Minimum { limit } => format!("is less than {limit}"),
        ValidationErrorKind::Maximum { limit } => format!("is more than {limit}"),
        ValidationErrorKind::ExclusiveMinimum { limit } => format!("has to be more than {limit}"),
        ValidationErrorKind::ExclusiveMaximum { limit } => format!("has to be less than {limit}"),
        ValidationErrorKind::MinLength { limit } => {
            format!("is shorter than {limit} characters")
        }
        ValidationErrorKind::MaxLength { limit } => format!("is longer than {limit} characters"),
        ValidationErrorKind::MinItems { limit } => format!("has fewer than {limit} elements"),
        ValidationErrorKind::MaxItems { limit } => format!("has more than {limit} elements"),
        ValidationErrorKind::Pattern { pattern } => format!("does not match {}", cut(pattern)),
        ValidationErrorKind::UniqueItems => "has an element twice".to_owned(),
        ValidationErrorKind::FalseSchema => "may not be there".to_owned(),
        ValidationErrorKind::AnyOf { .. } | ValidationErrorKind::OneOfNotValid { .. } => {
            "has none of the allowed forms".to_owned()
        }
        ValidationErrorKind::OneOfMultipleValid { .. } => {
            "fits several forms of which only one is allowed".to_owned()
        }
        _ => format!("does not fit: {}", cut(&error.masked().to_string())),
    }
}

/// The type of a value, by its name in a schema.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema(value: Value) -> DetailsSchema {
        DetailsSchema::new(value.as_object().expect("an object"))
    }

    fn told(of: Value, details: &Value) -> Vec<String> {
        let misfits = schema(of).misfits(details).expect("a sound schema");
        misfits.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_misfit_is_told_with_its_part_of_the_details() {
        let of = json!({"type": "object", "required": ["customer"], "additionalProperties": false,
            "properties": {"customer": {"type": "string", "minLength": 2},
                "items": {"type": "array", "items": {"$ref": "#/$defs/item"}}},
            "$defs": {"item": {"properties": {"count": {"type": "integer", "minimum": 1}}}}});
        let fits = json!({"customer": "VINET", "items": [{"count": 1}]});
        assert_eq!(told(of.clone(), &fits), [""; 0]);
        let mut found = told(
            of,
            &json!({"items": [{"count": 0}, {"count": "2"}], "x": 1}),
        );
        found.sort();
        assert_eq!(
            found,
            [
                "details has no field \"customer\"",
                "details has the unknown field x",
                "details.items[0].count is less than 1",
                "details.items[1].count is a string, and has to be of type integer",
            ]
        );
    }

    #[test]
    fn no_misfit_tells_a_value() {
        const SECRET: &str = "4929000000006";
        let number: u64 = SECRET.parse().expect("a number");
        for (of, value) in [
            (json!({"type": "integer"}), json!(SECRET)),
            (json!({"type": ["null", "boolean"]}), json!(number)),
            (json!({"enum": ["a"]}), json!(SECRET)),
            (json!({"const": 1}), json!(number)),
            (json!({"minimum": 1e15}), json!(number)),
            (json!({"maximum": 1}), json!(number)),
            (json!({"exclusiveMinimum": 1e15}), json!(number)),
            (json!({"exclusiveMaximum": 1}), json!(number)),
            (json!({"minLength": 99}), json!(SECRET)),
            (json!({"maxLength": 1}), json!(SECRET)),
            (json!({"minItems": 9}), json!([SECRET])),
            (json!({"maxItems": 0}), json!([SECRET])),
            (json!({"pattern": "^a"}), json!(SECRET)),
            (json!({"uniqueItems": true}), json!([SECRET, SECRET])),
            (json!(false), json!(SECRET)),
            (json!({"anyOf": [{"type": "null"}]}), json!(SECRET)),
            (json!({"oneOf": [{"type": "null"}]}), json!(SECRET)),
            (json!({"oneOf": [{}, {}]}), json!(SECRET)),
            (json!({"not": {}}), json!(SECRET)),
            (json!({"contains": {"type": "null"}}), json!([SECRET])),
            (json!({"multipleOf": 10}), json!(number)),
            (json!({"minProperties": 9}), json!({"a": SECRET})),
            (json!({"maxProperties": 0}), json!({"a": SECRET})),
            (
                json!({"dependentRequired": {"a": ["b"]}}),
                json!({"a": SECRET}),
            ),
            (
                json!({"propertyNames": {"maxLength": 0}}),
                json!({"a": SECRET}),
            ),
            (json!({"format": "email"}), json!(SECRET)),
            (
                json!({"prefixItems": [{}], "items": false}),
                json!([1, SECRET]),
            ),
        ] {
            let of = json!({"properties": {"a": of}});
            for misfit in told(of.clone(), &json!({"a": value})) {
                assert!(!misfit.contains(SECRET), "{of}: {misfit}");
            }
        }
    }

    #[test]
    fn a_schema_without_a_bound_is_refused() {
        let wide = |n: usize| {
            let defs: Map<String, Value> = (0..n)
                .map(|k| {
                    let next = json!({"$ref": format!("#/$defs/d{}", k + 1)});
                    (format!("d{k}"), json!({"allOf": [next, next]}))
                })
                .chain([(format!("d{n}"), json!({}))])
                .collect();
            json!({"$ref": "#/$defs/d0", "$defs": defs})
        };
        for (of, reason) in [
            (
                json!({"$ref": "https://example.com/s.json"}),
                "refers to \"https://example.com",
            ),
            (json!({"$ref": "file:///etc/passwd"}), "refers to \"file:"),
            (
                json!({"properties": {"a": {"$ref": "#"}}}),
                "contains itself",
            ),
            (
                json!({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}}),
                "contains itself",
            ),
            (json!({"$ref": "#/$defs/b"}), "there is no such part"),
            (json!({"$id": "https://example.com/"}), "has an $id"),
            (json!({"$dynamicRef": "#x"}), "uses $dynamicRef"),
            (wide(40), "comes to more than 10000 parts"),
            (json!({"type": "text"}), "is no JSON Schema: type:"),
            (json!({"pattern": "a(?=b)"}), "is no JSON Schema"),
            (
                json!({"pattern": "(((((a{99}){99}){99}){99}){99}"}),
                "is no JSON Schema",
            ),
            (
                json!({"description": "x".repeat(MAX_SCHEMA_BYTES)}),
                "bytes as JSON",
            ),
        ] {
            let found = schema(of.clone())
                .check()
                .expect_err(&of.to_string())
                .to_string();
            assert!(found.contains(reason), "{reason}: {found}");
        }
        assert_eq!(schema(wide(8)).check(), Ok(()));
    }

    /// A backtracking engine would never finish this.
    #[test]
    fn a_pattern_that_is_a_trap_takes_no_time() {
        let of = json!({"properties": {"a": {"pattern": "^(a+)+$"}}});
        let details = json!({"a": format!("{}!", "a".repeat(100_000))});
        let found = told(of, &details);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("does not match ^(a+)+$"), "{found:?}");
    }

    #[test]
    fn elements_that_must_differ_are_found_among_many() {
        let of = json!({"properties": {"a": {"uniqueItems": true}}});
        let mut many: Vec<Value> = (0..40_000).map(Value::from).collect();
        assert_eq!(told(of.clone(), &json!({"a": many})), [""; 0]);
        many.push(json!(7));
        assert_eq!(
            told(of, &json!({"a": many})),
            ["details.a has an element twice"]
        );
    }

    #[test]
    fn no_more_misfits_are_told_than_a_message_holds() {
        let of = json!({"additionalProperties": {"type": "string"}});
        let many: Map<String, Value> = (0..100).map(|n| (format!("k{n}"), json!(n))).collect();
        assert_eq!(told(of, &Value::Object(many)).len(), MAX_MISFITS);
    }
}
