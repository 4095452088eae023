//! An OpenAPI 3.1 document, made from the types of requests and answers.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use triad_operator::operations::Method;

use crate::answer::Details;

/// A document that is being made. Schemas of named types are collected once, under `components`.
#[derive(Debug)]
pub struct Description {
    asked: SchemaGenerator,
    answers: SchemaGenerator,
    paths: Map<String, Value>,
}

/// One operation: a path with a method.
#[derive(Debug)]
pub struct Operation {
    path: String,
    method: Method,
    made: Value,
}

impl Operation {
    /// An operation without parameters, body and answers. `id` is its `operationId`; that of the same path with HEAD,
    /// which every path with GET has, is `head` and the id.
    #[must_use]
    pub fn new(path: &str, method: Method, id: &str, summary: &str) -> Self {
        Self {
            path: path.to_owned(),
            method,
            made: json!({"operationId": id, "summary": summary, "parameters": [], "responses": {}}),
        }
    }

    /// The operation needs no token.
    #[must_use]
    pub fn open(mut self) -> Self {
        self.made["security"] = json!([]);
        self
    }

    /// Adds a parameter for each field of an object's schema, such as that of a query. `place` is `path`, `query` or
    /// `header`. Those of a path are required, and others are not.
    #[must_use]
    pub fn parameters(mut self, place: &str, object: &Value) -> Self {
        for (name, schema) in object["properties"].as_object().into_iter().flatten() {
            let mut schema = schema.clone();
            let fields = schema.as_object_mut();
            let about = fields.and_then(|fields| fields.remove("description"));
            let parameter = json!({"name": name, "in": place, "required": place == "path",
                "description": about.unwrap_or_default(), "schema": schema});
            if let Some(parameters) = self.made["parameters"].as_array_mut() {
                parameters.push(parameter);
            }
        }
        self
    }

    /// Adds a body of a media type, which the request must have.
    #[must_use]
    pub fn body(mut self, media: &str, schema: &Value) -> Self {
        self.made["requestBody"]["required"] = true.into();
        self.made["requestBody"]["content"][media] = content(media, schema);
        self
    }

    /// Adds an answer, or a further media type of one.
    #[must_use]
    pub fn answer(mut self, status: u16, about: &str, media: &str, schema: &Value) -> Self {
        let answer = &mut self.made["responses"][status.to_string()];
        answer["description"] = about.into();
        answer["content"][media] = content(media, schema);
        self
    }

    /// Adds a header that an answer always has.
    #[must_use]
    pub fn header(mut self, status: u16, name: &str, schema: &Value) -> Self {
        let header = json!({"required": true, "schema": schema});
        self.made["responses"][status.to_string()]["headers"][name] = header;
        self
    }
}

/// A body of a media type. Of JSON lines, OpenAPI 3.1 can describe no line: `x-line` does.
fn content(media: &str, schema: &Value) -> Value {
    match media {
        "application/x-ndjson" | "application/jsonl" => {
            json!({"schema": {"type": "string"}, "x-line": schema})
        }
        _ => json!({"schema": schema}),
    }
}

impl Default for Description {
    fn default() -> Self {
        let settings = || {
            let settings = SchemaSettings::draft2020_12();
            settings.with(|settings| settings.definitions_path = "/components/schemas".into())
        };
        Self {
            asked: settings().for_deserialize().into_generator(),
            answers: settings().for_serialize().into_generator(),
            paths: Map::new(),
        }
    }
}

impl Description {
    /// The generator for schemas of what is sent to the server.
    pub fn asked(&mut self) -> &mut SchemaGenerator {
        &mut self.asked
    }

    /// The generator for schemas of what the server answers.
    pub fn answers(&mut self) -> &mut SchemaGenerator {
        &mut self.answers
    }

    /// The schema of a type whose fields are parameters.
    pub fn fields<T: JsonSchema>(&mut self) -> Value {
        T::json_schema(&mut self.asked).to_value()
    }

    /// The schema of the body of a request.
    pub fn body<T: JsonSchema>(&mut self) -> Value {
        self.asked.subschema_for::<T>().to_value()
    }

