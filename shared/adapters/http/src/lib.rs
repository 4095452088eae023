//! The generic HTTP agent: a remote service behind a base URL, or a function, a queue or a topic of AWS.
//!
//! Without a description a call is one `POST <base>/<action>`, with the input as JSON body; with one
//! ([`triad_workflow::service`]) it is what that says. The host comes only from the configuration: neither a message
//! nor a description can choose another. `307` and `308` are followed within the origin.
//!
//! docs/reference/service-contract.md has the meanings of answers and the obligations of a service.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, Url, redirect};
use serde_json::{Value, json};
use triad_core::Direction;
use triad_core::later::CALLBACK_TOKEN;
use triad_runtime::system::SystemClock;
use triad_runtime::{Call, CallNotes, Clock as _, Fault, RemoteService};
use triad_workflow::Millis;
use triad_workflow::service::{self, AnswerMeaning, Body, CallForm, CallRequest};

mod answer;
mod auth;
mod aws;
mod clients;
mod evidence;
mod exchange;
mod forms;
mod retry_after;
mod secret;
mod settings;
mod tls;

pub use auth::Auth;
pub use aws::AwsAccount;
#[cfg(feature = "aws")]
pub use aws::signed_form;
pub use clients::Tls;
pub use exchange::{Exchange, RecordedAnswer, SentRequest, judge};
pub use secret::SecretRef;
pub use settings::{Destination, HttpSettings, HttpSettingsError};
pub use tls::client_builder;

use auth::{Credentials, Shown, TOKEN_TIMEOUT};
use aws::Signer;
use aws::services::{AwsService, Kind};
use clients::Clients;
use evidence::Evidence;
use forms::Forms;

/// Shortest value of a header or a URL that counts as a secret: shorter ones are parts of many words.
const LEAST_SECRET: usize = 4;
/// Header of a call: milliseconds that the agent waits for the answer, from when it was sent.
pub const TIME_LEFT: &str = "triad-time-left-ms";
/// Header of a call: the moment until which the agent waits for the answer, by the clock of the agent's machine, in
/// RFC 3339 with milliseconds and in UTC.
pub const DEADLINE: &str = "triad-deadline";
/// Header of a call whose service may take the work now and finish it later: the URL to call back at, with the token.
const CALLBACK_URL: &str = "triad-callback-url";
/// Redirects that one call follows at most, inclusive.
const MAX_REDIRECTS: usize = 5;

/// A remote service that is called over HTTP: one request a call. Clones share the connections.
#[derive(Clone)]
pub struct HttpService {
    clients: Clients,
    base: Base,
    call_timeout: Duration,
    statuses: BTreeMap<u16, AnswerMeaning>,
    /// Where the service reaches Triad for its callbacks.
    callbacks: Option<Url>,
    /// The descriptions of actions, compiled.
    forms: Forms,
    /// Secrets in calls, which are masked if a service's answer repeats them.
    secrets: Vec<String>,
}

/// The service that is called, and the credentials for it.
#[derive(Clone)]
enum Base {
    Url(Url, Option<Credentials>),
    Aws(Arc<(AwsService, Signer)>),
}

impl fmt::Debug for HttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = match &self.base {
            Base::Url(base, _) => base.host_str().unwrap_or_default().to_owned(),
            Base::Aws(aws) => aws.0.to_string(),
        };
        f.debug_struct("HttpService")
            .field("host", &host)
            .field("call_timeout", &self.call_timeout)
            .finish_non_exhaustive()
    }
}

