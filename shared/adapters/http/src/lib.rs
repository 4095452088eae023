//! The generic HTTP agent: a remote service behind a base URL.
//!
//! Each call is one `POST <base>/<action>`, with the input as JSON body. The host comes only from the configuration:
//! a message chooses only the action, which is one path segment of letters, digits, `-` and `_`. Redirects are not
//! followed.
//!
//! docs/reference/service-contract.md has the classes of answers and the obligations of a service.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use reqwest::header::{DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, StatusCode, Url, redirect};
use serde_json::Value;
use triad_core::failure::ANSWERED;
use triad_core::message::MAX_OUTPUT_BYTES;
use triad_runtime::system::SystemClock;
use triad_runtime::{AnswerMeans, Call, CallNotes, Clock as _, Fault, RemoteService};
use triad_workflow::Millis;

mod tls;

pub use tls::client_builder;

/// Most bytes that are read of an answer's body.
const MAX_BODY_BYTES: usize = MAX_OUTPUT_BYTES * 2;
/// Characters that are kept of an answer that is not in the form of the contract.
const BEGINNING: usize = 500;
/// Shortest value of a header or a URL that counts as a secret: shorter ones are parts of many words.
const LEAST_SECRET: usize = 4;
/// Header of a call: milliseconds that the agent waits for the answer, from when it was sent.
pub const TIME_LEFT: &str = "triad-time-left-ms";
/// Header of a call: the moment until which the agent waits for the answer, by the clock of the agent's machine, in
/// RFC 3339 with milliseconds and in UTC.
pub const DEADLINE: &str = "triad-deadline";
/// Idle connections that are kept open to one host.
const IDLE_CONNECTIONS: usize = 64;

/// Settings of one HTTP agent.
///
/// Header values and the user information in a URL are secrets: neither `Debug` nor an error shows them.
#[derive(Clone)]
pub struct HttpSettings {
    /// Absolute `http` or `https` URL of the service. An action is one path segment below it. It
    /// may hold a user and a password, which are secrets.
    pub base_url: String,
    /// Longest single call, including connecting and reading the answer; the call's remaining time may end it sooner.
    pub call_timeout: Duration,
    /// Headers of every call, as name and value, such as an API key.
    pub headers: Vec<(String, String)>,
    /// The meanings of statuses (300 to 599) that this service uses in its own way. For the other statuses
    /// see docs/reference/service-contract.md.
    pub statuses: BTreeMap<u16, AnswerMeans>,
}

/// Why settings cannot be used. No secret is in it.
#[derive(Debug, thiserror::Error)]
pub enum HttpSettingsError {
    /// The `base_url` is not an absolute `http` or `https` URL.
    #[error("its base_url is not an http or https URL")]
    BaseUrl,
    /// The header with this name has a name or a value that HTTP does not allow.
    #[error("header {0:?} is not valid")]
    Header(String),
    /// No HTTP client can be made; the text says why.
    #[error("no HTTP client can be made: {0}")]
    Client(String),
    /// [`HttpSettings::statuses`] gives a meaning to this status, which is not from 300 to 599.
    #[error("{0} in its statuses is not from 300 to 599")]
    Status(u16),
}

impl fmt::Debug for HttpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("HttpSettings")
            .field("call_timeout", &self.call_timeout)
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}

/// A remote service that is called over HTTP: one `POST` a call. Clones share the connections.
#[derive(Clone)]
pub struct HttpService {
    client: Client,
    base: Url,
    call_timeout: Duration,
    statuses: BTreeMap<u16, AnswerMeans>,
    /// Secrets in calls, which are masked if a service's answer repeats them.
    secrets: Vec<String>,
}

impl fmt::Debug for HttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpService")
            .field("host", &self.base.host_str())
            .field("call_timeout", &self.call_timeout)
            .finish_non_exhaustive()
    }
}

