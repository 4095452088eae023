//! One call with its request and answer, for people and for recordings.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, StatusCode, Url};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use triad_runtime::system::SystemClock;
use triad_runtime::{Call, CallNotes, Clock as _, Fault};
use triad_workflow::numbers;
use triad_workflow::service::CallForm;

use super::answer::{self, Received};
use super::evidence::Evidence;
use super::{Base, HttpService, not_sent};

/// Text in the place of a secret.
const HIDDEN: &str = "(hidden)";
/// Headers of an answer that are not recorded: they concern one connection or one moment, or may be secrets.
const NOT_RECORDED: [&str; 8] = [
    "connection",
    "content-encoding",
    "content-length",
    "date",
    "keep-alive",
    "set-cookie",
    "strict-transport-security",
    "transfer-encoding",
];

/// A call: its request, its answer, and its result for the agent. No secret is in it.
#[derive(Debug)]
pub struct Exchange {
    /// The request, if one could be made.
    pub request: Option<SentRequest>,
    /// The answer, if there is one.
    pub answer: Option<RecordedAnswer>,
    /// Why the answer cannot be recorded, for people. `None` if it can, or if there is no answer.
    pub not_recordable: Option<String>,
    /// What the answer means for the agent.
    pub result: Result<Value, Fault>,
}

/// A request as it was sent, without the headers of the agent's settings.
#[derive(Debug, Clone, Serialize)]
pub struct SentRequest {
    /// The method.
    pub method: String,
    /// The URL without user and password.
    pub url: String,
    /// Names and values of the headers, in order.
    pub headers: Vec<(String, String)>,
    /// The body as a text; empty if there is none.
    pub body: String,
}

/// An answer of a service as it came, in the form that is kept in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedAnswer {
    /// The status of HTTP.
    pub status: u16,
    /// Headers, by names in lower case. If a header came more than once, the last value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body: a text as it came, or a JSON object or list in place of its text.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub body: Value,
}

/// Request and answer of a call, noted while it is made.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    request: Option<SentRequest>,
    answer: Option<RecordedAnswer>,
    not_recordable: Option<String>,
}

impl Seen {
    /// Notes a request.
    pub(crate) fn request(&mut self, request: &Request, evidence: &Evidence) {
        let mut url = request.url().clone();
        // Fails only for a URL that cannot have a user, and such a URL is not called.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let body = request.body().and_then(|body| body.as_bytes());
        let body = String::from_utf8_lossy(body.unwrap_or_default()).into_owned();
        let headers = request.headers().iter().map(|(name, value)| {
            let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
            let text = match value.is_sensitive() {
                true => HIDDEN.to_owned(),
                false => evidence.masked(text),
            };
            (name.as_str().to_owned(), text)
        });
        self.request = Some(SentRequest {
            method: request.method().to_string(),
            url: evidence.masked(url.to_string()),
            headers: headers.collect(),
            body: evidence.masked(body),
        });
    }

    /// Notes an answer.
    pub(crate) fn answer(&mut self, received: &Received, evidence: &Evidence) {
        let headers = received.headers().iter().filter_map(|(name, value)| {
            let name = name.as_str().to_owned();
            let text = evidence.masked(value.to_str().ok()?.to_owned());
            (!NOT_RECORDED.contains(&name.as_str())).then_some((name, text))
        });
        self.not_recordable = received.not_recordable().map(str::to_owned);
        self.answer = Some(RecordedAnswer {
            status: received.status().as_u16(),
            headers: headers.collect(),
            body: recorded_body(evidence.masked(received.text())),
        });
    }
}

/// A body in the form of a recording: its JSON if that loses nothing of the text, else the text.
fn recorded_body(text: String) -> Value {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Value::Null;
    }
    let is_same = numbers::quoted(trimmed) == trimmed;
    let json = is_same
        .then(|| serde_json::from_str(trimmed).ok())
        .flatten();
    match json {
        Some(json @ (Value::Object(_) | Value::Array(_))) => json,
        _ => Value::String(text),
    }
}

