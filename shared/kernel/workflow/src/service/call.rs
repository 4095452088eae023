//! A description of an action, compiled: from a step's input to the request.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::form::CallForm;
use super::{BodyForm, KeyForm, Method};
use crate::duration::Millis;
use crate::expr::{EvalError, Scope};
use crate::template::{Template, TextPart};

/// What a part of a path may have unencoded: the unreserved characters of RFC 3986.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The header of the idempotency key unless a description names another one.
pub const KEY_HEADER: &str = "idempotency-key";
const DEFAULT_KEY_LENGTH: usize = 32;

/// A request as a description makes it of a step's input, without host.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRequest {
    /// The method.
    pub method: Method,
    /// The path below the service's base, encoded, beginning with `/`; `None`: the name of the action.
    pub path: Option<String>,
    /// Parameters of the query, not encoded.
    pub query: Vec<(String, String)>,
    /// Headers of the description, and that of the key, if a header carries it.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Body,
    /// Longest time of the call, if the description has one.
    pub timeout: Option<Millis>,
}

/// The body of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// No body.
    None,
    /// A value, sent as JSON.
    Json(Value),
    /// Names and values, sent as `application/x-www-form-urlencoded`.
    Form(Vec<(String, String)>),
    /// A text.
    Text(String),
}

/// Why there is no request for a step's input. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// An expression has no value.
    #[error("{0}")]
    Value(#[from] EvalError),
    /// A part of the path is empty, `.` or `..`, which would lead to another path; with its expression.
    #[error("the part `${{{0}}}` of the path is empty, `.` or `..`")]
    Path(String),
    /// The body is no object, so it can be no form, and has no field for the key.
    #[error("the body is not an object, as a form or a key in a field needs it")]
    NoObject,
    /// A value of the query or of a header is an object, or a list where none can be.
    #[error("the value of {0:?} is a list or an object")]
    NotPlain(String),
}

impl CallForm {
    /// The idempotency key in the form that the description names: the same for the same key.
    #[must_use]
    pub fn key(&self, key: &str) -> String {
        let digest = || Sha256::digest(key.as_bytes());
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let length = self.key.length.map(|length| length as usize);
        match (self.key.form, length) {
            (Some(KeyForm::AsIs), _) | (None, None) => key.to_owned(),
            (Some(KeyForm::Hash) | None, _) => {
                let mut all = hex(&digest());
                all.truncate(length.unwrap_or(DEFAULT_KEY_LENGTH));
                all
            }
            (Some(KeyForm::Uuid), _) => {
                let mut bytes = digest();
                // Version 8 and the variant of RFC 9562, section 5.8.
                bytes[6] = (bytes[6] & 0x0f) | 0x80;
                bytes[8] = (bytes[8] & 0x3f) | 0x80;
                let all = hex(&bytes[..16]);
                let (a, b, c) = (&all[..8], &all[8..12], &all[12..16]);
                format!("{a}-{b}-{c}-{}-{}", &all[16..20], &all[20..])
            }
        }
    }

