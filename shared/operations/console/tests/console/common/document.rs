//! The OpenAPI document of the operators' API, and its check of an answer.

use std::collections::BTreeSet;
use std::sync::{LazyLock, Mutex};

use serde_json::{Value, json};

use super::client::Said;

pub static DOCUMENT: LazyLock<Value> = LazyLock::new(triad_console::document);

/// Path template, method and status of each documented answer that this process has seen.
pub static SEEN: Mutex<BTreeSet<(String, String, String)>> = Mutex::new(BTreeSet::new());

/// The documented path template that a requested path matches.
fn template(path: &str) -> Option<String> {
    let path = path.split('?').next().unwrap_or_default();
    let asked: Vec<&str> = path.split('/').collect();
    let paths = DOCUMENT["paths"].as_object()?.keys();
    // A template without parameters takes precedence.
    let mut known: Vec<&String> = paths.collect();
    known.sort_by_key(|path| path.matches('{').count());
    let fits = |known: &&&String| {
        let parts: Vec<&str> = known.split('/').collect();
        let same = |(part, asked): (&&str, &&str)| part.starts_with('{') || part == asked;
        parts.len() == asked.len() && parts.iter().zip(&asked).all(same)
    };
    known.iter().find(fits).map(|path| (*path).clone())
}

/// Checks an answer of the API against the document.
pub fn check(method: &str, path: &str, said: &Said) {
    if !path.starts_with("/v1/operate") {
        return;
    }
    let method = method.to_lowercase();
    let operation = template(path).map(|path| {
        let operation = DOCUMENT["paths"][&path][&method].clone();
        (path, operation)
    });
    let Some((path, operation)) = operation.filter(|(_, operation)| operation.is_object()) else {
        assert!(
            matches!(said.status, 404 | 405),
            "{method} {path}: {said:?}"
        );
        return;
    };
    let status = said.status.to_string();
    let response = &operation["responses"][&status];
    assert!(
        response.is_object(),
        "{method} {path} has no {status}: {said:?}"
    );
    for (name, header) in response["headers"].as_object().into_iter().flatten() {
        let is_there = said.header(name).is_some() || header["required"] != json!(true);
        assert!(is_there, "{name}: {said:?}");
    }
    let media = said.header("content-type").expect("a media type");
    let content = &response["content"][media];
    assert!(content.is_object(), "no {media} in the document: {said:?}");
    if method != "head" && media != "text/event-stream" {
        fits(&content["schema"], &said.json());
    }
    SEEN.lock().unwrap().insert((path, method, status));
}

fn fits(schema: &Value, value: &Value) {
    let mut schema = schema.clone();
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["components"] = DOCUMENT["components"].clone();
    let options = jsonschema::options().should_validate_formats(true);
    let validator = options.build(&schema).expect("a schema");
    let misfits: Vec<String> = validator
        .iter_errors(value)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    assert!(misfits.is_empty(), "{misfits:?}: {value}");
}

/// Checks that a file has the document that is made from the code. `TRIAD_WRITE=1` writes it.
pub fn is_kept(document: &Value, file: &str) {
    let made = in_lines(document);
    if std::env::var_os("TRIAD_WRITE").is_some() {
        std::fs::write(file, &made).unwrap();
    }
    let kept = std::fs::read_to_string(file).unwrap();
    assert!(kept == made, "run this test once with TRIAD_WRITE=1");
}

/// A document with a line for each operation and each schema, which is read and compared more easily than others.
fn in_lines(document: &Value) -> String {
    let parts = |value: &Value, part: &dyn Fn(&Value) -> String| {
        let fields = value.as_object().unwrap().iter();
        let lines: Vec<String> = fields
            .map(|(name, value)| format!("\"{name}\": {}", part(value)))
            .collect();
        format!("{{\n{}\n}}", lines.join(",\n"))
    };
    let whole = |value: &Value| value.to_string();
    let path = |value: &Value| parts(value, &whole);
    let mut document = document.clone();
    let paths = parts(&document["paths"].take(), &path);
    let components = parts(&document["components"].take(), &path);
    let rest = parts(&document, &whole);
    let text = rest.replacen("\"paths\": null", &format!("\"paths\": {paths}"), 1);
    text.replacen(
        "\"components\": null",
        &format!("\"components\": {components}"),
        1,
    ) + "\n"
}