impl HttpService {
    /// Makes the client; the service is not called yet. Connecting may take at most 2 s.
    ///
    /// # Errors
    /// The variant of [`HttpSettingsError`] for the setting that is wrong; [`HttpSettingsError::Client`] if no HTTP
    /// client can be made.
    pub fn new(settings: &HttpSettings) -> Result<Self, HttpSettingsError> {
        let base = base(settings)?;
        for status in settings.statuses.keys() {
            if !(300..600).contains(status) {
                return Err(HttpSettingsError::Status(*status));
            }
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            let bad = || HttpSettingsError::Header(name.clone());
            let name = HeaderName::try_from(name).map_err(|_| bad())?;
            let mut value = HeaderValue::try_from(value).map_err(|_| bad())?;
            value.set_sensitive(true);
            headers.append(name, value);
        }
        Ok(Self {
            clients: Clients::new(headers, settings.tls.as_ref(), &settings.aws)?,
            call_timeout: settings.call_timeout,
            statuses: settings.statuses.clone(),
            callbacks: callbacks(settings)?,
            forms: Forms::default(),
            secrets: secrets(settings, &base),
            base,
        })
    }

    /// The request of a call to an HTTP service, without the headers that every call has and without credentials; and
    /// its method and URL for people.
    fn http_request(
        &self,
        client: &Client,
        base: &Url,
        (action, location): (&str, Option<&str>),
        made: CallRequest,
    ) -> Result<(RequestBuilder, Evidence), Fault> {
        let mut url = match (location, &made.path) {
            (Some(location), _) => at(base, location)?,
            (None, None) => below(base, action)?,
            (None, Some(path)) => {
                let mut url = base.clone();
                url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
                url
            }
        };
        if !made.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&made.query);
        }
        let method = Method::from_bytes(made.method.as_str().as_bytes()).unwrap_or(Method::POST);
        let evidence = Evidence::of(method.clone(), &url, &self.secrets);
        let mut request = client.request(method, url);
        for (name, value) in &made.headers {
            // A header that the value cannot be in was refused before anything is sent.
            let value = HeaderValue::try_from(value).map_err(|_| {
                not_sent("bad-input", format!("the value of {name:?} is no header"))
            })?;
            request = request.header(name, value);
        }
        let (kind, body) = match made.body {
            Body::None => (None, Vec::new()),
            Body::Json(value) => (
                Some("application/json"),
                serde_json::to_vec(&value).map_err(|e| not_sent("bad-input", e.to_string()))?,
            ),
            Body::Form(pairs) => {
                let mut form = form_urlencoded::Serializer::new(String::new());
                form.extend_pairs(&pairs);
                let kind = "application/x-www-form-urlencoded";
                (Some(kind), form.finish().into_bytes())
            }
            Body::Text(text) => (Some("text/plain; charset=utf-8"), text.into_bytes()),
        };
        if let Some(kind) = kind {
            if !made
                .headers
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
            {
                request = request.header("content-type", kind);
            }
            request = request.body(body);
        }
        Ok((request, evidence))
    }
}

/// The request of an action: by its description, else a POST of its input as JSON with the key in its header.
fn made(
    call: &Call<'_>,
    form: Option<&CallForm>,
    callback: Option<&Url>,
) -> Result<CallRequest, Fault> {
    let key = &call.idempotency_key.0;
    if call.location.is_some() {
        return Ok(CallRequest {
            method: service::Method::Get,
            path: None,
            query: Vec::new(),
            headers: Vec::new(),
            body: Body::None,
            timeout: None,
        });
    }
    match form {
        Some(form) => form
            .request(call.input, key, &callback_of(call, callback))
            .map_err(|e| not_sent("bad-input", e.to_string())),
        None => Ok(CallRequest {
            method: service::Method::Post,
            path: None,
            query: Vec::new(),
            headers: vec![("idempotency-key".to_owned(), key.clone())],
            body: Body::Json(call.input.clone()),
            timeout: None,
        }),
    }
}

/// How the service calls back, as descriptions see it: null if it has to finish the work at once.
fn callback_of(call: &Call<'_>, url: Option<&Url>) -> Value {
    match call.callback {
        None => Value::Null,
        Some(token) => json!({"token": token, "url": url.map(Url::as_str)}),
    }
}

/// Where a service reaches Triad for its callbacks.
fn callbacks(settings: &HttpSettings) -> Result<Option<Url>, HttpSettingsError> {
    let Some(text) = &settings.callback_url else {
        return Ok(None);
    };
    let url = Url::parse(text).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.map(Some).ok_or(HttpSettingsError::CallbackUrl)
}

