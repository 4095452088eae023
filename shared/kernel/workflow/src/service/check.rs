//! Checks of a description, and its compilation.

use serde_json::Value;

use super::form::{ANSWER_VARIABLES, AnswerRow, CallForm, Keep, REQUEST_VARIABLES};
use super::{
    ActionDefinition, AnswerDefinition, BodyForm, CallDefinition, KeyDefinition, KeyForm,
    MAX_CALL_BYTES, Method, ServiceDefinition,
};
use crate::bounds;
use crate::expr::Expression;
use crate::names::check_action;
use crate::problem::{Path, Problem, Problems};
use crate::template::Template;

/// Least and most characters of a hashed key, both inclusive. Below 16 two keys could be the same by chance.
const KEY_LENGTH: std::ops::RangeInclusive<u32> = 16..=64;
/// Most parts of an answer that are kept by name, inclusive.
const MAX_KEPT: usize = 32;
/// Longest path of a description, in bytes, inclusive.
const MAX_PATH_BYTES: usize = 512;
/// Headers that a description may not have: they say where a message goes and where it ends, or are Triad's own.
const NOT_HEADERS: [&str; 7] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "te",
    "upgrade",
    "traceparent",
];

/// Checks the description of a service. `at` is its place.
pub(crate) fn check(service: &ServiceDefinition, at: &Path, problems: &mut Problems) {
    if let Some(key) = &service.key {
        check_key(key, &at.key("key"), problems);
    }
    rows(&service.answers, &at.key("answers"), problems);
    for (name, action) in &service.actions {
        let at = at.key("actions").key(name);
        if let Err(reason) = check_action(name) {
            problems.add(at.clone(), reason);
        }
        form_of(service.key.as_ref(), action, &at, problems);
        bound(service, name, at, problems);
    }
    // An action that is not listed has the rows and the key alone.
    bound(service, "", at.key("answers"), problems);
}

fn bound(service: &ServiceDefinition, action: &str, at: Path, problems: &mut Problems) {
    let bytes = serde_json::to_string(&service.call(action)).map_or(0, |json| json.len());
    if bytes > MAX_CALL_BYTES {
        let reason = format!(
            "has {bytes} bytes with the rows of the service; {MAX_CALL_BYTES} are allowed, since each request carries them"
        );
        problems.add(at, reason);
    }
}

/// The compiled form of a description; useless if it adds a problem.
pub(super) fn form(call: &CallDefinition, at: &Path, problems: &mut Problems) -> CallForm {
    if let Some(key) = &call.key {
        check_key(key, &at.key("key"), problems);
    }
    form_of(call.key.as_ref(), &call.action, at, problems)
}

fn form_of(
    key: Option<&KeyDefinition>,
    action: &ActionDefinition,
    at: &Path,
    problems: &mut Problems,
) -> CallForm {
    let method = action.method.unwrap_or(Method::Post);
    let has_no_body = matches!(method, Method::Get | Method::Delete);
    let body = action.body.unwrap_or(match has_no_body {
        true => BodyForm::None,
        false => BodyForm::Json,
    });
    if body == BodyForm::None && !action.content.is_null() {
        problems.add(
            at.key("content"),
            "the call has no body: remove it, or give `body`",
        );
    }
    let has_field = key.is_some_and(|key| key.field.is_some() && key.header.is_none());
    if has_field && matches!(body, BodyForm::None | BodyForm::Text) {
        let reason =
            "the key is sent in a field of the body, and this call has no JSON or form body";
        let hint = "give the service's `key` a `header` too";
        problems.push(Problem::new(at.clone(), reason).hint(hint));
    }
    if action.timeout.is_some_and(|timeout| timeout.0 == 0) {
        problems.add(at.key("timeout"), "has to be longer than nothing");
    }
    let path = action.path.as_ref().map(|path| {
        let at = at.key("path");
        if let Some(reason) = wrong_path(path) {
            problems.add(at.clone(), reason);
        }
        template(
            &Value::from(path.as_str()),
            &REQUEST_VARIABLES,
            &at,
            problems,
        )
    });
    let mut named = |values: &std::collections::BTreeMap<String, String>, of: &str| {
        let values = values.iter().map(|(name, value)| {
            let at = at.key(of).key(name);
            if of == "headers" && !is_header(name) {
                let reason = "is no name of a header that a description may set";
                problems.push(Problem::new(at.clone(), reason).on_key());
            }
            let value = Value::from(value.as_str());
            (
                name.clone(),
                template(&value, &REQUEST_VARIABLES, &at, problems),
            )
        });
        values.collect::<Vec<_>>()
    };
    let query = named(&action.query, "query");
    let headers = named(&action.headers, "headers");
    let content = (!action.content.is_null()).then(|| {
        let at = at.key("content");
        template(&action.content, &REQUEST_VARIABLES, &at, problems)
    });
    let fails_when = action
        .fails_when
        .as_ref()
        .and_then(|when| condition(when, at.key("fails_when"), problems));
    CallForm {
        key: key.cloned().unwrap_or_default(),
        method,
        body,
        timeout: action.timeout,
        path,
        query,
        headers,
        content,
        fails_when,
        answers: rows(&action.answers, &at.key("answers"), problems),
        keep: keep(&action.keep, &at.key("keep"), problems),
    }
}

