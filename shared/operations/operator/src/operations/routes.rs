//! The place of each request in the HTTP API: method and path, and the schemas of its fields and its answer.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::Request;

/// The method of a request over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The request reads: its fields are parameters of the path and the query.
    Get,
    /// The request acts: its fields are parameters of the path, and a body in JSON.
    Post,
}

/// A request in the HTTP API.
#[derive(Debug)]
pub struct Route {
    /// The name of the request's type, such as `ListOrders`.
    pub name: &'static str,
    /// Its method.
    pub method: Method,
    /// Its path below the root of the API, with fields in braces, such as `/orders/{id}`.
    pub path: &'static str,
    /// What it does, in lines for people.
    pub about: &'static [&'static str],
    /// Reads the request from a query string that has the fields of the path, too.
    pub from_query: fn(&str) -> Result<Request, String>,
    /// Reads the request from the fields of the path and the body.
    pub from_fields: fn(Map<String, Value>) -> Result<Request, String>,
    /// The schema of its fields.
    pub fields: fn(&mut SchemaGenerator) -> Schema,
    /// The schema of its answer for programs.
    pub answer: fn(&mut SchemaGenerator) -> Schema,
}

macro_rules! route {
    ($request:ident, $method:ident, $path:literal, $answer:ty, [$($about:literal),+]) => {
        Route {
            name: stringify!($request),
            method: routes::Method::$method,
            path: $path,
            about: &[$($about),+],
            from_query: |query| match serde_urlencoded::from_str::<$request>(query) {
                Ok(asked) => Ok(asked.into()),
                Err(e) => Err(e.to_string()),
            },
            from_fields: |fields| match serde_json::from_value::<$request>(fields.into()) {
                Ok(asked) => Ok(asked.into()),
                Err(e) => Err(e.to_string()),
            },
            fields: <$request as schemars::JsonSchema>::json_schema,
            answer: <$answer as Form>::schema,
        }
    };
}
pub(super) use route;

impl Route {
    /// What it does, as one text.
    #[must_use]
    pub fn text(&self) -> String {
        let lines: Vec<&str> = self.about.iter().map(|line| line.trim()).collect();
        lines.join(" ")
    }

    /// The names of the fields that are in its path.
    pub fn in_path(&self) -> impl Iterator<Item = &'static str> {
        let parts = self.path.split('/');
        parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    /// The names of its fields.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let schema = (self.fields)(&mut SchemaGenerator::default());
        let fields = schema.get("properties").and_then(Value::as_object);
        fields.into_iter().flat_map(Map::keys).cloned().collect()
    }
}

/// The schema of an object to which the field `kind` is added, as [`crate::json::line`] adds it.
#[must_use]
pub fn with_kind(mut schema: Schema, kind: &str) -> Schema {
    let object = schema.ensure_object();
    let fields = object.entry("properties").or_insert_with(|| json!({}));
    if let Some(fields) = fields.as_object_mut() {
        fields.insert("kind".to_owned(), json!({"type": "string", "const": kind}));
    }
    let required = object.entry("required").or_insert_with(|| json!([]));
    if let Some(required) = required.as_array_mut() {
        required.push("kind".into());
    }
    schema
}