impl HttpService {
    /// Makes the client; the service is not called yet. Connecting may take at most 2 s.
    ///
    /// # Errors
    /// [`HttpSettingsError::BaseUrl`], [`HttpSettingsError::Status`] or [`HttpSettingsError::Header`], by the
    /// setting that is wrong; [`HttpSettingsError::Client`] if no HTTP client can be made.
    pub fn new(settings: &HttpSettings) -> Result<Self, HttpSettingsError> {
        let wrong = || HttpSettingsError::BaseUrl;
        let mut base = Url::parse(&settings.base_url).map_err(|_| wrong())?;
        if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
            return Err(wrong());
        }
        base.path_segments_mut()
            .map_err(|()| wrong())?
            .pop_if_empty();
        let odd = settings.statuses.keys().find(|s| !(300..600).contains(*s));
        if let Some(status) = odd {
            return Err(HttpSettingsError::Status(*status));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            let bad = || HttpSettingsError::Header(name.clone());
            let name = reqwest::header::HeaderName::try_from(name).map_err(|_| bad())?;
            let mut value = HeaderValue::try_from(value).map_err(|_| bad())?;
            value.set_sensitive(true);
            headers.append(name, value);
        }
        let client = client_builder()
            .redirect(redirect::Policy::none())
            .connect_timeout(Duration::from_secs(2))
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .default_headers(headers)
            .build()
            .map_err(|e| HttpSettingsError::Client(e.to_string()))?;
        Ok(Self {
            client,
            call_timeout: settings.call_timeout,
            statuses: settings.statuses.clone(),
            secrets: secrets(settings, &base),
            base,
        })
    }

    fn url(&self, action: &str) -> Result<Url, Fault> {
        let plain = !action.is_empty()
            && action
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        let mut url = self.base.clone();
        match url.path_segments_mut() {
            Ok(mut path) if plain => path.push(action),
            _ => {
                return Err(permanent(
                    "bad-action",
                    format!("{action:?} is not an action"),
                ));
            }
        };
        Ok(url)
    }

    /// Code and message of an error answer: those of `{"error": {"code", "message"}}`, if it has that form, else the
    /// beginning of the answer.
    fn error_of(&self, status: StatusCode, body: &[u8]) -> (String, String) {
        let json: Value = serde_json::from_slice(body).unwrap_or_default();
        let error = &json["error"];
        let code = error["code"]
            .as_str()
            .map_or_else(|| format!("http-{}", status.as_u16()), str::to_owned);
        let message = error["message"].as_str().map_or_else(
            || format!("{status}{}", self.beginning(body)),
            str::to_owned,
        );
        (code, message)
    }

    /// The beginning of a body, in one line and behind [`ANSWERED`]; empty for an empty body. It may repeat the call,
    /// so secrets are masked.
    fn beginning(&self, body: &[u8]) -> String {
        let text = String::from_utf8_lossy(body);
        let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for secret in &self.secrets {
            text = text.replace(secret, "(hidden)");
        }
        match text.is_empty() {
            true => text,
            false => {
                let beginning: String = text.chars().take(BEGINNING).collect();
                format!("{ANSWERED}{beginning}")
            }
        }
    }
}

/// The values of headers and of the URL, and the words of these values, the longest first.
fn secrets(settings: &HttpSettings, base: &Url) -> Vec<String> {
    let values = settings.headers.iter().map(|(_, value)| &**value);
    let words = values.flat_map(|value| value.split(' ').chain([value]));
    let of_headers = words.chain(base.password()).map(str::to_owned);
    let asked = base.query_pairs().map(|(_, value)| value.into_owned());
    let all = of_headers.chain(asked);
    let mut all: Vec<String> = all.filter(|value| value.len() >= LEAST_SECRET).collect();
    all.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    all
}

/// Notes the address of a call: without user, password, query and fragment, which may be secrets.
fn note_request(url: &Url, notes: &CallNotes) {
    if !notes.is_read() {
        return;
    }
    notes.note("http.request.method", "POST");
    notes.note("url.template", url.path().to_owned());
    let Some(host) = url.host_str() else { return };
    notes.note("server.address", host.to_owned());
    let port = url.port_or_known_default();
    port.into_iter()
        .for_each(|port| notes.note("server.port", i64::from(port)));
    let port = url
        .port()
        .map_or_else(String::new, |port| format!(":{port}"));
    let shown = format!("{}://{host}{port}{}", url.scheme(), url.path());
    notes.note("url.full", shown);
}

impl RemoteService for HttpService {
    async fn call(&self, call: Call<'_>) -> Result<Value, Fault> {
        self.call_noting(call, &CallNotes::default()).await
    }