fn check_key(key: &KeyDefinition, at: &Path, problems: &mut Problems) {
    if let Some(header) = &key.header
        && !is_header(header)
    {
        problems.add(
            at.key("header"),
            "is no name of a header that a description may set",
        );
    }
    if key.field.as_ref().is_some_and(String::is_empty) {
        problems.add(at.key("field"), "is empty");
    }
    if let Some(length) = key.length {
        if !KEY_LENGTH.contains(&length) {
            let reason = format!(
                "{length} is not from {} to {}",
                KEY_LENGTH.start(),
                KEY_LENGTH.end()
            );
            problems.add(at.key("length"), reason);
        }
        if matches!(key.form, Some(KeyForm::AsIs | KeyForm::Uuid)) {
            problems.add(at.key("length"), "only `form: hash` has a length");
        }
    }
}

/// Why a path cannot be used, if it cannot.
fn wrong_path(path: &str) -> Option<String> {
    let outside = outside(path);
    let is_plain = |c: char| c.is_ascii_graphic() && !"?#\\\"<>^`{}|".contains(c);
    if !path.starts_with('/') || path.starts_with("//") {
        return Some("begins with one `/`: it is the path below the agent's `base_url`".to_owned());
    }
    if path.len() > MAX_PATH_BYTES {
        return Some(format!("is longer than {MAX_PATH_BYTES} bytes"));
    }
    if let Some(c) = outside.chars().find(|c| !is_plain(*c)) {
        let query = match c {
            '?' => ": the query has its own key, `query`",
            _ => ": write it percent-encoded",
        };
        return Some(format!("{c:?} cannot stand in a path{query}"));
    }
    let leads_away = |segment: &str| matches!(segment, "." | "..") || segment.contains("%2e");
    let lower = path.to_ascii_lowercase();
    lower
        .split('/')
        .any(leads_away)
        .then(|| "a segment is `.` or `..`, which leads to another path".to_owned())
}

/// A text without its `${ … }`.
fn outside(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some(start) = rest.find("${") {
        kept.push_str(&rest[..start]);
        match crate::template::closing_brace(&rest[start + 2..]) {
            Some(end) => rest = &rest[start + 2 + end + 1..],
            None => return kept,
        }
    }
    kept + rest
}

/// Whether a name is a token of HTTP, in any case, that a description may use.
fn is_header(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    !name.is_empty()
        && name.len() <= 64
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        && !NOT_HEADERS.contains(&&*lower)
        && !lower.starts_with("triad-")
}

fn template(value: &Value, variables: &[&str], at: &Path, problems: &mut Problems) -> Template {
    let compiled = bounds::check_nesting(value)
        .map_err(|e| e.to_string())
        .and_then(|()| Template::compiled_over(value, variables));
    compiled.unwrap_or_else(|reason| {
        problems.add(at.clone(), reason);
        Template::Constant(Value::Null)
    })
}