    /// The schema of an answer.
    pub fn answer<T: JsonSchema>(&mut self) -> Value {
        self.answers.subschema_for::<T>().to_value()
    }

    /// Adds an operation, which may also be answered with problems of these statuses. A path with GET has HEAD, too.
    pub fn add(&mut self, mut operation: Operation, problems: &[u16]) {
        let problem = self.answer::<Details<'static>>();
        for status in problems {
            let (about, header) = problem_of(*status);
            let media = "application/problem+json";
            operation = operation.answer(*status, about, media, &problem);
            if let Some((name, schema)) = header {
                operation = operation.header(*status, name, &schema);
            }
        }
        let Operation { path, method, made } = operation;
        let path = self.paths.entry(path).or_insert_with(|| json!({}));
        match method {
            Method::Get => {
                path["head"] = without_body(made.clone());
                path["get"] = made;
            }
            Method::Post => path["post"] = made,
        }
    }

    /// Adds an operation that is only answered with the document itself.
    pub fn add_itself(&mut self, path: &str) {
        let about = "This document.";
        let object = json!({"type": "object"});
        let operation = Operation::new(path, Method::Get, "openApi", about).open();
        self.add(
            operation.answer(200, about, "application/json", &object),
            &[],
        );
    }

    /// The document, with this title and description. `token` says which tokens there are; `is_open`: whether a server
    /// may also need none.
    #[must_use]
    pub fn finish(mut self, title: &str, about: &str, token: &str, is_open: bool) -> Value {
        let mut schemas = self.asked.take_definitions(true);
        schemas.extend(self.answers.take_definitions(true));
        let security = match is_open {
            true => json!([{}, {"token": []}]),
            false => json!([{"token": []}]),
        };
        let mut document = json!({
            "openapi": "3.1.0",
            "info": {"title": title, "version": env!("CARGO_PKG_VERSION"), "description": about},
            "servers": [{"url": "/"}],
            "security": security,
            "paths": self.paths,
            "components": {
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": token}},
                "schemas": schemas,
            },
        });
        reword(&mut document);
        document
    }
}

/// Makes a comment of the code fit for readers of the document, wherever one describes something: one line, without
/// links into the code, and `null` for what is `None` in the code.
fn reword(part: &mut Value) {
    match part {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "description" => {
                        *text = text
                            .replace('\n', " ")
                            .replace("[`", "`")
                            .replace("`]", "`");
                        *text = text.replace("`None`", "`null`");
                    }
                    other => reword(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(reword),
        _ => {}
    }
}

/// The same operation with HEAD: the headers of the same answers, without a body to describe.
fn without_body(mut operation: Value) -> Value {
    let id = operation["operationId"].as_str().unwrap_or_default();
    let (first, rest) = id.split_at(id.len().min(1));
    operation["operationId"] = format!("head{}{rest}", first.to_uppercase()).into();
    let answers = operation["responses"].as_object_mut();
    for (_, answer) in answers.into_iter().flatten() {
        let media = answer["content"].as_object_mut();
        media
            .into_iter()
            .flatten()
            .for_each(|(_, content)| *content = json!({}));
    }
    operation
}

/// What a problem of a status is, and the header that it always has.
fn problem_of(status: u16) -> (&'static str, Option<(&'static str, Value)>) {
    let challenge = || Some(("WWW-Authenticate", json!({"type": "string"})));
    let retry = || Some(("Retry-After", json!({"type": "integer", "minimum": 1})));
    match status {
        400 => ("The request is wrong; `detail` says what.", None),
        401 => ("The caller is not known.", challenge()),
        403 => ("The caller may not do this.", None),
        404 => ("What is named does not exist.", None),
        408 => ("The body has not come in time.", None),
        409 => ("It does not fit the present state.", None),
        413 => ("The body has too many bytes or lines.", None),
        415 => ("The body has another media type, or is encoded.", None),
        422 => ("The order cannot be taken as it is; `code` says why.", None),
        429 => (
            "Too much is asked at once, and nothing was done: try again.",
            retry(),
        ),
        503 => (
            "The store or the bus cannot be reached, or too much is asked at once: try again.",
            retry(),
        ),
        _ => ("Something is wrong on the server.", None),
    }
}
