//! Receives answers up to a bound, decodes them, and judges what they mean.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::time::SystemTime;

use flate2::read::{DeflateDecoder, GzDecoder, ZlibDecoder};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use serde_json::{Map, Value, json};
use triad_core::Direction;
use triad_runtime::{Call, Fault};
use triad_workflow::numbers;
use triad_workflow::service::{Answer, AnswerMeaning, CallDirection, CallForm, LEFT_OUT};

use super::evidence::Evidence;
use super::retry_after::retry_after;
use super::transient;

/// Most bytes of an answer's body, before and after it is decompressed, inclusive: 1 MiB.
const MAX_BODY_BYTES: usize = 1024 * 1024;
/// Longest text of an answer that counts as a code, in bytes, inclusive.
const MAX_CODE_BYTES: usize = 64;

/// An answer as it was received.
pub(crate) struct Received {
    status: StatusCode,
    headers: HeaderMap,
    /// The body, decompressed, or as much of it as came.
    body: Vec<u8>,
    whole: Whole,
    /// What it says in the form of an AWS service; empty for an HTTP service.
    own: Own,
}

/// What an answer of an AWS service says beside its status. Each part overrides what HTTP says, and a description
/// overrides each part.
#[derive(Default)]
pub(crate) struct Own {
    pub means: Option<AnswerMeaning>,
    pub code: Option<String>,
    pub message: Option<String>,
    /// Whether the call may have had an effect, if the answer means that the error may pass.
    pub maybe_applied: Option<bool>,
}

/// Whether the whole body was received.
enum Whole {
    Yes,
    /// It is too long, or has a coding that cannot be decoded; the text is the reason, for people.
    Unreadable(String),
    /// The connection ended before the body did; the text is the reason.
    Broken(String),
}

impl Received {
    /// A whole answer with this body, which is decoded already.
    pub(crate) fn whole(status: StatusCode, headers: HeaderMap, body: Vec<u8>) -> Self {
        let whole = Whole::Yes;
        Self {
            status,
            headers,
            body,
            whole,
            own: Own::default(),
        }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Why a recording would not have the meaning of the answer, for people: the body is not whole, or AWS says in its
    /// own form what the answer means. `None` if a recording has it.
    pub(crate) fn not_recordable(&self) -> Option<&str> {
        match &self.whole {
            Whole::Yes => self
                .own
                .means
                .map(|_| "AWS answered with an error of its own"),
            Whole::Unreadable(why) | Whole::Broken(why) => Some(why),
        }
    }

    /// The body as a text.
    pub(crate) fn text(&self) -> String {
        text(&self.headers, &self.body)
    }

    /// The status and the body as a value.
    pub(crate) fn json(&self) -> (u16, Value) {
        (self.status.as_u16(), value(&self.headers, &self.body))
    }

    /// Whether all of the body came and can be read.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.whole, Whole::Yes)
    }

    /// The value of a header, if it is a text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Where the service wants to be asked, as path and query; `None` if it names nothing, or another service.
    fn location(&self, evidence: &Evidence) -> Option<String> {
        let asked = evidence.address()?;
        let url = asked.join(self.header("location")?).ok()?;
        let is_near = url.origin() == asked.origin();
        let query = url
            .query()
            .map_or_else(String::new, |query| format!("?{query}"));
        is_near.then(|| format!("{}{query}", url.path()))
    }

    /// The answer with what it says in its service's form, and with `body` in place of its own body if there is one.
    pub(crate) fn with(mut self, own: Own, body: Option<&Value>) -> Self {
        self.own = own;
        if let Some(body) = body {
            self.body = body.to_string().into_bytes();
            let json = HeaderValue::from_static("application/json");
            self.headers.insert(CONTENT_TYPE, json);
        }
        self
    }
}

/// Reads an answer.
pub(crate) async fn receive(mut response: reqwest::Response) -> Received {
    let (status, headers) = (response.status(), response.headers().clone());
    let mut body = Vec::new();
    // Bounded by the bytes that are read, and by the timeout of the call.
    let whole = loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > MAX_BODY_BYTES => break too_long(),
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => break Whole::Yes,
            Err(e) => break Whole::Broken(e.without_url().to_string()),
        }
    };
    take(status, headers, body, whole)
}

/// An answer with this body as it came from the network, before it is decoded. `is_broken`: the connection ended before
/// the body did.
pub(crate) fn received(
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
    is_broken: bool,
) -> Received {
    let whole = match is_broken {
        true => Whole::Broken("the connection ended".to_owned()),
        false => Whole::Yes,
    };
    take(status, headers, body, whole)
}