impl HttpService {
    /// Makes one call as [`call`](triad_runtime::RemoteService::call) does, and returns its request, answer and result.
    pub async fn exchange(&self, call: Call<'_>) -> Exchange {
        let mut seen = Seen::default();
        let result = self
            .made(call, &CallNotes::default(), Some(&mut seen))
            .await;
        let Seen {
            request,
            answer,
            not_recordable,
        } = seen;
        Exchange {
            request,
            answer,
            not_recordable,
            result,
        }
    }
}

impl HttpService {
    /// The status that the service answers to `HEAD` of its base URL. Any status shows that the service can be reached.
    /// `None` for a service of AWS, where every call may have an effect.
    ///
    /// # Errors
    /// The fault of a call without an answer.
    pub async fn reach(&self, within: Duration) -> Result<Option<u16>, Fault> {
        let Base::Url(base, _) = &self.base else {
            return Ok(None);
        };
        let evidence = Evidence::of(Method::HEAD, base, &self.secrets);
        let client = self.clients.now(within).await?;
        let request = client.head(base.clone()).timeout(within);
        let answer = request.send().await.map_err(|e| evidence.unanswered(e))?;
        Ok(Some(answer.status().as_u16()))
    }

    /// Gets the credentials of a call. Returns false if the settings name none.
    ///
    /// # Errors
    /// The fault that a call would have because it cannot get its credentials.
    pub async fn credentials(&self, within: Duration) -> Result<bool, Fault> {
        match &self.base {
            Base::Url(_, Some(credentials)) => {
                let client = self.clients.now(within).await?;
                credentials.show(&client, within).await.map(|_| true)
            }
            Base::Url(_, None) => Ok(false),
            Base::Aws(aws) => aws.1.keys(within).await.map(|_| true),
        }
    }
}

impl RecordedAnswer {
    /// The bytes of the body.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        match &self.body {
            Value::Null => Vec::new(),
            Value::String(text) => text.clone().into_bytes(),
            json => json.to_string().into_bytes(),
        }
    }

    /// What the answer means as the answer to this call, by the call's description and not by an agent's settings.
    ///
    /// # Errors
    /// The fault of an answer that does not say that the work is done; [`Fault::Permanent`] if the description or the
    /// recording cannot be used.
    pub fn judged(&self, call: &Call<'_>) -> Result<Value, Fault> {
        let bad = |why: String| not_sent("bad-recording", why);
        let form = call.form.map(CallForm::compile).transpose();
        let form = form.map_err(|e| not_sent("bad-description", e.to_string()))?;
        let status = StatusCode::from_u16(self.status).map_err(|e| bad(e.to_string()))?;
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let name = HeaderName::try_from(name).map_err(|e| bad(e.to_string()))?;
            let value = HeaderValue::try_from(value).map_err(|e| bad(e.to_string()))?;
            headers.insert(name, value);
        }
        judged(
            call,
            form.as_ref(),
            Received::whole(status, headers, self.bytes()),
        )
    }
}

/// What an answer with these headers and this body, as they come from the network, means as the answer to this call, by
/// the call's description and not by an agent's settings. `is_broken`: the connection ended before the body did.
///
/// # Errors
/// The fault of an answer that does not say that the work is done; [`Fault::Permanent`] if the description cannot be
/// used.
pub fn judge(
    call: &Call<'_>,
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
    is_broken: bool,
) -> Result<Value, Fault> {
    let form = call.form.map(CallForm::compile).transpose();
    let form = form.map_err(|e| not_sent("bad-description", e.to_string()))?;
    judged(
        call,
        form.as_ref(),
        answer::received(status, headers, body, is_broken),
    )
}

fn judged(call: &Call<'_>, form: Option<&CallForm>, received: Received) -> Result<Value, Fault> {
    let url = Url::parse("http://recorded").map_err(|e| not_sent("bad-url", e.to_string()))?;
    let evidence = Evidence::of(Method::POST, &url, &[]);
    let now = UNIX_EPOCH + Duration::from_millis(SystemClock.now().0);
    answer::judge(call, form, &BTreeMap::new(), received, &evidence, now)
}
