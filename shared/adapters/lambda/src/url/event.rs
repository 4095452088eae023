//! The event of a function URL, and its request.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::COOKIE;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use serde::Deserialize;

/// The event, without the fields that are not used (the client's address and the time).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    version: String,
    /// The path as sent, with its percent-encoding.
    raw_path: String,
    #[serde(default)]
    raw_query_string: String,
    /// Names in lower case; several values of a name are joined with commas.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Separate texts, which the headers do not contain.
    #[serde(default)]
    cookies: Vec<String>,
    request_context: RequestContext,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

#[derive(Deserialize)]
struct RequestContext {
    http: Http,
}

#[derive(Deserialize)]
struct Http {
    method: String,
}

/// Why [`parse_request`] has found no request that the handler could answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoRequest {
    /// The payload is not an event of a function URL; the text says why, for people.
    #[error("not an event of a function URL: {0}")]
    Event(String),
    /// The client has sent a request that cannot be taken; it should get this answer.
    #[error("{detail}")]
    Refused {
        /// The HTTP status of the answer: 413 for a body that is too large, otherwise 400.
        status: StatusCode,
        /// A stable word for programs.
        code: &'static str,
        /// What is wrong, for people.
        detail: &'static str,
    },
}

/// Reads the payload that Lambda hands over for a request to a function's URL. The body, decoded, may have
/// `most` bytes at most. Path and query are as they were sent.
///
/// # Errors
/// [`NoRequest::Event`] if the payload is not such an event in version 2.0. [`NoRequest::Refused`] if the
/// body is too large, or if the body, the method, the path, the query or a header has a form that cannot be
/// used.
///
/// ```
/// let event = br#"{"version": "2.0", "rawPath": "/a%2Fb", "rawQueryString": "x=1",
///     "requestContext": {"http": {"method": "GET"}}}"#;
/// let request = triad_lambda::parse_request(event, 1024).unwrap();
/// assert_eq!(request.uri(), "/a%2Fb?x=1");
/// assert!(triad_lambda::parse_request(b"{}", 1024).is_err());
/// ```
pub fn parse_request(payload: &[u8], most: usize) -> Result<Request<Bytes>, NoRequest> {
    let event: Event =
        serde_json::from_slice(payload).map_err(|e| NoRequest::Event(e.to_string()))?;
    match event.version.as_str() {
        "2.0" => event.request(most),
        other => Err(NoRequest::Event(format!(
            "its version is {other:?}, and not 2.0"
        ))),
    }
}

impl Event {
    fn request(self, most: usize) -> Result<Request<Bytes>, NoRequest> {
        let body = self.body.unwrap_or_default();
        let body = match self.is_base64_encoded {
            true => STANDARD
                .decode(body)
                .map_err(|_| bad("the body is not what its encoding says"))?,
            false => body.into_bytes(),
        };
        if body.len() > most {
            return Err(NoRequest::Refused {
                status: StatusCode::PAYLOAD_TOO_LARGE,
                code: "too-large",
                detail: "the body is larger than is taken here",
            });
        }
        let mut request = Request::new(Bytes::from(body));
        *request.method_mut() = Method::from_bytes(self.request_context.http.method.as_bytes())
            .map_err(|_| bad("the method is not valid"))?;
        *request.uri_mut() = uri(&self.raw_path, &self.raw_query_string)?;
        let headers = request.headers_mut();
        for (name, value) in &self.headers {
            let name =
                HeaderName::try_from(name).map_err(|_| bad("the name of a header is not valid"))?;
            headers.insert(name, header(value)?);
        }
        if !self.cookies.is_empty() {
            headers.insert(COOKIE, header(&self.cookies.join("; "))?);
        }
        Ok(request)
    }
}