/// The URL for the callback about a call.
fn callback_url(base: &Url, call: &Call<'_>) -> Option<Url> {
    let token = call.callback?;
    let mut url = base.clone();
    url.path_segments_mut().ok()?.pop_if_empty().extend([
        "v1",
        "orders",
        call.order_id.as_str(),
        "steps",
        call.step.as_str(),
    ]);
    url.query_pairs_mut().clear().append_pair("token", token);
    Some(url)
}

/// The URL of a place that the service has named itself: at its own scheme, host and port.
fn at(base: &Url, location: &str) -> Result<Url, Fault> {
    let url = base.join(location).ok();
    let own = url.filter(|url| url.origin() == base.origin());
    own.ok_or_else(|| {
        not_sent(
            "bad-location",
            format!("{location:?} is no place of the service"),
        )
    })
}

/// The URL of an action whose description has no path: one segment below the base.
fn below(base: &Url, action: &str) -> Result<Url, Fault> {
    let plain = !action.is_empty()
        && action
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    let mut url = base.clone();
    match url.path_segments_mut() {
        Ok(mut path) if plain => path.push(action),
        _ => {
            return Err(not_sent(
                "bad-action",
                format!("{action:?} is not an action"),
            ));
        }
    };
    Ok(url)
}

/// The service that the settings name, and the credentials for it.
fn base(settings: &HttpSettings) -> Result<Base, HttpSettingsError> {
    let (kind, name) = match &settings.destination {
        Destination::BaseUrl(text) => {
            let wrong = || HttpSettingsError::BaseUrl;
            let mut url = Url::parse(text).map_err(|_| wrong())?;
            if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
                return Err(wrong());
            }
            url.path_segments_mut()
                .map_err(|()| wrong())?
                .pop_if_empty();
            let credentials = |auth| Credentials::new(auth, &settings.aws);
            let credentials = settings.auth.as_ref().map(credentials).transpose()?;
            return Ok(Base::Url(url, credentials));
        }
        Destination::Lambda(name) => (Kind::Lambda, name),
        Destination::Sqs(name) => (Kind::Sqs, name),
        Destination::Sns(name) => (Kind::Sns, name),
    };
    for (setting, is_there) in [
        ("headers", !settings.headers.is_empty()),
        ("auth", settings.auth.is_some()),
        ("tls", settings.tls.is_some()),
    ] {
        if is_there {
            return Err(HttpSettingsError::BaseUrlAlone(setting));
        }
    }
    let service = AwsService::new(kind, name)?;
    let signer = Signer::new(&settings.aws, kind.name(), kind.name(), service.region())?;
    Ok(Base::Aws(Arc::new((service, signer))))
}

/// Follows a redirect that keeps method and body, to the same scheme, host and port. Any other one is the answer.
fn within_the_origin(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let keeps = matches!(attempt.status().as_u16(), 307 | 308);
    let from = attempt.previous().last();
    let is_near = from.is_some_and(|from| from.origin() == attempt.url().origin());
    match keeps && is_near && attempt.previous().len() <= MAX_REDIRECTS {
        true => attempt.follow(),
        false => attempt.stop(),
    }
}

/// The values of headers and of the URL, and the words of these values, the longest first.
fn secrets(settings: &HttpSettings, base: &Base) -> Vec<String> {
    let values = settings.headers.iter().map(|(_, value)| &**value);
    let words = values.flat_map(|value| value.split(' ').chain([value]));
    let mut all: Vec<String> = words.map(str::to_owned).collect();
    if let Base::Url(base, _) = base {
        all.extend(base.password().map(str::to_owned));
        all.extend(base.query_pairs().map(|(_, value)| value.into_owned()));
    }
    all.retain(|value| value.len() >= LEAST_SECRET);
    all.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    all
}

impl RemoteService for HttpService {
    async fn call(&self, call: Call<'_>) -> Result<Value, Fault> {
        self.call_noting(call, &CallNotes::default()).await
    }