    /// The request for a step's input under an idempotency key. `callback` is how the service calls back once it has
    /// finished the work: an object with `token` and `url`; null if it has to finish at once.
    ///
    /// # Errors
    /// [`RequestError`]; the input does not fit the description.
    pub fn request(
        &self,
        input: &Value,
        key: &str,
        callback: &Value,
    ) -> Result<CallRequest, RequestError> {
        let key = self.key(key);
        let scope = Scope::of([
            ("input", input),
            ("key", &Value::from(key.as_str())),
            ("callback", callback),
        ]);
        let path = self.path.as_ref().map(|path| encoded(path, &scope));
        let mut query = Vec::new();
        for (name, template) in &self.query {
            match template.render(&scope)? {
                Value::Array(items) => {
                    for item in &items {
                        query.extend(plain(name, item)?.map(|text| (name.clone(), text)));
                    }
                }
                one => query.extend(plain(name, &one)?.map(|text| (name.clone(), text))),
            }
        }
        let mut headers = Vec::new();
        for (name, template) in &self.headers {
            let value = plain(name, &template.render(&scope)?)?;
            headers.extend(value.map(|text| (name.clone(), text)));
        }
        let header = match (&self.key.header, &self.key.field) {
            (Some(header), _) => Some(header.as_str()),
            (None, Some(_)) => None,
            (None, None) => Some(KEY_HEADER),
        };
        headers.extend(header.map(|name| (name.to_owned(), key.clone())));
        let mut content = match &self.content {
            Some(template) if self.body != BodyForm::None => template.render(&scope)?,
            _ => input.clone(),
        };
        if let (Some(field), true) = (&self.key.field, self.body != BodyForm::None) {
            let fields = content.as_object_mut().ok_or(RequestError::NoObject)?;
            fields.insert(field.clone(), key.into());
        }
        let body = match (self.body, content) {
            (BodyForm::None, _) => Body::None,
            (BodyForm::Json, content) => Body::Json(content),
            (BodyForm::Text, Value::String(text)) => Body::Text(text),
            (BodyForm::Text, other) => Body::Text(other.to_string()),
            (BodyForm::Form, content) => {
                let fields = content.as_object().ok_or(RequestError::NoObject)?;
                let mut pairs = Vec::new();
                fields
                    .iter()
                    .for_each(|(name, value)| flatten(name.clone(), value, &mut pairs));
                Body::Form(pairs)
            }
        };
        Ok(CallRequest {
            method: self.method,
            path: path.transpose()?,
            query,
            headers,
            body,
            timeout: self.timeout,
        })
    }
}

/// A path with its expressions encoded.
fn encoded(path: &Template, scope: &Scope) -> Result<String, RequestError> {
    let Template::Text(parts) = path else {
        return match path.render(scope)? {
            Value::String(path) => Ok(path),
            other => Ok(other.to_string()),
        };
    };
    let mut whole = String::new();
    for part in parts {
        match part {
            TextPart::Text(text) => whole.push_str(text),
            TextPart::Value(expression) => {
                let source = || expression.source().to_owned();
                let value = expression.evaluate(scope)?;
                let text = plain(expression.source(), &value)?;
                let text = text.filter(|text| !matches!(text.as_str(), "" | "." | ".."));
                let text = text.ok_or_else(|| RequestError::Path(source()))?;
                whole.extend(utf8_percent_encode(&text, SEGMENT));
            }
        }
    }
    // Two parts side by side can make what neither is.
    let leads_away = whole
        .split('/')
        .any(|segment| matches!(segment, "." | ".."));
    match leads_away {
        true => Err(RequestError::Path(whole)),
        false => Ok(whole),
    }
}

/// A value as one text; `None` for null.
fn plain(name: &str, value: &Value) -> Result<Option<String>, RequestError> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Bool(_) | Value::Number(_) => Ok(Some(value.to_string())),
        Value::Array(_) | Value::Object(_) => Err(RequestError::NotPlain(name.to_owned())),
    }
}

