//! The OpenAPI document of the interface, and its check of an answer.

use std::collections::BTreeSet;
use std::sync::{LazyLock, Mutex};

use serde_json::{Value, json};

use super::client::Said;

pub static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../openapi.json")).expect("JSON"));

/// Path template, method and status of each documented answer that this process has seen.
pub static SEEN: Mutex<BTreeSet<(String, String, String)>> = Mutex::new(BTreeSet::new());

/// The documented path template that a requested path matches.
fn template(path: &str) -> Option<&'static str> {
    let path = path.split('?').next().unwrap_or_default();
    match path {
        "/v1/orders" => Some("/v1/orders"),
        "/v1/events" => Some("/v1/events"),
        "/v1/openapi.json" => Some("/v1/openapi.json"),
        "/healthz" => Some("/healthz"),
        "/readyz" => Some("/readyz"),
        other => {
            let id = other.strip_prefix("/v1/orders/")?;
            match id.split_once('/') {
                None if !id.is_empty() => Some("/v1/orders/{id}"),
                Some((_, "events")) => Some("/v1/orders/{id}/events"),
                Some((_, "amend")) => Some("/v1/orders/{id}/amend"),
                Some((_, "cancel")) => Some("/v1/orders/{id}/cancel"),
                Some((_, step)) if step.starts_with("steps/") => {
                    Some(match step.ends_with("/heartbeat") {
                        true => "/v1/orders/{id}/steps/{step}/heartbeat",
                        false => "/v1/orders/{id}/steps/{step}",
                    })
                }
                _ => None,
            }
        }
    }
}

/// Checks an answer against the document: its status, its headers, its media type, its body.
pub fn check(method: &str, path: &str, said: &Said) {
    let method = method.to_lowercase();
    let operation = template(path).map(|path| (path, &DOCUMENT["paths"][path][&method]));
    let Some((path, operation)) = operation.filter(|(_, operation)| operation.is_object()) else {
        assert!(
            matches!(said.status, 404 | 405),
            "{method} {path}: {said:?}"
        );
        if method != "head" {
            fits(
                &json!({"$ref": "#/components/schemas/Problem"}),
                &said.json(),
            );
        }
        return;
    };
    let status = said.status.to_string();
    let responses = &operation["responses"];
    let of_status = responses.get(&status);
    let response = of_status.unwrap_or_else(|| panic!("{method} {path} has no {status}: {said:?}"));
    for (name, header) in response["headers"].as_object().into_iter().flatten() {
        let is_there = said.header(name).is_some();
        assert!(
            is_there || header["required"] != json!(true),
            "{name}: {said:?}"
        );
    }
    if method == "head" {
        assert!(said.body.is_empty(), "{said:?}");
    } else {
        check_body(&response["content"], said);
    }
    let seen = (path.to_owned(), method, status);
    SEEN.lock().unwrap().insert(seen);
}

fn check_body(content: &Value, said: &Said) {
    let media = said.header("content-type").expect("a media type");
    let content = content.get(media);
    let content = content.unwrap_or_else(|| panic!("no {media} in the document: {said:?}"));
    match content.get("x-line") {
        Some(line) => said.lines().iter().for_each(|said| fits(line, said)),
        None => fits(&content["schema"], &said.json()),
    }
    if media == "application/problem+json" {
        assert_eq!(said.json()["status"], json!(said.status), "{said:?}");
        let after = said
            .header("retry-after")
            .map(|after| after.parse::<u32>().unwrap());
        assert_eq!(said.json()["retry_after"], json!(after), "{said:?}");
    }
}

/// The reasons why a value does not match a schema of the document.
pub fn misfits(schema: &Value, value: &Value) -> Vec<String> {
    let mut schema = schema.clone();
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["components"] = DOCUMENT["components"].clone();
    let options = jsonschema::options().should_validate_formats(true);
    let validator = options.build(&schema).expect("a schema");
    let misfits = validator.iter_errors(value);
    misfits
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect()
}

pub fn fits(schema: &Value, value: &Value) {
    let misfits = misfits(schema, value);
    assert!(misfits.is_empty(), "{misfits:?}: {value}");
}