    async fn call_noting(&self, call: Call<'_>, notes: &CallNotes) -> Result<Value, Fault> {
        let url = self.url(call.action)?;
        note_request(&url, notes);
        let body =
            serde_json::to_vec(call.input).map_err(|e| permanent("bad-input", e.to_string()))?;
        let time_left = self.call_timeout.min(call.time_left.as_duration());
        let now = Duration::from_millis(SystemClock.now().0);
        let deadline = humantime::format_rfc3339_millis(UNIX_EPOCH + now + time_left);
        let mut request = self
            .client
            .post(url)
            .timeout(time_left)
            .header(TIME_LEFT, time_left.as_millis().to_string())
            .header(DEADLINE, deadline.to_string())
            .body(body);
        for (name, value) in contract_headers(&call) {
            request = request.header(name, value);
        }
        if let Some(trace) = call.traceparent {
            request = request.header("traceparent", trace);
        }
        let response = request.send().await.map_err(unanswered)?;
        let status = response.status();
        notes.note("http.response.status_code", i64::from(status.as_u16()));
        let retry_after = retry_after(response.headers());
        let mut body = Vec::new();
        let is_read = read(response, &mut body).await;
        if status.is_success() {
            is_read?;
            // An answer that cannot be used may stand for an effect: another call with the same key resolves that.
            return match body.is_empty() {
                true => Ok(Value::Null),
                false => serde_json::from_slice(&body).map_err(|e| {
                    let text = format!("{e}{}", self.beginning(&body));
                    transient("unusable-answer", text, None, true)
                }),
            };
        }
        let means = self.statuses.get(&status.as_u16()).copied();
        let means = means.unwrap_or_else(|| meaning(status));
        let (code, message) = self.error_of(status, &body);
        Err(refused(means, status, (code, message), retry_after))
    }
}

/// The headers that describe a call to a service, as names and values: `content-type`, `idempotency-key`,
/// `triad-order`, `triad-step`, `triad-direction`, `triad-attempt` and, only for a compensation, `triad-compensates`
/// with the idempotency key of the effect to compensate. [`TIME_LEFT`] and [`DEADLINE`], which say how long the agent
/// waits for the answer, and `traceparent` are not among them.
#[must_use]
pub fn contract_headers(call: &Call<'_>) -> Vec<(&'static str, String)> {
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        ("idempotency-key", call.idempotency_key.0.clone()),
        ("triad-order", call.order_id.to_string()),
        ("triad-step", call.step.to_string()),
        ("triad-direction", call.direction.to_string()),
        ("triad-attempt", call.attempt.to_string()),
    ];
    headers.extend(
        call.compensates
            .map(|key| ("triad-compensates", key.0.clone())),
    );
    headers
}

/// The fault of a call without an answer: it may have arrived, unless the connection failed.
fn unanswered(error: reqwest::Error) -> Fault {
    // The text gets into statuses and alerts; the URL may have a key in its query.
    let error = error.without_url();
    let code = if error.is_connect() {
        "connect"
    } else if error.is_timeout() {
        "call-timeout"
    } else {
        "no-answer"
    };
    let cause =
        std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
    transient(code, cause, None, !error.is_connect())
}

/// Meaning of an unsuccessful answer. `408`, `425`, `429` and every status other than `4xx` may pass; `401`, `403`
/// and `407` concern the caller; the other `4xx` are refusals. A `3xx` says nothing about the effect: the service may
/// have carried it out.
fn meaning(status: StatusCode) -> AnswerMeans {
    match status {
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
            AnswerMeans::MayPass
        }
        StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::PROXY_AUTHENTICATION_REQUIRED => AnswerMeans::CallerRefused,
        other if other.is_client_error() => AnswerMeans::Refused,
        _ => AnswerMeans::MayPass,
    }
}

/// The fault of an unsuccessful answer, with its code and its message.
fn refused(
    means: AnswerMeans,
    status: StatusCode,
    (code, message): (String, String),
    retry_after: Option<Millis>,
) -> Fault {
    match means {
        AnswerMeans::Refused => Fault::Permanent { code, message },
        AnswerMeans::CallerRefused => Fault::CallerRefused { code, message },
        AnswerMeans::MayPass => {
            // A service that answers 429 has not begun; after any other status the effect is in doubt.
            let maybe = status != StatusCode::TOO_MANY_REQUESTS;
            transient(&code, message, retry_after, maybe)
        }
    }
}