fn take(status: StatusCode, headers: HeaderMap, body: Vec<u8>, whole: Whole) -> Received {
    let (body, whole) = match whole {
        Whole::Yes => decoded(&headers, body),
        not => (body, not),
    };
    Received {
        status,
        headers,
        body,
        whole,
        own: Own::default(),
    }
}

fn too_long() -> Whole {
    Whole::Unreadable(format!("the answer has more than {MAX_BODY_BYTES} bytes"))
}

/// A body decoded, its last coding first (RFC 9110, section 8.4).
fn decoded(headers: &HeaderMap, mut body: Vec<u8>) -> (Vec<u8>, Whole) {
    let codings = headers.get_all(CONTENT_ENCODING).iter();
    let codings: Vec<String> = codings
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|coding| coding.trim().to_ascii_lowercase())
        .filter(|coding| !matches!(coding.as_str(), "" | "identity"))
        .collect();
    for coding in codings.iter().rev() {
        let decoded_body = match coding.as_str() {
            "gzip" | "x-gzip" => bounded(GzDecoder::new(body.as_slice())),
            // `deflate` means zlib; some services send deflate without the header of zlib.
            "deflate" => match bounded(ZlibDecoder::new(body.as_slice())) {
                Err(Some(_)) => bounded(DeflateDecoder::new(body.as_slice())),
                other => other,
            },
            other => Err(Some(format!("the coding {other:?} is not known"))),
        };
        match decoded_body {
            Ok(plain) => body = plain,
            Err(None) => return (body, too_long()),
            Err(Some(why)) => {
                return (
                    body,
                    Whole::Unreadable(format!("the answer cannot be decoded: {why}")),
                );
            }
        }
    }
    (body, Whole::Yes)
}

/// All that a decoder returns. The error has no text if that is too long.
fn bounded(decoder: impl std::io::Read) -> Result<Vec<u8>, Option<String>> {
    let mut plain = Vec::new();
    let read = decoder
        .take(MAX_BODY_BYTES as u64 + 1)
        .read_to_end(&mut plain);
    match read {
        Ok(_) if plain.len() > MAX_BODY_BYTES => Err(None),
        Ok(_) => Ok(plain),
        Err(e) => Err(Some(e.to_string())),
    }
}

/// The content type in lower case; empty if there is none.
fn content_type(headers: &HeaderMap) -> String {
    let kind = headers.get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok());
    kind.unwrap_or_default().to_ascii_lowercase()
}

/// A body as a text. A body that is not UTF-8 is read as ISO 8859-1 if the answer says so, else with replacement
/// characters.
fn text(headers: &HeaderMap, body: &[u8]) -> String {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let kind = content_type(headers);
    match std::str::from_utf8(body) {
        Ok(text) => text.to_owned(),
        Err(_) if kind.contains("8859-1") || kind.contains("windows-1252") => {
            body.iter().copied().map(char::from).collect()
        }
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    }
}

/// A body as a value: its JSON, or a text if it is not JSON, or null if it is empty.
fn value(headers: &HeaderMap, body: &[u8]) -> Value {
    let (kind, text) = (content_type(headers), text(headers, body));
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Value::Null;
    }
    // `200 OK` with the text `true` is a text, unless the answer says that it is JSON.
    let may_be_json = kind.is_empty() || kind.contains("json") || trimmed.starts_with(['{', '[']);
    // A number that cannot be read exactly becomes a text: its digits are kept.
    let json = may_be_json
        .then(|| serde_json::from_str(&numbers::quoted(trimmed)).ok())
        .flatten();
    json.unwrap_or(Value::String(text))
}

/// The headers as expressions see them. Values that are no text are left out.
fn header_values(headers: &HeaderMap) -> Value {
    let texts = headers.iter().filter_map(|(name, value)| {
        Some((name.as_str().to_owned(), Value::from(value.to_str().ok()?)))
    });
    Value::Object(texts.collect::<Map<_, _>>())
}