    async fn call_noting(&self, call: Call<'_>, notes: &CallNotes) -> Result<Value, Fault> {
        self.made(call, notes, None).await
    }
}

impl HttpService {
    /// Makes a call. `seen` gets the request and the answer.
    async fn made(
        &self,
        call: Call<'_>,
        notes: &CallNotes,
        mut seen: Option<&mut exchange::Seen>,
    ) -> Result<Value, Fault> {
        let form = call
            .form
            .map(|form| self.forms.compiled(form))
            .transpose()?;
        let callback = self
            .callbacks
            .as_ref()
            .and_then(|base| callback_url(base, &call));
        let made = made(&call, form.as_deref(), callback.as_ref())?;
        let most = self.call_timeout.min(call.time_left.as_duration());
        let most = made
            .timeout
            .map_or(most, |timeout| most.min(timeout.as_duration()));
        let began = SystemClock.now();
        let left = || most.saturating_sub(SystemClock.now().since(began).as_duration());
        let client = self.clients.now(TOKEN_TIMEOUT.min(most / 2)).await?;
        let mut said = triad_headers(&call, form.as_deref());
        if call.direction == Direction::Forward {
            said.extend(callback.map(|url| (CALLBACK_URL, url.into())));
        }
        let trace = call.traceparent;
        said.extend(trace.map(|trace| ("traceparent", trace.to_owned())));
        let (request, mut evidence, shown, time_left) = match &self.base {
            Base::Url(base, credentials) => {
                let shown = match credentials {
                    Some(credentials) => Some(credentials.show(&client, left()).await?),
                    None => None,
                };
                let (mut request, evidence) =
                    self.http_request(&client, base, (call.action, call.location), made)?;
                let time_left = left();
                said.extend(until(time_left));
                for (name, value) in said {
                    request = request.header(name, value);
                }
                (request, evidence, shown, time_left)
            }
            Base::Aws(aws) => {
                let (service, signer) = &**aws;
                let keys = signer.keys(TOKEN_TIMEOUT.min(left() / 2)).await?;
                let time_left = left();
                if service.kind == Kind::Lambda {
                    // A message has no such headers, because it may be read at any time.
                    said.extend(until(time_left));
                }
                let asked = service.request(&call, form.as_deref(), made, said, &keys)?;
                let evidence = Evidence::of(Method::POST, &asked.url, &self.secrets);
                let request = client.post(asked.url).headers(asked.headers);
                let shown = Shown::Signature(Box::new(keys));
                (request.body(asked.body), evidence, Some(shown), time_left)
            }
        };
        let secrets = shown.as_ref().map_or_else(Vec::new, Shown::secrets);
        evidence.hide(secrets.clone());
        evidence.note(notes);
        let request = request.timeout(time_left).build();
        let mut request = request.map_err(|e| {
            let why = e.without_url();
            not_sent("bad-input", format!("the request cannot be made: {why}"))
        })?;
        if let Some(shown) = shown {
            shown.add(&mut request)?;
        }
        if let Some(seen) = &mut seen {
            seen.request(&request, &evidence);
        }
        let response = client.execute(request).await;
        let response = response.map_err(|e| evidence.unanswered(e))?;
        notes.note(
            "http.response.status_code",
            i64::from(response.status().as_u16()),
        );
        let status = response.status().as_u16();
        let mut received = answer::receive(response).await;
        if let Base::Aws(aws) = &self.base {
            received = aws.0.read(received);
        }
        if let Some(seen) = seen {
            seen.answer(&received, &evidence);
        }
        let (form, statuses) = (form.as_deref(), &self.statuses);
        let now = UNIX_EPOCH + Duration::from_millis(SystemClock.now().0);
        let answer = answer::judge(&call, form, statuses, received, &evidence, now);
        let is_refusal = status == 401 || matches!(answer, Err(Fault::CallerRefused { .. }));
        match &self.base {
            Base::Url(_, Some(credentials)) if is_refusal => credentials.refused(status, &secrets),
            Base::Aws(aws) if is_refusal => aws.1.refused(),
            _ => {}
        }
        answer
    }
}