fn condition(source: &str, at: Path, problems: &mut Problems) -> Option<Expression> {
    if source.trim_start().starts_with("${") {
        let reason = "is one expression: write it without `${` and `}`";
        problems.add(at, reason);
        return None;
    }
    Expression::compiled_over(source, &ANSWER_VARIABLES)
        .map_err(|reason| problems.push(Problem::new(at, reason).on_text([source.to_owned()])))
        .ok()
}

fn rows(written: &[AnswerDefinition], at: &Path, problems: &mut Problems) -> Vec<AnswerRow> {
    let rows = written.iter().enumerate().map(|(index, row)| {
        let at = at.index(index);
        if row.status.is_null() && row.when.is_none() {
            let reason = "fits every answer: give it `status` or `when`";
            problems.add(at.clone(), reason);
        }
        AnswerRow {
            statuses: statuses(&row.status, &at.key("status"), problems),
            direction: row.direction,
            when: row
                .when
                .as_ref()
                .and_then(|when| condition(when, at.key("when"), problems)),
            means: row.means,
            code: row.code.as_ref().map(|code| {
                let at = at.key("code");
                template(
                    &Value::from(code.as_str()),
                    &ANSWER_VARIABLES,
                    &at,
                    problems,
                )
            }),
        }
    });
    rows.collect()
}

