//! JSON Schemas of types that are defined elsewhere, for `#[schemars(with = …)]`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// A moment as programs read it: RFC 3339, UTC, with milliseconds.
pub(crate) struct Moment;

impl JsonSchema for Moment {
    fn schema_name() -> Cow<'static, str> {
        "Moment".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }

    fn inline_schema() -> bool {
        true
    }
}

/// An object whose fields are not described.
pub(crate) type Object = serde_json::Map<String, serde_json::Value>;

/// An operator's name and reason ([`triad_core::OperatorAct`]).
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct Operator {
    /// Who did it.
    by: String,
    /// Why.
    why: String,
}
