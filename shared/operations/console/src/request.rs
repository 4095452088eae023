//! What the operators' API and a server beside it read of a request in the same way.

use axum::extract::RawPathParams;
use axum::extract::rejection::RawPathParamsRejection;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, Uri};
use serde::de::DeserializeOwned;
use triad_operator::operations::Problem;
use triad_workflow::numbers;

/// The decoded fields of a path, or why they cannot be decoded.
pub type InPath = Result<RawPathParams, RawPathParamsRejection>;

/// The fields of a request's path, percent-decoded once. What a field decodes to may hold `%`, and is not decoded
/// again.
///
/// # Errors
/// [`Problem`] `bad-path`: a `%` is not followed by two hexadecimal digits, or a field is not UTF-8.
pub fn in_path(uri: &Uri, fields: InPath) -> Result<RawPathParams, Problem> {
    let is_escape = |rest: &str| {
        let two = rest.as_bytes().get(..2);
        two.is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit))
    };
    if !uri.path().split('%').skip(1).all(is_escape) {
        let text = "a % in the path has to be followed by two hex digits";
        return Err(Problem::bad("bad-path", text));
    }
    fields.map_err(|e| Problem::bad("bad-path", format!("the path: {}", e.body_text())))
}

/// The token of the header `Authorization`; its scheme may be in upper or lower case (RFC 9110, section 11.1).
/// `None` if the header is missing, or has another scheme.
#[must_use]
pub fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    let is_bearer = scheme.eq_ignore_ascii_case(b"bearer ");
    is_bearer.then(|| token.trim_ascii())
}

/// Which of these media types, in lower case, the body has. A web page of another site cannot send JSON without
/// asking the server before (a CORS preflight), which the server refuses.
///
/// # Errors
/// [`Problem`] `unsupported-media-type` (415): there is no `Content-Type`, it is none of these, or there is a
/// `Content-Encoding`.
pub fn media(headers: &HeaderMap, known: &[&'static str]) -> Result<&'static str, Problem> {
    let told = headers.get(CONTENT_TYPE);
    let told = told.and_then(|told| told.to_str().ok()).unwrap_or_default();
    let told = told.split(';').next().unwrap_or_default().trim();
    let found = known.iter().find(|media| told.eq_ignore_ascii_case(media));
    let encoding = headers.get(CONTENT_ENCODING);
    match found {
        Some(found) if encoding.is_none_or(|encoding| encoding == "identity") => Ok(found),
        _ => {
            let known = known.join(" or ");
            let text = format!("Content-Type is {known}, without Content-Encoding");
            Err(Problem::new(415, "unsupported-media-type", text))
        }
    }
}

/// Reads a body that is JSON and whose numbers can all be kept.
///
/// # Errors
/// [`Problem`] with this status: `bad-body` if the body is not what it has to be, `number-out-of-range` if one of its
/// numbers would be rounded.
pub fn exact_json<T: DeserializeOwned>(body: &[u8], status: u16) -> Result<T, Problem> {
    let bad = |why: String| Problem::new(status, "bad-body", format!("the body: {why}"));
    let text = std::str::from_utf8(body).map_err(|e| bad(e.to_string()))?;
    if let Some(place) = numbers::altered(text) {
        let why = format!("the number at {place} would be rounded: send it as a text");
        return Err(Problem::new(status, "number-out-of-range", why));
    }
    serde_json::from_str(text).map_err(|e| bad(e.to_string()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_scheme_is_bearer_in_any_case() {
        let read = |value: &'static str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(value))]);
            bearer(&headers).map(<[u8]>::to_vec)
        };
        assert_eq!(read("Bearer abc").as_deref(), Some(&b"abc"[..]));
        assert_eq!(read("bEARER  abc ").as_deref(), Some(&b"abc"[..]));
        for other in ["Basic abc", "Bearer", "", "abc", "Bearerabc"] {
            assert_eq!(read(other), None);
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