fn statuses(written: &Value, at: &Path, problems: &mut Problems) -> Vec<(u16, u16)> {
    let all = match written {
        Value::Null => return Vec::new(),
        Value::Array(all) => all.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut found = Vec::new();
    for one in all {
        match status(one) {
            Some(range) => found.push(range),
            None => {
                let reason = format!("{one} is no status");
                let hint = "write a number from 200 to 599, or `4xx`, or a list of them";
                problems.push(Problem::new(at.clone(), reason).hint(hint));
            }
        }
    }
    found
}

/// One status, or those that begin with its digits: `404`, `"404"`, `"40x"`, `"4xx"`.
fn status(written: &Value) -> Option<(u16, u16)> {
    let text = match written {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.to_ascii_lowercase(),
        _ => return None,
    };
    let digits = text.trim_end_matches('x');
    if text.len() != 3 || digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (least, most) = (text.replace('x', "0"), text.replace('x', "9"));
    let range: (u16, u16) = (least.parse().ok()?, most.parse().ok()?);
    (range.0 >= 200 && range.1 <= 599).then_some(range)
}

fn keep(written: &Value, at: &Path, problems: &mut Problems) -> Keep {
    let count = written.as_array().map_or(0, Vec::len) + written.as_object().map_or(0, |m| m.len());
    if count > MAX_KEPT {
        problems.add(
            at.clone(),
            format!("has {count} names; {MAX_KEPT} are allowed"),
        );
    }
    match written {
        Value::Null => Keep::All,
        Value::Array(names) => {
            let names = names.iter().enumerate().filter_map(|(index, name)| {
                let text = name.as_str().filter(|name| !name.is_empty());
                if text.is_none() {
                    problems.add(at.index(index), format!("{name} is no name of a field"));
                }
                text.map(str::to_owned)
            });
            Keep::Fields(names.collect())
        }
        Value::Object(values) => {
            let values = values.iter().map(|(name, value)| {
                let at = at.key(name);
                (
                    name.clone(),
                    template(value, &ANSWER_VARIABLES, &at, problems),
                )
            });
            Keep::Values(values.collect())
        }
        other => {
            problems.add(
                at.clone(),
                format!("{other} is no list of names and no mapping"),
            );
            Keep::All
        }
    }
}

impl ServiceDefinition {
    /// Names of the parts of an answer to an action that its step's output has; `None` if it has the whole answer.
    #[cfg(feature = "load")]
    pub(crate) fn kept(&self, action: &str) -> Option<Vec<&str>> {
        match &self.actions.get(action)?.keep {
            Value::Array(names) => Some(names.iter().filter_map(Value::as_str).collect()),
            Value::Object(values) => Some(values.keys().map(String::as_str).collect()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_work_is_told_with_its_place() {
        for (service, wanted) in [
            (
                json!({"key": {"length": 8}}),
                "key.length: 8 is not from 16 to 64",
            ),
            (
                json!({"key": {"form": "uuid", "length": 32}}),
                "key.length: only `form: hash`",
            ),
            (json!({"key": {"header": "Host"}}), "key.header: is no name"),
            (
                json!({"actions": {"a b": {}}}),
                "actions.a b: \"a b\" is not a valid action",
            ),
            (
                json!({"actions": {"a": {"path": "x"}}}),
                "actions.a.path: begins with one `/`",
            ),
            (
                json!({"actions": {"a": {"path": "//h/x"}}}),
                "actions.a.path: begins with one `/`",
            ),
            (
                json!({"actions": {"a": {"path": "/x?y=1"}}}),
                "the query has its own key",
            ),
            (
                json!({"actions": {"a": {"path": "/x/../y"}}}),
                "leads to another path",
            ),
            (
                json!({"actions": {"a": {"path": "/x/%2E%2e/y"}}}),
                "leads to another path",
            ),
            (
                json!({"actions": {"a": {"path": "/x/${details.id}"}}}),
                "unknown variable `details`",
            ),
            (
                json!({"actions": {"a": {"headers": {"content-length": "1"}}}}),
                "headers.content-length",
            ),
            (
                json!({"actions": {"a": {"headers": {"triad-order": "1"}}}}),
                "headers.triad-order",
            ),
            (
                json!({"actions": {"a": {"method": "GET", "content": {}}}}),
                "actions.a.content",
            ),
            (
                json!({"key": {"field": "id"}, "actions": {"a": {"method": "DELETE"}}}),
                "no JSON or form body",
            ),
            (
                json!({"actions": {"a": {"timeout": "0s"}}}),
                "actions.a.timeout",
            ),
            (
                json!({"actions": {"a": {"fails_when": "${body.ok}"}}}),
                "without `${` and `}`",
            ),
            (
                json!({"actions": {"a": {"keep": ["a", 7]}}}),
                "actions.a.keep[1]: 7 is no name",
            ),
            (
                json!({"answers": [{"status": 100, "means": "done"}]}),
                "answers[0].status: 100 is no status",
            ),
            (
                json!({"answers": [{"status": ["4x", "x"], "means": "done"}]}),
                "is no status",
            ),
            (json!({"answers": [{"means": "done"}]}), "fits every answer"),
            (
                json!({"actions": {"a": {"path": format!("/{}", "x".repeat(600))}}}),
                "longer than 512",
            ),
            (
                json!({"actions": {"a": {"content": "x".repeat(5_000)}}}),
                "4096 are allowed",
            ),
            (
                json!({"answers": [{"status": 404, "means": "done", "code": "x".repeat(5_000)}]}),
                "answers: has",
            ),
        ] {
            let read: ServiceDefinition =
                serde_json::from_value(service.clone()).expect("its form");
            let mut problems = Problems::default();
            check(&read, &Path::top(), &mut problems);
            let told: Vec<String> = problems.0.iter().map(ToString::to_string).collect();
            assert!(
                told.iter().any(|line| line.contains(wanted)),
                "{service}: {told:?}"
            );
        }
    }

    #[test]
    fn a_sound_description_has_no_problem() {
        let service = json!({
            "key": {"header": "PayPal-Request-Id", "length": 38},
            "answers": [{"status": "4xx", "when": "body.code == 'busy'", "means": "in-progress"}],
            "actions": {
                "charge": {"path": "/v1/charges/", "body": "form", "timeout": "5s", "keep": ["id"]},
                "refund": {"path": "/v1/charges/${input.id}/refund", "keep": {"id": "${body.id}"}},
                "find": {"method": "GET", "path": "/v1/charges", "query": {"key": "${key}"}}
            }
        });
        let read: ServiceDefinition = serde_json::from_value(service).expect("its form");
        let mut problems = Problems::default();
        check(&read, &Path::top(), &mut problems);
        assert!(problems.0.is_empty(), "{:?}", problems.0);
        assert_eq!(read.kept("charge"), Some(vec!["id"]));
        assert_eq!(read.kept("find"), None);
        assert_eq!(read.call("other").action.answers, read.answers);
    }
}