fn uri(path: &str, query: &str) -> Result<Uri, NoRequest> {
    let text = match (path, query) {
        ("", "") => "/".to_owned(),
        (path, "") => path.to_owned(),
        (path, query) => format!("{path}?{query}"),
    };
    let uri: Uri = text
        .parse()
        .map_err(|_| bad("the path or the query is not valid"))?;
    // Absolute URLs are refused: they would name another server.
    match uri.authority().is_none() && uri.path().starts_with('/') {
        true => Ok(uri),
        false => Err(bad("the path is not valid")),
    }
}

fn header(value: &str) -> Result<HeaderValue, NoRequest> {
    HeaderValue::from_bytes(value.as_bytes()).map_err(|_| bad("the value of a header is not valid"))
}

fn bad(detail: &'static str) -> NoRequest {
    NoRequest::Refused {
        status: StatusCode::BAD_REQUEST,
        code: "bad-request",
        detail,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event() -> Value {
        json!({"version": "2.0", "rawPath": "/a%2Fb/%C3%A9", "rawQueryString": "x=1&x=%20",
            "cookies": ["a=1", "b=2; c"], "headers": {"host": "h", "accept": "a,b", "x-name": "é"},
            "requestContext": {"http": {"method": "POST", "path": "/a"}, "accountId": "anonymous"},
            "body": "aGU=", "isBase64Encoded": true})
    }

    fn request(event: &Value) -> Result<Request<Bytes>, NoRequest> {
        parse_request(event.to_string().as_bytes(), 2)
    }

    #[test]
    fn path_query_headers_cookies_and_body_are_what_was_sent() {
        let request = request(&event()).unwrap();
        assert_eq!(request.method(), Method::POST);
        assert_eq!(request.uri(), "/a%2Fb/%C3%A9?x=1&x=%20");
        let of = |name: &str| request.headers()[name].as_bytes();
        assert_eq!(of("cookie"), b"a=1; b=2; c");
        assert_eq!((of("accept"), of("x-name")), (&b"a,b"[..], "é".as_bytes()));
        assert_eq!(request.body(), "he");
    }

    #[test]
    fn what_a_browser_may_leave_out_may_be_missing() {
        let event = json!({"version": "2.0", "rawPath": "", "body": null,
            "requestContext": {"http": {"method": "GET"}}});
        let request = request(&event).unwrap();
        assert_eq!(request.uri(), "/");
        assert!(request.body().is_empty() && request.headers().is_empty());
    }

    #[test]
    fn what_a_client_sends_wrong_is_refused() {
        let changed = |name: &str, value: Value| {
            let mut event = event();
            event[name] = value;
            match request(&event) {
                Err(NoRequest::Refused { code, .. }) => Some(code),
                Ok(_) | Err(NoRequest::Event(_)) => None,
            }
        };
        for (name, value, code) in [
            ("body", json!("%"), "bad-request"),
            ("body", json!("aGVs"), "too-large"),
            ("rawPath", json!("/a b"), "bad-request"),
            ("rawPath", json!("//host/x y"), "bad-request"),
            ("rawPath", json!("http://host/"), "bad-request"),
            ("rawPath", json!("no-path"), "bad-request"),
            ("rawPath", json!("*"), "bad-request"),
            ("rawQueryString", json!("a b"), "bad-request"),
            ("headers", json!({"x y": "1"}), "bad-request"),
            ("headers", json!({"x": "1\n2"}), "bad-request"),
            ("cookies", json!(["a=\n"]), "bad-request"),
        ] {
            assert_eq!(changed(name, value.clone()), Some(code), "{name}: {value}");
        }
        let mut odd = event();
        odd["requestContext"]["http"]["method"] = "G T".into();
        assert!(matches!(request(&odd), Err(NoRequest::Refused { .. })));
    }

    #[test]
    fn an_event_of_another_kind_is_none() {
        let mut older = event();
        older["version"] = "1.0".into();
        for other in [
            json!({}),
            json!({"records": {}, "eventSource": "aws:kafka"}),
            json!([]),
            older,
        ] {
            assert!(
                matches!(request(&other), Err(NoRequest::Event(_))),
                "{other}"
            );
        }
    }
}
