//! The OpenAPI document, made from the requests and answers of operations. The repository has a copy of it, and a
//! test compares the two.

use std::sync::LazyLock;

use bytes::Bytes;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use triad_operator::operations::{Method, Problem, ROUTES, Route};

/// Prefix of every path of the API.
pub(crate) const ROOT: &str = "/v1/operate";

/// The document, as it is served.
pub(crate) fn text() -> Bytes {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| document().to_string().into_bytes().into());
    TEXT.clone()
}

/// The document.
#[must_use]
pub fn document() -> Value {
    let settings = || {
        let settings = SchemaSettings::draft2020_12();
        settings.with(|settings| settings.definitions_path = "/components/schemas".into())
    };
    let mut asked = settings().for_deserialize().into_generator();
    let mut answers = settings().for_serialize().into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let path = paths
            .entry(format!("{ROOT}{}", route.path))
            .or_insert_with(|| json!({}));
        let operation = operation(route, &mut asked, &mut answers);
        match route.method {
            Method::Get => {
                let mut head = operation.clone();
                head["operationId"] = format!("head{}", route.name).into();
                // The headers of the same answer; there is no body to describe.
                let answers = head["responses"].as_object_mut().into_iter().flatten();
                for (_, answer) in answers {
                    let media = answer["content"].as_object_mut().into_iter().flatten();
                    media.for_each(|(_, content)| *content = json!({}));
                }
                path["get"] = operation;
                path["head"] = head;
            }
            Method::Post => path["post"] = operation,
        }
    }
    let problem = answers.subschema_for::<Problem>();
    let mut components = asked.take_definitions(true);
    components.extend(answers.take_definitions(true));
    let title = json!({"type": "string", "description": "The status in words."});
    if let Some(fields) = components
        .get_mut("Problem")
        .and_then(|p| p["properties"].as_object_mut())
    {
        fields.insert("title".to_owned(), title);
    }
    let events = json!({
        "operationId": "listen",
        "summary": "Changes as server-sent events: counts and breakers, and the order or campaigns that are asked for.",
        "parameters": [
            parameter("order", "query", &json!({"type": "string"}), "The order to follow.", false),
            parameter("campaign", "query", &json!({"type": "string"}), "The campaign to follow.", false),
            parameter("campaigns", "query", &json!({"type": "boolean"}), "Follow all campaigns.", false),
        ],
        "responses": responses("text/event-stream", json!({"type": "string"}), &problem, &[400, 401, 403, 503]),
    });
    paths.insert(format!("{ROOT}/events"), json!({"get": events}));
    let own = json!({"200": {"description": "This document.", "content": {"application/json": {"schema": {"type": "object"}}}}});
    paths.insert(
        format!("{ROOT}/openapi.json"),
        json!({
            "get": {"operationId": "openApi", "summary": "This document.", "security": [], "responses": own},
            "head": {"operationId": "headOpenApi", "summary": "This document.", "security": [], "responses": {"200": {"description": "This document.", "content": {"application/json": {}}}}},
        }),
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Triad, for operators",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Queries and acts of operators. Each act is stored with its operator and reason. Errors are \
                problem details (RFC 9457) with a stable `code`. Moments are RFC 3339 in UTC, with milliseconds.",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "A token with the role read or operate."}},
            "schemas": components,
        },
    })
}

fn parameter(name: &str, place: &str, schema: &Value, about: &str, required: bool) -> Value {
    json!({"name": name, "in": place, "required": required, "description": about, "schema": schema})
}

fn operation(route: &Route, asked: &mut SchemaGenerator, answers: &mut SchemaGenerator) -> Value {
    let fields = (route.fields)(asked).to_value();
    let answer = (route.answer)(answers).to_value();
    let in_path: Vec<&str> = route.in_path().collect();
    let mut parameters = Vec::new();
    let mut body = Map::new();
    for (name, schema) in fields["properties"].as_object().into_iter().flatten() {
        let mut schema = schema.clone();
        let about = match schema
            .as_object_mut()
            .and_then(|schema| schema.remove("description"))
        {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        if in_path.contains(&name.as_str()) {
            parameters.push(parameter(name, "path", &schema, &about, true));
        } else if route.method == Method::Get {
            parameters.push(parameter(name, "query", &schema, &about, false));
        } else {
            schema["description"] = about.into();
            body.insert(name.clone(), schema);
        }
    }
    let mut codes = vec![400, 401, 403, 503];
    // What an act names may not exist; only the removal of versions names nothing.
    if !in_path.is_empty() || route.method == Method::Post && route.name != "PruneWorkflows" {
        codes.push(404);
    }
    let mut made = json!({
        "operationId": route.name,
        "summary": route.text(),
        "parameters": parameters,
    });
    if route.method == Method::Post {
        codes.push(415);
        // Campaigns have a state in which an act does not fit; orders and letters tell it one by one.
        if route.path.contains("campaigns") {
            codes.push(409);
        }
        let required = fields["required"].as_array().cloned().unwrap_or_default();
        let is_in_body = |name: &&Value| name.as_str().is_some_and(|name| body.contains_key(name));
        let required: Vec<&Value> = required.iter().filter(is_in_body).collect();
        let schema = json!({"type": "object", "additionalProperties": false, "required": required, "properties": body});
        made["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": schema}}});
    }
    let problem = answers.subschema_for::<Problem>();
    made["responses"] = responses("application/json", answer, &problem, &codes);
    made
}

fn responses(media: &str, answer: Value, problem: &schemars::Schema, codes: &[u16]) -> Value {
    let mut made = Map::new();
    let good = json!({"description": "The answer.", "content": {media: {"schema": answer}}});
    made.insert("200".to_owned(), good);
    for code in codes {
        let about = match code {
            400 => "The request is wrong; `detail` says what.",
            401 => "The caller is not known.",
            403 => "The caller may not do this.",
            404 => "What is named does not exist.",
            409 => "It does not fit the present state.",
            415 => "The body is not JSON.",
            _ => "The store or the bus cannot be reached, or too much is asked at once: try again.",
        };
        let content = json!({"application/problem+json": {"schema": problem}});
        made.insert(
            code.to_string(),
            json!({"description": about, "content": content}),
        );
    }
    Value::Object(made)
}