/// What an answer means for the agent: an output, or a fault. The first of these that gives a meaning decides: the
/// description's rows, the statuses of the configuration, the form of an AWS service, HTTP.
///
/// # Errors
/// The fault of an answer that does not say that the work is done. `now` is compared with a date in `Retry-After`.
pub(crate) fn judge(
    call: &Call<'_>,
    form: Option<&CallForm>,
    statuses: &BTreeMap<u16, AnswerMeaning>,
    received: Received,
    evidence: &Evidence,
    now: SystemTime,
) -> Result<Value, Fault> {
    let location = received.location(evidence);
    let Received {
        status,
        headers,
        body,
        whole,
        own,
    } = received;
    if let (true, Whole::Broken(why)) = (status.is_success(), &whole) {
        // The work may be done; another call under the same key gets the whole answer.
        let text = format!("{} answered {status}, and then: {why}", evidence.call());
        return Err(transient("broken-answer", text, None, true));
    }
    let mut answer = Answer {
        status: status.as_u16(),
        headers: Value::Null,
        body: match &whole {
            Whole::Yes => value(&headers, &body),
            Whole::Unreadable(why) | Whole::Broken(why) => json!({ LEFT_OUT: why }),
        },
    };
    let direction = match call.direction {
        Direction::Forward => CallDirection::Forward,
        Direction::Compensate => CallDirection::Compensate,
        Direction::Probe => CallDirection::Probe,
    };
    let judged = form.and_then(|form| {
        answer.headers = header_values(&headers);
        form.judged(&answer, direction, call.input)
    });
    let by_row = judged.as_ref().map(|judged| judged.means);
    let means = by_row
        .or_else(|| statuses.get(&answer.status).copied())
        .or(own.means)
        .unwrap_or_else(|| meaning(status, call));
    let is_action = call.direction != Direction::Compensate;
    let means = match means {
        AnswerMeaning::Accepted if call.callback.is_some() && is_action => {
            AnswerMeaning::InProgress
        }
        AnswerMeaning::Accepted => AnswerMeaning::Done,
        other => other,
    };
    let output = || match form {
        Some(form) => form.output(&answer, call.input),
        None => answer.body.clone(),
    };
    match (means, direction) {
        (AnswerMeaning::Done, CallDirection::Probe) if call.is_poll() => {
            return Ok(json!({"applied": true, "output": output()}));
        }
        (AnswerMeaning::Done, CallDirection::Probe) => {
            let is_answer = by_row.is_none() && answer.body["applied"].is_boolean();
            return Ok(match is_answer || form.is_none() {
                true => answer.body,
                false => json!({"applied": true, "output": output()}),
            });
        }
        (AnswerMeaning::Absent, CallDirection::Probe) => return Ok(json!({"applied": false})),
        (AnswerMeaning::Done, _) | (AnswerMeaning::Absent, CallDirection::Compensate) => {
            return Ok(output());
        }
        _ => {}
    }
    let (code, message) = said(&answer.body);
    let code = judged.and_then(|judged| judged.code).or(own.code).or(code);
    let message = own.message.or(message);
    let code = code.map(|code| evidence.masked(code));
    let code = code.unwrap_or_else(|| format!("http-{}", answer.status));
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind.map_or_else(String::new, |kind| format!(", {kind}"));
    let to = headers.get(LOCATION).and_then(|to| to.to_str().ok());
    let to = match to.filter(|_| status.is_redirection()) {
        // A query may have a secret.
        Some(to) => {
            let to = to.split(['?', '#']).next().unwrap_or_default();
            format!(", to {to:?}: mend the address in the agent's settings or description")
        }
        None => String::new(),
    };
    let answered = evidence.masked(format!("{} answered {status}{kind}{to}", evidence.call()));
    let is_refusal = matches!(means, AnswerMeaning::Refused | AnswerMeaning::Absent);
    let message = match message.map(|message| evidence.masked(message)) {
        // The text of a refusal is written for people, so it stands alone.
        Some(message) if is_refusal => message,
        Some(message) => format!("{message} ({answered})"),
        None => format!("{answered}{}", evidence.beginning(&body)),
    };
    let retry_after = retry_after(&headers, now);
    Err(match means {
        AnswerMeaning::CallerRefused => Fault::CallerRefused {
            code,
            message,
            maybe_applied: status.is_redirection(),
        },
        AnswerMeaning::InProgress => Fault::InProgress {
            code,
            message,
            retry_after,
            output: output(),
            location,
        },
        AnswerMeaning::MayPass => {
            // A service that answers 429 has not begun; after any other status the effect is in doubt.
            let maybe = own.maybe_applied;
            let maybe = maybe.unwrap_or(status != StatusCode::TOO_MANY_REQUESTS);
            transient(&code, message, retry_after, maybe)
        }
        AnswerMeaning::Refused
        | AnswerMeaning::Absent
        | AnswerMeaning::Done
        | AnswerMeaning::Accepted => Fault::Permanent { code, message },
    })
}

