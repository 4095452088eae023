//! The OpenAPI document of the operators' API, made from the requests and answers of operations. The repository has a
//! copy of it, and a test compares the two.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use triad_operator::operations::{Method, ROUTES, Route};

use crate::answer::EVENTS;
use crate::describe::{Description, Operation};
use crate::events::Of;

/// Prefix of every path of the API.
pub(crate) const ROOT: &str = "/v1/operate";

/// The document, as it is served.
pub(crate) fn text() -> Bytes {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| document().to_string().into_bytes().into());
    TEXT.clone()
}

/// The document of the operators' API.
#[must_use]
pub fn document() -> Value {
    let mut made = Description::default();
    for route in ROUTES {
        describe(route, &mut made);
    }
    let about = "Changes as server-sent events: counts and breakers, and the order or campaigns that are asked for.";
    let listen = Operation::new(&format!("{ROOT}/events"), Method::Get, "listen", about)
        .parameters("query", &made.fields::<Of>())
        .answer(200, "The events.", EVENTS, &json!({"type": "string"}));
    made.add(listen, &[400, 401, 403, 503]);
    made.add_itself(&format!("{ROOT}/openapi.json"));
    made.finish(
        "Triad, for operators",
        "Queries and acts of operators. Each act is stored with its operator and reason. Errors are \
            problem details (RFC 9457) with a stable `code`. Moments are RFC 3339 in UTC, with milliseconds.",
        "A token with the role read or operate.",
        false,
    )
}

fn describe(route: &Route, made: &mut Description) {
    let mut asked = (route.fields)(made.asked()).to_value();
    let answer = (route.answer)(made.answers()).to_value();
    let in_path: Vec<&str> = route.in_path().collect();
    let required = asked["required"].as_array().cloned().unwrap_or_default();
    let fields = asked["properties"].as_object_mut().map(std::mem::take);
    let of_path = |(name, _): &(String, Value)| in_path.contains(&name.as_str());
    let (in_path, others): (Map<_, _>, Map<_, _>) =
        fields.unwrap_or_default().into_iter().partition(of_path);
    let mut codes = vec![400, 401, 403, 503];
    // What an act names may not exist; only the removal of versions names nothing.
    if !in_path.is_empty() || route.method == Method::Post && route.name != "PruneWorkflows" {
        codes.push(404);
    }
    let path = format!("{ROOT}{}", route.path);
    let operation = Operation::new(&path, route.method, route.name, &route.text())
        .parameters("path", &json!({"properties": in_path}))
        .answer(200, "The answer.", "application/json", &answer);
    let operation = match route.method {
        Method::Get => operation.parameters("query", &json!({"properties": others})),
        Method::Post => {
            codes.push(415);
            // Orders and letters tell one by one whether an act fits their state.
            match route.name {
                "SendEvent" | "SendKeyedEvent" => codes.extend([409, 422]),
                _ if route.path.contains("campaigns") => codes.push(409),
                _ => {}
            }
            let is_in_body =
                |name: &&Value| name.as_str().is_some_and(|name| others.contains_key(name));
            let required: Vec<&Value> = required.iter().filter(is_in_body).collect();
            let schema = json!({"type": "object", "additionalProperties": false, "required": required, "properties": others});
            operation.body("application/json", &schema)
        }
    };
    made.add(operation, &codes);
}
