//! One request to the operators' API, on behalf of the caller.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, COOKIE};
use http::{HeaderMap, HeaderValue, Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use triad_console::{Answers, Caller, Keys};

/// Prefix of every path of the API.
const ROOT: &str = "/v1/operate";

/// The caller: the headers of its request, and the keys that accept it.
#[derive(Clone)]
pub(crate) struct Asking {
    pub(crate) api: Arc<dyn Answers>,
    pub(crate) keys: Arc<dyn Keys>,
    pub(crate) headers: HeaderMap,
    pub(crate) caller: Caller,
}

/// An answer of the API: the result, or a problem (RFC 9457).
pub(crate) type ApiAnswer = Result<Value, Value>;

impl Asking {
    /// A caller with these headers. A browser's session is not passed on: it does not count here.
    pub(crate) fn new(
        api: Arc<dyn Answers>,
        keys: Arc<dyn Keys>,
        caller: Caller,
        sent: &HeaderMap,
    ) -> Self {
        let mut headers = sent.clone();
        headers.remove(COOKIE);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Self {
            api,
            keys,
            headers,
            caller,
        }
    }

    /// Sends a GET request.
    pub(crate) async fn get(&self, path: &str, query: &Query) -> ApiAnswer {
        self.send(
            Method::GET,
            format!("{ROOT}{path}{}", query.text()),
            Bytes::new(),
        )
        .await
    }

    /// Sends a POST request.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> ApiAnswer {
        self.send(
            Method::POST,
            format!("{ROOT}{path}"),
            body.to_string().into(),
        )
        .await
    }

    async fn send(&self, method: Method, target: String, body: Bytes) -> ApiAnswer {
        let request = Request::builder().method(method).uri(target).body(body);
        let mut request = request.map_err(|e| problem("bad-request", &e.to_string()))?;
        *request.headers_mut() = self.headers.clone();
        let answer = self.api.answer(request, Arc::clone(&self.keys)).await;
        let is_good = answer.status().is_success();
        let body = answer.into_body().collect().await;
        let body = body.map_err(|e| problem("internal", &format!("an answer broke off: {e}")))?;
        let said = serde_json::from_slice(&body.to_bytes());
        let said = said.map_err(|e| problem("internal", &format!("an answer is not JSON: {e}")))?;
        match is_good {
            true => Ok(said),
            false => Err(said),
        }
    }
}

/// A problem in the API's form.
pub(crate) fn problem(code: &str, detail: &str) -> Value {
    json!({"code": code, "detail": detail})
}

/// The query of a request.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(&'static str, String)>);

impl Query {
    /// Adds a parameter, if it has a value.
    pub(crate) fn with(mut self, name: &'static str, value: Option<impl ToString>) -> Self {
        self.0.extend(value.map(|value| (name, value.to_string())));
        self
    }

    fn text(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let mut query = form_urlencoded::Serializer::new("?".to_owned());
        for (name, value) in &self.0 {
            query.append_pair(name, value);
        }
        query.finish()
    }
}

/// Characters that a path segment keeps unencoded.
const KEPT: &percent_encoding::AsciiSet = &percent_encoding::NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Encodes a text as a path segment.
pub(crate) fn in_path(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, KEPT).to_string()
}