/// Meaning of an answer that neither a description nor the configuration judges. `409` to a call that repeats one
/// which may still be worked on is no refusal: services answer it for a key that is in use. A redirect that was not
/// followed is a wrong address.
///
/// A service that may finish its work later has taken it with `202`. Whether work in progress has failed is said by a
/// description alone: that a question is refused may have another reason.
fn meaning(status: StatusCode, call: &Call<'_>) -> AnswerMeaning {
    let may_finish_later = call.callback.is_some() && call.direction != Direction::Compensate;
    match status.as_u16() {
        202 if may_finish_later => AnswerMeaning::InProgress,
        200..=299 => AnswerMeaning::Done,
        408 | 425 | 429 => AnswerMeaning::MayPass,
        401 | 403 | 407 | 300..=399 => AnswerMeaning::CallerRefused,
        409 if call.repeats => AnswerMeaning::InProgress,
        400..=499 if call.is_poll() => AnswerMeaning::MayPass,
        400..=499 => AnswerMeaning::Refused,
        _ => AnswerMeaning::MayPass,
    }
}

/// Code and message of an answer in one of the usual forms: `{"error": {"code", "message"}}`, `{"code", "message"}`,
/// `{"error": "code"}`, or the problem details of RFC 9457.
fn said(body: &Value) -> (Option<String>, Option<String>) {
    let error = &body["error"];
    let is_code = |text: &&str| {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.:/".contains(&b);
        !text.is_empty() && text.len() <= MAX_CODE_BYTES && text.bytes().all(is_plain)
    };
    let inner = error["code"].as_str().map(str::to_owned);
    let number = error["code"].as_i64().map(|code| code.to_string());
    let around = [&body["code"], error].into_iter();
    let around = around.filter_map(Value::as_str).find(is_code);
    let code = inner.or(number).or_else(|| around.map(str::to_owned));
    let texts = [
        &error["message"],
        &body["message"],
        &body["detail"],
        &body["title"],
    ];
    let message = texts
        .into_iter()
        .filter_map(Value::as_str)
        .find(|text| !text.is_empty());
    (code, message.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use triad_core::{IdempotencyKey, OrderId};
    use triad_workflow::{Millis, StepId};

    use super::*;

    fn headers(kind: Option<&str>, codings: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(kind) = kind {
            headers.insert(CONTENT_TYPE, kind.parse().expect("a value"));
        }
        for coding in codings {
            headers.append(CONTENT_ENCODING, coding.parse().expect("a value"));
        }
        headers
    }

    #[test]
    fn http_says_what_an_answer_means_that_nothing_else_judges() {
        for code in 200..1_000 {
            let status = StatusCode::from_u16(code).expect("a status");
            let wanted = match code {
                200..=299 => AnswerMeaning::Done,
                300..=399 | 401 | 403 | 407 => AnswerMeaning::CallerRefused,
                408 | 425 | 429 | 500.. => AnswerMeaning::MayPass,
                400..=499 => AnswerMeaning::Refused,
                _ => AnswerMeaning::MayPass,
            };
            let order = OrderId::new("7").expect("an id");
            let step = StepId::new("book").expect("a name");
            let input = Value::Null;
            let key = IdempotencyKey("k".to_owned());
            let call = |direction, repeats, callback| Call {
                order_id: &order,
                step: &step,
                direction,
                idempotency_key: &key,
                compensates: None,
                action: "book",
                input: &input,
                form: None,
                repeats,
                callback,
                location: None,
                time_left: Millis(1),
                attempt: 1,
                traceparent: None,
            };
            let meaning =
                |direction, repeats, callback| meaning(status, &call(direction, repeats, callback));
            let (forward, back) = (Direction::Forward, Direction::Compensate);
            assert_eq!(meaning(forward, false, None), wanted, "{code}");
            let repeated = match code {
                409 => AnswerMeaning::InProgress,
                _ => wanted,
            };
            assert_eq!(
                meaning(forward, true, None),
                repeated,
                "{code} to a repeated call"
            );
            let taken = match code {
                202 => AnswerMeaning::InProgress,
                _ => wanted,
            };
            let token = Some("0a");
            assert_eq!(
                meaning(forward, false, token),
                taken,
                "{code} to a call that may be finished later"
            );
            assert_eq!(
                meaning(back, false, token),
                wanted,
                "{code} to a compensation"
            );
            let asked = match (code, taken) {
                (_, AnswerMeaning::Refused) => AnswerMeaning::MayPass,
                _ => taken,
            };
            assert_eq!(
                meaning(Direction::Probe, false, token),
                asked,
                "{code} to a question"
            );
        }
    }

    #[test]
    fn a_body_is_its_json_or_its_text() {
        let json = Some("application/json; charset=utf-8");
        let text = Some("text/plain");
        for (kind, body, wanted) in [
            (json, &b"{\"a\": 1}"[..], json!({"a": 1})),
            (None, b"{\"a\": 1}", json!({"a": 1})),
            (text, b" {\"a\": 1}", json!({"a": 1})),
            (json, b"\xef\xbb\xbf{\"a\": 1}", json!({"a": 1})),
            (json, b"true", json!(true)),
            (text, b"true", json!("true")),
            (json, b"OK", json!("OK")),
            (
                Some("text/html"),
                b"<p>Thank you</p>",
                json!("<p>Thank you</p>"),
            ),
            (
                Some("application/xml"),
                b"<b id='1'/>",
                json!("<b id='1'/>"),
            ),
            (
                Some("text/plain; charset=ISO-8859-1"),
                b"caf\xe9",
                json!("caf\u{e9}"),
            ),
            (text, b"caf\xe9", json!("caf\u{fffd}")),
            (json, b"", Value::Null),
            (json, b" \r\n", Value::Null),
            (Some("application/problem+json"), b"{}", json!({})),
            (
                json,
                b"{\"id\": 12345678901234567890123, \"n\": 7615917337495251231}",
                json!({"id": "12345678901234567890123", "n": 7_615_917_337_495_251_231_i64}),
            ),
        ] {
            assert_eq!(value(&headers(kind, &[]), body), wanted, "{kind:?}");
        }
    }

    #[test]
    fn codings_are_decoded_within_a_bound() {
        use flate2::Compression;
        use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
        use std::io::Write as _;
        let plain = b"{\"reference\": 7}";
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(plain).expect("it is in memory");
        let gzip = gzip.finish().expect("it is in memory");
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(plain).expect("it is in memory");
        let zlib = zlib.finish().expect("it is in memory");
        let mut bare = DeflateEncoder::new(Vec::new(), Compression::default());
        bare.write_all(plain).expect("it is in memory");
        let bare = bare.finish().expect("it is in memory");
        let mut twice = GzEncoder::new(Vec::new(), Compression::default());
        twice.write_all(&zlib).expect("it is in memory");
        let twice = twice.finish().expect("it is in memory");
        for (codings, body) in [
            (&["gzip"][..], gzip.clone()),
            (&["X-GZIP"], gzip.clone()),
            (&["deflate"], zlib.clone()),
            (&["deflate"], bare),
            (&["deflate, gzip"], twice.clone()),
            (&["deflate", "gzip"], twice),
            (&["identity"], plain.to_vec()),
        ] {
            let (body, whole) = decoded(&headers(None, codings), body);
            assert!(matches!(whole, Whole::Yes), "{codings:?}");
            assert_eq!(body, plain, "{codings:?}");
        }
        let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
        bomb.write_all(&vec![0; 64 << 20]).expect("it is in memory");
        let bomb = bomb.finish().expect("it is in memory");
        for (coding, body) in [("gzip", bomb), ("gzip", plain.to_vec()), ("br", gzip)] {
            let (body, whole) = decoded(&headers(None, &[coding]), body);
            assert!(matches!(whole, Whole::Unreadable(_)), "{coding}");
            assert!(body.len() <= MAX_BODY_BYTES);
        }
    }

    #[test]
    fn code_and_message_are_found_in_the_usual_forms() {
        for (body, code, message) in [
            (
                json!({"error": {"code": "declined", "message": "no"}}),
                Some("declined"),
                Some("no"),
            ),
            (json!({"error": {"code": 4001}}), Some("4001"), None),
            (
                json!({"code": "declined", "message": "no"}),
                Some("declined"),
                Some("no"),
            ),
            (
                json!({"error": "invalid_grant"}),
                Some("invalid_grant"),
                None,
            ),
            (json!({"error": "the card is not valid"}), None, None),
            (
                json!({"title": "Not enough", "detail": "7 is left"}),
                None,
                Some("7 is left"),
            ),
            (json!("no"), None, None),
            (Value::Null, None, None),
        ] {
            let found = said(&body);
            let found = (found.0.as_deref(), found.1.as_deref());
            assert_eq!(found, (code, message), "{body}");
        }
    }
}
