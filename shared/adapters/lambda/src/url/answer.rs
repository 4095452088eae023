//! The answer to a request, in Lambda's form.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, SET_COOKIE};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

/// Most bytes of an answer in Lambda's JSON form, inclusive: 6 MiB, Lambda's limit of a payload.
pub const MAX_ANSWER_BYTES: usize = 6 * 1024 * 1024;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    status_code: u16,
    headers: BTreeMap<&'a str, String>,
    cookies: Vec<String>,
    body: String,
    is_base64_encoded: bool,
}

/// An answer in Lambda's form. A too large one is replaced by a problem.
pub(super) fn sent(answer: Response<Bytes>) -> Result<Box<RawValue>, serde_json::Error> {
    let sent = to_raw_value(&Answer::of(&answer))?;
    if sent.get().len() <= MAX_ANSWER_BYTES {
        return Ok(sent);
    }
    tracing::warn!(
        bytes = sent.get().len(),
        "an answer is too large to be sent"
    );
    let text = "the answer is larger than the 6 MB that can be sent: ask for less";
    let problem = problem(StatusCode::INTERNAL_SERVER_ERROR, "answer-too-large", text);
    to_raw_value(&Answer::of(&problem))
}

impl<'a> Answer<'a> {
    fn of(answer: &'a Response<Bytes>) -> Self {
        let mut headers = BTreeMap::<&str, String>::new();
        let mut cookies = Vec::new();
        for (name, value) in answer.headers() {
            // A header with other bytes has no form here; Triad's headers are texts.
            let Ok(value) = value.to_str() else { continue };
            if name == SET_COOKIE {
                cookies.push(value.to_owned());
                continue;
            }
            let told = headers.entry(name.as_str()).or_default();
            if !told.is_empty() {
                told.push_str(", ");
            }
            told.push_str(value);
        }
        let (body, is_base64_encoded) = match std::str::from_utf8(answer.body()) {
            Ok(text) => (text.to_owned(), false),
            Err(_) => (STANDARD.encode(answer.body()), true),
        };
        Self {
            status_code: answer.status().as_u16(),
            headers,
            cookies,
            body,
            is_base64_encoded,
        }
    }
}

/// The answer in place of the handler's.
pub(super) fn problem(status: StatusCode, code: &str, detail: &str) -> Response<Bytes> {
    let body = json!({"title": status.canonical_reason(), "status": status.as_u16(),
        "code": code, "detail": detail});
    let mut answer = Response::new(Bytes::from(body.to_string()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    let media = HeaderValue::from_static("application/problem+json");
    headers.insert(CONTENT_TYPE, media);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn told(answer: Response<Bytes>) -> Value {
        serde_json::from_str(sent(answer).unwrap().get()).unwrap()
    }

    #[test]
    fn status_headers_cookies_and_body_are_in_lambdas_form() {
        let answer = Response::builder()
            .status(303)
            .header("location", "/console/")
            .header("vary", "a")
            .header("vary", "b")
            .header("set-cookie", "a=1; Path=/")
            .header("set-cookie", "b=2")
            .body(Bytes::from("é"))
            .unwrap();
        let form = json!({"statusCode": 303, "headers": {"location": "/console/", "vary": "a, b"},
            "cookies": ["a=1; Path=/", "b=2"], "body": "é", "isBase64Encoded": false});
        assert_eq!(told(answer), form);
    }

    #[test]
    fn bytes_that_are_no_text_go_in_base64() {
        let answer = told(Response::new(Bytes::from_static(&[0xff, 0])));
        assert_eq!(answer["body"], "/wA=");
        assert_eq!(answer["isBase64Encoded"], true);
    }

    #[test]
    fn an_answer_above_the_limit_says_so_and_one_at_it_is_sent() {
        let of = |bytes: usize| told(Response::new(Bytes::from("x".repeat(bytes))));
        let around = sent(Response::default()).unwrap().get().len();
        let whole = of(MAX_ANSWER_BYTES - around);
        assert_eq!(whole["statusCode"], 200);
        let above = of(MAX_ANSWER_BYTES - around + 1);
        assert_eq!(above["statusCode"], 500);
        let body: Value = serde_json::from_str(above["body"].as_str().unwrap()).unwrap();
        assert_eq!(body["code"], "answer-too-large");
    }
}
