//! Makes types in the form of a description from the schemas of an OpenAPI file.

use serde_json::Value;

use super::document::Document;

/// Most names in one type, inclusive, so that people can read the description.
const MAX_NAMES: usize = 200;
/// The depths of nesting that are tried in this order, until a type has at most [`MAX_NAMES`] names.
const NESTINGS: [usize; 3] = [3, 2, 1];
/// Most visits of schemas for one type; a schema that is visited again counts again.
const MAX_WORK: usize = 20_000;
/// Most parts of `allOf` that are merged into one object, in all.
const MAX_PARTS: usize = 64;

/// A type as a description writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Typed {
    /// A word such as `string`.
    Word(&'static str),
    /// A list of elements of one type.
    List(Box<Typed>),
    /// A mapping with these names, which end with `?` if they may be missing.
    Map(Vec<(String, Typed)>),
}

/// Whether a value is sent to the service or received from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// In a request: without `readOnly` fields.
    Sent,
    /// In an answer: without `writeOnly` fields.
    Received,
}

/// The type of values that fit a schema. If it would have too many names, its deepest parts become plain words.
///
/// # Errors
/// A reference that cannot be followed.
pub(super) fn typed(document: &Document, schema: &Value, way: Way) -> Result<Typed, String> {
    for nesting in NESTINGS {
        let mut reader = Reader {
            document,
            way,
            left: MAX_NAMES,
            work: MAX_WORK,
            within: Vec::new(),
        };
        let (found, _) = reader.of(schema, nesting)?;
        if reader.left > 0 && reader.work > 0 {
            return Ok(found);
        }
    }
    Ok(Typed::Word("object"))
}

/// The fields of an object, with the parts of `allOf` merged.
#[derive(Default)]
pub(super) struct Object<'d> {
    /// Names and schemas, the required ones first.
    pub fields: Vec<(String, &'d Value)>,
    /// The required names.
    pub required: Vec<String>,
    /// Whether it may have further names.
    pub is_open: bool,
    parts: usize,
}

impl<'d> Object<'d> {
    /// The fields of a schema; none if it is not the schema of an object.
    ///
    /// # Errors
    /// A reference that cannot be followed.
    pub fn of(document: &'d Document, schema: &'d Value, way: Way) -> Result<Self, String> {
        let mut found = Self::default();
        found.add(document, schema, way)?;
        let required = std::mem::take(&mut found.required);
        found
            .fields
            .sort_by_key(|(name, _)| !required.contains(name));
        found.required = required;
        Ok(found)
    }

    fn add(&mut self, document: &'d Document, schema: &'d Value, way: Way) -> Result<(), String> {
        self.parts += 1;
        if self.parts > MAX_PARTS {
            self.is_open = true;
            return Ok(());
        }
        let schema = document.resolve(schema)?;
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.add(document, part, way)?;
        }
        if schema["oneOf"].is_array() || schema["anyOf"].is_array() {
            self.is_open = true;
        }
        match &schema["additionalProperties"] {
            Value::Bool(true) | Value::Object(_) => self.is_open = true,
            _ => {}
        }
        for (name, of) in schema["properties"].as_object().into_iter().flatten() {
            let hidden = match way {
                Way::Sent => "readOnly",
                Way::Received => "writeOnly",
            };
            let is_hidden = document.resolve(of)?[hidden] == true;
            if !is_hidden && !self.fields.iter().any(|(known, _)| known == name) {
                self.fields.push((name.clone(), of));
            }
        }
        let required = schema["required"].as_array().into_iter().flatten();
        self.required
            .extend(required.filter_map(Value::as_str).map(str::to_owned));
        Ok(())
    }
}

struct Reader<'d> {
    document: &'d Document,
    way: Way,
    /// Names that the type may still have.
    left: usize,
    /// Schemas that may still be visited.
    work: usize,
    /// The schemas around the one that is read. A schema that contains itself becomes a plain word there.
    within: Vec<*const Value>,
}

impl<'d> Reader<'d> {
    /// The type, and whether null fits too.
    fn of(&mut self, schema: &'d Value, nesting: usize) -> Result<(Typed, bool), String> {
        let schema = self.document.resolve(schema)?;
        self.work = self.work.saturating_sub(1);
        let kind = self.kind(schema, 0)?;
        let is_null = kind.1;
        let is_within = self.within.contains(&std::ptr::from_ref(schema));
        if self.left == 0 || self.work == 0 || is_within {
            return Ok((Typed::Word(kind.0), is_null));
        }
        self.within.push(std::ptr::from_ref(schema));
        let found = self.of_kind(schema, kind.0, nesting);
        self.within.pop();
        let (found, may_be_null) = found?;
        Ok((found, is_null || may_be_null))
    }