/// The fields of a form: `a[b]` for the field of a field, `a[0]` for the element of a list; null is left out.
/// Bounded: an input has a bounded nesting.
fn flatten(name: String, value: &Value, pairs: &mut Vec<(String, String)>) {
    match value {
        Value::Null => {}
        Value::Object(fields) => fields
            .iter()
            .for_each(|(field, value)| flatten(format!("{name}[{field}]"), value, pairs)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(at, value)| flatten(format!("{name}[{at}]"), value, pairs)),
        Value::String(text) => pairs.push((name, text.clone())),
        Value::Bool(_) | Value::Number(_) => pairs.push((name, value.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form(action: Value, key: Value) -> CallForm {
        let definition = json!({"action": action, "key": key});
        let definition = serde_json::from_value(definition).expect("a description");
        CallForm::compile(&definition).expect("it is sound")
    }

    fn request(action: Value, input: Value) -> Result<CallRequest, RequestError> {
        form(action, json!(null)).request(&input, "7/pay/forward", &json!(null))
    }

    #[test]
    fn parts_of_the_input_are_encoded_for_their_place() {
        let action = json!({
            "method": "GET", "path": "/v1/cards/${input.card}/of-${input.n}",
            "query": {"q": "${input.text}", "tag": "${input.tags}", "none": "${input.none}"},
            "headers": {"x-shop": "shop ${input.n}"}
        });
        let input =
            json!({"card": "a/b c?ü", "n": 7, "text": "x&y", "tags": ["a", 2], "none": null});
        let made = request(action, input).expect("a request");
        assert_eq!(
            made.path.as_deref(),
            Some("/v1/cards/a%2Fb%20c%3F%C3%BC/of-7")
        );
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            made.query,
            [pair("q", "x&y"), pair("tag", "a"), pair("tag", "2")]
        );
        assert_eq!(
            made.headers,
            [pair("x-shop", "shop 7"), pair(KEY_HEADER, "7/pay/forward")]
        );
        assert_eq!(made.body, Body::None, "a GET has none");
    }

    #[test]
    fn a_part_cannot_leave_its_segment() {
        let path = |text: &str| json!({ "path": text });
        for part in ["..", ".", ""] {
            let made = request(path("/cards/${input.id}"), json!({ "id": part }));
            assert!(matches!(made, Err(RequestError::Path(_))), "{made:?}");
        }
        let joined = json!({"a": ".", "b": "."});
        let made = request(path("/cards/${input.a}${input.b}/x"), joined);
        assert!(matches!(made, Err(RequestError::Path(_))), "{made:?}");
        let kept = request(path("/cards/${input.id}"), json!({"id": "%2e%2e/x"}));
        let kept = kept.expect("it is encoded once more").path;
        assert_eq!(kept.as_deref(), Some("/cards/%252e%252e%2Fx"));
    }

    #[test]
    fn a_form_has_fields_of_fields_and_a_body_has_the_key() {
        let action = json!({"body": "form", "content": {
            "amount": "${input.amount}", "metadata": {"order": "${input.id}"}, "items": ["a", {"b": 1}], "no": null}});
        let key = json!({"field": "request_id", "form": "uuid"});
        let made =
            form(action, key).request(&json!({"amount": 20, "id": "A 7"}), "k", &json!(null));
        let made = made.expect("a request");
        let Body::Form(pairs) = made.body else {
            panic!("a form")
        };
        let names: Vec<&str> = pairs.iter().map(|(name, _)| &**name).collect();
        assert_eq!(
            names,
            [
                "amount",
                "items[0]",
                "items[1][b]",
                "metadata[order]",
                "request_id"
            ]
        );
        assert_eq!(made.headers, [], "the key is in its field alone");
        assert_eq!(pairs[4].1.len(), 36);
    }

    #[test]
    fn a_key_has_its_form_and_is_the_same_each_time() {
        let long = format!("{}/authorise/forward", "x".repeat(100));
        let of = |key: Value| form(json!({}), key).key(&long);
        assert_eq!(of(json!({})), long);
        assert_eq!(of(json!({"form": "as-is"})), long);
        assert_eq!(of(json!({"length": 38})).len(), 38);
        assert_eq!(of(json!({"form": "hash"})).len(), 32);
        let uuid = of(json!({"form": "uuid"}));
        assert_eq!(uuid, of(json!({"form": "uuid"})));
        assert_eq!(uuid.as_bytes()[14], b'8', "its version: {uuid}");
        assert!(
            b"89ab".contains(&uuid.as_bytes()[19]),
            "its variant: {uuid}"
        );
        assert_eq!(
            uuid.split('-').map(str::len).collect::<Vec<_>>(),
            [8, 4, 4, 4, 12]
        );
    }

    #[test]
    fn an_input_that_does_not_fit_is_refused_before_anything_is_sent() {
        for (action, input) in [
            (json!({"path": "/x/${input.id}"}), json!({})),
            (
                json!({"query": {"q": "${input.q}"}}),
                json!({"q": {"a": 1}}),
            ),
            (json!({"headers": {"x-a": "${input.a}"}}), json!({"a": [1]})),
            (json!({"body": "form"}), json!([1])),
        ] {
            assert!(request(action.clone(), input).is_err(), "{action}");
        }
    }
}