/// `Retry-After`: seconds, or a date compared with the answer's own `Date`, so that a difference of the clocks does
/// not matter (RFC 9110, section 10.2.3).
fn retry_after(headers: &HeaderMap) -> Option<Millis> {
    let text = |name| headers.get(name)?.to_str().ok();
    let asked = text(RETRY_AFTER)?;
    if let Ok(seconds) = asked.parse::<u64>() {
        return Some(Millis(seconds.saturating_mul(1000)));
    }
    let until = httpdate::parse_http_date(asked).ok()?;
    let now = httpdate::parse_http_date(text(DATE)?).ok()?;
    let wait = until.duration_since(now).unwrap_or_default();
    Some(Millis(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
}

/// Reads a body up to its bound. Bytes read before a fault are in `bytes`.
async fn read(mut response: reqwest::Response, bytes: &mut Vec<u8>) -> Result<(), Fault> {
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if bytes.len() + chunk.len() > MAX_BODY_BYTES => {
                return Err(permanent_but_applied(bytes.len() + chunk.len()));
            }
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => return Ok(()),
            Err(e) => {
                let text = e.without_url().to_string();
                return Err(transient("broken-answer", text, None, true));
            }
        }
    }
}

fn permanent_but_applied(bytes: usize) -> Fault {
    // A retry with the same key would get the same long answer; the Supervisor ends it.
    transient(
        "answer-too-long",
        format!("the answer has more than {bytes} bytes; {MAX_BODY_BYTES} are read"),
        None,
        true,
    )
}

fn permanent(code: &str, message: String) -> Fault {
    Fault::Permanent {
        code: code.to_owned(),
        message,
    }
}

fn transient(
    code: &str,
    message: String,
    retry_after: Option<Millis>,
    maybe_applied: bool,
) -> Fault {
    Fault::Transient {
        code: code.to_owned(),
        message,
        retry_after,
        maybe_applied,
    }
}

#[cfg(test)]
mod tests {
    use triad_core::OrderId;

    use super::*;

    fn settings(base_url: String) -> HttpSettings {
        HttpSettings {
            base_url,
            call_timeout: Duration::from_secs(5),
            headers: vec![("x-key".to_owned(), "hidden".to_owned())],
            statuses: BTreeMap::new(),
        }
    }

    #[test]
    fn neither_settings_nor_service_nor_error_shows_a_secret() {
        let good = settings("https://u:hidden@shop.example/?key=hidden".to_owned());
        let bad = settings("ftp://u:hidden@shop.example".to_owned());
        let service = HttpService::new(&good).expect("it is a URL");
        let error = HttpService::new(&bad).expect_err("it is no http URL");
        for shown in [
            format!("{good:?} {service:?}"),
            format!("{error} {error:?}"),
        ] {
            assert!(!shown.contains("hidden"), "{shown}");
        }
    }