    fn of_kind(
        &mut self,
        schema: &'d Value,
        kind: &'static str,
        nesting: usize,
    ) -> Result<(Typed, bool), String> {
        let ways = ["oneOf", "anyOf"]
            .iter()
            .find_map(|key| schema[*key].as_array());
        if let Some(ways) = ways
            && schema["properties"].is_null()
        {
            return self.of_ways(ways, nesting);
        }
        Ok((
            match kind {
                "list" if nesting > 0 && schema["items"].is_object() => {
                    Typed::List(Box::new(self.of(&schema["items"], nesting)?.0))
                }
                "object" if nesting > 0 => self.of_object(schema, nesting)?,
                word => Typed::Word(word),
            },
            false,
        ))
    }

    /// The word for a schema's type, or for that of the first part of its `allOf` that has one; and whether null fits.
    fn kind(&mut self, schema: &'d Value, depth: usize) -> Result<(&'static str, bool), String> {
        let own = kind(schema);
        self.work = self.work.saturating_sub(1);
        let parts = schema["allOf"].as_array();
        for part in parts
            .into_iter()
            .flatten()
            .filter(|_| own.0 == "any" && depth < 8)
        {
            if self.work == 0 {
                break;
            }
            let of = self.kind(self.document.resolve(part)?, depth + 1)?;
            if of.0 != "any" {
                return Ok((of.0, own.1 || of.1));
            }
        }
        Ok(own)
    }

    fn of_object(&mut self, schema: &'d Value, nesting: usize) -> Result<Typed, String> {
        let object = Object::of(self.document, schema, self.way)?;
        if object.fields.is_empty() {
            return Ok(Typed::Word("object"));
        }
        let mut fields = Vec::new();
        for (name, of) in &object.fields {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            let (of, may_be_null) = self.of(of, nesting - 1)?;
            let is_sure = object.required.contains(name) && !may_be_null;
            // The form of types cannot write these names: there `?` and `*` have a meaning.
            if name == "*" || name.ends_with('?') {
                continue;
            }
            let name = if is_sure {
                name.clone()
            } else {
                format!("{name}?")
            };
            fields.push((name, of));
        }
        if object.is_open {
            fields.push(("*".to_owned(), Typed::Word("any")));
        }
        Ok(Typed::Map(fields))
    }

    /// The type of alternatives: their common type, or `any`; and whether null fits.
    fn of_ways(&mut self, ways: &'d [Value], nesting: usize) -> Result<(Typed, bool), String> {
        let mut found: Option<Typed> = None;
        let mut may_be_null = false;
        for way in ways {
            if self.document.resolve(way)?["type"] == "null" {
                may_be_null = true;
                continue;
            }
            let (one, null) = self.of(way, nesting)?;
            may_be_null |= null;
            match &found {
                Some(first) if *first != one => return Ok((Typed::Word("any"), may_be_null)),
                _ => found = Some(one),
            }
        }
        Ok((found.unwrap_or(Typed::Word("any")), may_be_null))
    }
}

/// The word for a schema's type, and whether null fits too.
fn kind(schema: &Value) -> (&'static str, bool) {
    let word = |name: &str| match name {
        "string" => "string",
        "integer" => "integer",
        "number" => "number",
        "boolean" => "boolean",
        "array" => "list",
        "object" => "object",
        _ => "any",
    };
    let nullable = schema["nullable"] == true;
    match &schema["type"] {
        Value::String(name) => (word(name), nullable || name == "null"),
        Value::Array(names) => {
            let is_null = |name: &&Value| **name == "null";
            let mut others = names.iter().filter(|name| !is_null(name));
            let first = others.next().and_then(Value::as_str).map_or("any", word);
            let only = others.next().is_none();
            (
                if only { first } else { "any" },
                names.iter().any(|name| is_null(&name)),
            )
        }
        _ if schema["properties"].is_object() => ("object", nullable),
        _ if schema["items"].is_object() => ("list", nullable),
        _ => {
            let values = schema["enum"].as_array();
            let are_texts = values.is_some_and(|all| all.iter().all(Value::is_string));
            (if are_texts { "string" } else { "any" }, nullable)
        }
    }
}