/// The headers that describe a call to a service, as names and values: `content-type`, `idempotency-key`,
/// `triad-order`, `triad-step`, `triad-direction`, `triad-attempt` and, only for a compensation, `triad-compensates`
/// with the idempotency key of the effect to compensate; `triad-callback-token` if the service may call back. Without the
/// first two if the call has a description, which
/// says how both are sent. [`TIME_LEFT`] and [`DEADLINE`], which say how long the agent waits for the answer, and
/// `traceparent` are not among them.
#[must_use]
pub fn contract_headers(call: &Call<'_>) -> Vec<(&'static str, String)> {
    let form = call.form.and_then(|form| CallForm::compile(form).ok());
    let mut headers = match call.form {
        Some(_) => Vec::new(),
        None => vec![
            ("content-type", "application/json".to_owned()),
            ("idempotency-key", call.idempotency_key.0.clone()),
        ],
    };
    headers.extend(triad_headers(call, form.as_ref()));
    headers
}

/// The headers of Triad's own that say what a call is for. Keys have the form of the description.
fn triad_headers(call: &Call<'_>, form: Option<&CallForm>) -> Vec<(&'static str, String)> {
    let mut headers = vec![
        ("triad-order", call.order_id.to_string()),
        ("triad-step", call.step.to_string()),
        ("triad-direction", call.direction.to_string()),
        ("triad-attempt", call.attempt.to_string()),
    ];
    if call.direction == Direction::Forward {
        headers.extend(
            call.callback
                .map(|token| (CALLBACK_TOKEN, token.to_owned())),
        );
    }
    headers.extend(call.compensates.map(|key| {
        let key = form.map_or_else(|| key.0.clone(), |form| form.key(&key.0));
        ("triad-compensates", key)
    }));
    headers
}

/// Headers with how long the agent waits for the answer of a call that is made now, and until when.
fn until(time_left: Duration) -> [(&'static str, String); 2] {
    let now = Duration::from_millis(SystemClock.now().0);
    let deadline = humantime::format_rfc3339_millis(UNIX_EPOCH + now + time_left);
    [
        (TIME_LEFT, time_left.as_millis().to_string()),
        (DEADLINE, deadline.to_string()),
    ]
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// The fault of a call that was not made, because its request cannot be: it had no effect.
fn not_sent(code: &str, message: String) -> Fault {
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
            destination: Destination::BaseUrl(base_url),
            call_timeout: Duration::from_secs(5),
            headers: vec![("x-key".to_owned(), "hidden".to_owned())],
            auth: None,
            tls: None,
            aws: AwsAccount::default(),
            statuses: BTreeMap::new(),
            callback_url: None,
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
            form: None,
            repeats: false,
            callback: None,
            location: None,
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

    /// The agent's own bound is 5 s: the headers have the shorter of the two.
    #[tokio::test]
    async fn a_service_gets_the_time_that_its_answer_may_take() {
        for (time_left, wanted) in [(Millis(1_500), 1_500), (Millis(9_000), 5_000)] {
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
            let said: u64 = header(TIME_LEFT).parse().expect("a number");
            // The agent subtracts the time that it needed before it sent the call.
            assert!(
                (wanted - 1_000..=wanted).contains(&said),
                "{said} of {wanted}"
            );
            let deadline = humantime::parse_rfc3339(header(DEADLINE)).expect("RFC 3339");
            let deadline = deadline.duration_since(UNIX_EPOCH).expect("after 1970");
            let began = deadline.as_millis() as u64 - said;
            assert!(
                (before..=after).contains(&began),
                "{before} {began} {after}"
            );
        }
    }

    #[tokio::test]
    async fn a_team_says_what_a_status_means_for_its_service() {
        let answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
        for (means, name) in [
            (None, "Permanent"),
            (Some(AnswerMeaning::CallerRefused), "CallerRefused"),
            (Some(AnswerMeaning::MayPass), "Transient"),
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
        wrong.statuses = BTreeMap::from([(204, AnswerMeaning::Refused)]);
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
}