    /// Accepts one call, which ends with its body `{}`, and sends this answer; returns the call.
    fn answering(answer: &'static [u8]) -> (std::net::SocketAddr, std::thread::JoinHandle<String>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let call = std::thread::spawn(move || {
            use std::io::{Read, Write};
            let (mut stream, _) = listener.accept().expect("a call");
            let mut seen = Vec::new();
            let mut next = [0; 1024];
            while !seen.ends_with(b"{}") {
                let read = stream.read(&mut next).expect("the call");
                seen.extend_from_slice(&next[..read]);
            }
            stream.write_all(answer).expect("it is read");
            String::from_utf8(seen).expect("text")
        });
        (address, call)
    }

    /// Calls a service with this much time; returns the result.
    async fn call(settings: &HttpSettings, time_left: Millis) -> Result<Value, Fault> {
        let key = triad_core::IdempotencyKey("k".to_owned());
        let call = Call {
            order_id: &OrderId::new("7").expect("an id"),
            step: &triad_workflow::StepId::new("pay").expect("a step"),
            direction: triad_core::Direction::Forward,
            idempotency_key: &key,
            compensates: None,
            action: "pay",
            input: &serde_json::json!({}),
            time_left,
            attempt: 1,
            traceparent: None,
        };
        let service = HttpService::new(settings).expect("it is a URL");
        service.call(call).await
    }

    #[tokio::test]
    async fn what_a_broken_answer_says_has_no_query_of_the_base_url() {
        let (address, asked) = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{");
        let settings = settings(format!("http://{address}/?key=hidden"));
        let shown = format!("{:?}", call(&settings, Millis(5_000)).await);
        assert!(shown.contains("broken-answer"), "{shown}");
        assert!(!shown.contains("hidden"), "{shown}");
        asked.join().expect("it has answered");
    }

    /// The agent's own bound is 5 s: the service gets the earlier of the two.
    #[tokio::test]
    async fn a_service_is_told_how_long_its_answer_is_waited_for() {
        for (time_left, told) in [(Millis(1_500), 1_500), (Millis(9_000), 5_000)] {
            let (address, asked) = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
            let before = SystemClock.now().0;
            let answer = call(&settings(format!("http://{address}")), time_left).await;
            let after = SystemClock.now().0;
            assert_eq!(answer, Ok(Value::Null));
            let asked = asked.join().expect("it has answered");
            let header = |name: &str| {
                let line = asked
                    .lines()
                    .find_map(|l| l.strip_prefix(&format!("{name}: ")));
                line.unwrap_or_else(|| panic!("{name} in {asked}"))
            };
            assert_eq!(header(TIME_LEFT), told.to_string());
            let deadline = humantime::parse_rfc3339(header(DEADLINE)).expect("RFC 3339");
            let deadline = deadline.duration_since(UNIX_EPOCH).expect("after 1970");
            let began = deadline.as_millis() as u64 - told;
            assert!(
                (before..=after).contains(&began),
                "{before} {began} {after}"
            );
        }
    }

    #[test]
    fn only_a_4xx_says_that_there_was_no_effect() {
        for code in (300..400).chain(500..1_000) {
            let status = StatusCode::from_u16(code).expect("a status");
            let fault = refused(meaning(status), status, Default::default(), None);
            let maybe = matches!(
                fault,
                Fault::Transient {
                    maybe_applied: true,
                    ..
                }
            );
            assert!(maybe, "{code}: {fault:?}");
        }
        for code in 400..500 {
            let status = StatusCode::from_u16(code).expect("a status");
            let fault = refused(meaning(status), status, Default::default(), None);
            let is_refusal = matches!(fault, Fault::Permanent { .. });
            let others = [401, 403, 407, 408, 425, 429];
            assert_eq!(is_refusal, !others.contains(&code), "{code}");
            let is_about_the_caller = matches!(fault, Fault::CallerRefused { .. });
            assert_eq!(
                is_about_the_caller,
                [401, 403, 407].contains(&code),
                "{code}"
            );
        }
    }

    #[tokio::test]
    async fn a_team_says_what_a_status_means_for_its_service() {
        let answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
        for (means, name) in [
            (None, "Permanent"),
            (Some(AnswerMeans::CallerRefused), "CallerRefused"),
            (Some(AnswerMeans::MayPass), "Transient"),
        ] {
            let (address, asked) = answering(answer);
            let mut settings = settings(format!("http://{address}"));
            settings.statuses = means.map(|means| (404, means)).into_iter().collect();
            let fault = call(&settings, Millis(5_000))
                .await
                .expect_err("it is a 404");
            assert!(format!("{fault:?}").starts_with(name), "{fault:?}");
            asked.join().expect("it has answered");
        }
        let mut wrong = settings("http://127.0.0.1:1".to_owned());
        wrong.statuses = BTreeMap::from([(204, AnswerMeans::Refused)]);
        let error = HttpService::new(&wrong).expect_err("204 is a success");
        assert!(error.to_string().contains("204"), "{error}");
    }

    /// An id is the same in headers and paths, with every character at every position.
    #[test]
    fn portable_ids_are_the_same_in_headers_and_paths() {
        let characters: Vec<char> = (1..=127).map(char::from).collect();
        let mut portable = 0;
        for first in &characters {
            for last in &characters {
                let Ok(id) = OrderId::new(format!("{first}{last}")) else {
                    continue;
                };
                if id.check_portable().is_err() {
                    continue;
                }
                portable += 1;
                let header = HeaderValue::from_str(id.as_str()).expect("it is a header's value");
                assert_eq!(header.to_str().expect("text").trim(), id.as_str());
                let url = format!("http://localhost/v1/orders/{id}?wait=1s");
                let url: Url = url.parse().expect("a URL");
                let path = url.path_segments().and_then(Iterator::last);
                assert_eq!(path, Some(id.as_str()));
            }
        }
        assert_eq!(portable, 62 * 70);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_on_the_answers_own_clock() {
        let of = |asked: &'static str, date: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static(asked));
            if let Some(date) = date {
                headers.insert(DATE, HeaderValue::from_static(date));
            }
            retry_after(&headers)
        };
        let date = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(of("120", None), Some(Millis(120_000)));
        assert_eq!(
            of("Sun, 06 Nov 1994 08:50:07 GMT", date),
            Some(Millis(30_000))
        );
        assert_eq!(of("Sun, 06 Nov 1994 08:00:00 GMT", date), Some(Millis(0)));
        assert_eq!(of("Sun, 06 Nov 1994 08:50:07 GMT", None), None);
        assert_eq!(of("soon", date), None);
    }
}
