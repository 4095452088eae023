//! Services of AWS that an agent calls in place of an HTTP service: a Lambda function, an SQS queue, an SNS topic.
//!
//! A call is one signed request of the service's own API. The names and values that an HTTP service gets as headers are
//! in `custom` of a function's client context, or are a message's attributes.
//!
//! Sources: AWS Lambda API Reference, "Invoke"; Amazon SQS API Reference, "SendMessage" (JSON protocol); Amazon SNS API
//! Reference, "Publish" (query protocol); and their "Common Errors".

use std::fmt;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use triad_core::Direction;
use triad_runtime::{Call, Fault};
use triad_workflow::service::{AnswerMeaning, Body, CallForm, CallRequest};

use super::{Keys, region_of};
use crate::answer::{Own, Received};
use crate::{HttpSettingsError, base64, not_sent};

/// Largest payload of a function, in bytes, inclusive: 6 MB.
const MAX_PAYLOAD: usize = 6 * 1024 * 1024;
/// Longest client context of a function, encoded, in bytes, inclusive.
const MAX_CONTEXT: usize = 3_583;
/// Most attributes of a message, inclusive: as many as SQS takes from SNS.
const MAX_ATTRIBUTES: usize = 10;
/// Longest group and deduplication id of a FIFO queue or topic, in bytes, inclusive.
const MAX_ID: usize = 128;
/// Longest code of an error, in characters; the rest is cut off.
const MAX_CODE: usize = 64;

/// One of the three services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A Lambda function.
    Lambda,
    /// An SQS queue.
    Sqs,
    /// An SNS topic.
    Sns,
}

/// A function, a queue or a topic.
#[derive(Debug, Clone)]
pub(crate) struct AwsService {
    pub(crate) kind: Kind,
    /// Name or ARN of the function, URL of the queue, ARN of the topic.
    name: String,
    /// Scheme, host and port of a queue's URL.
    origin: Option<Url>,
}

/// A request as AWS takes it, without its signature.
pub(crate) struct AwsRequest {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl fmt::Display for AwsService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.name)
    }
}

impl Kind {
    /// Its name in settings, signatures and hosts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lambda => "lambda",
            Self::Sqs => "sqs",
            Self::Sns => "sns",
        }
    }

    /// Its id in the SDK, by which the configuration names its endpoint.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Lambda => "Lambda",
            Self::Sqs => "SQS",
            Self::Sns => "SNS",
        }
    }
}

impl AwsService {
    /// A function by name or ARN, with a version or an alias behind a colon if there is one; a queue by URL; a topic
    /// by ARN.
    ///
    /// # Errors
    /// [`HttpSettingsError::Destination`] if the text is none.
    pub(crate) fn new(kind: Kind, name: &str) -> Result<Self, HttpSettingsError> {
        let plain = |extra: &'static [u8]| {
            let is_plain = move |b: u8| b.is_ascii_alphanumeric() || extra.contains(&b);
            !name.is_empty() && name.len() <= 256 && name.bytes().all(is_plain)
        };
        let bad = |form| Err(HttpSettingsError::Destination(kind.name(), form));
        let mut origin = None;
        match kind {
            Kind::Lambda if !plain(b"-_:.$") => {
                return bad("is not the name or the ARN of a function");
            }
            Kind::Sns if !plain(b"-_:.") || !name.starts_with("arn:") => {
                return bad("is not the ARN of a topic");
            }
            Kind::Sqs => {
                let url = Url::parse(name).ok();
                let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
                let segments = |url: &Url| url.path_segments().map_or(0, Iterator::count);
                let url = url.filter(|url| url.has_host() && segments(url) >= 2);
                let url = url.filter(|url| url.username().is_empty() && url.password().is_none());
                let Some(mut url) = url else {
                    return bad(
                        "is not the URL of a queue, https://sqs.REGION.amazonaws.com/ACCOUNT/NAME",
                    );
                };
                url.set_path("/");
                url.set_query(None);
                url.set_fragment(None);
                origin = Some(url);
            }
            Kind::Lambda | Kind::Sns => {}
        }
        Ok(Self {
            kind,
            name: name.to_owned(),
            origin,
        })
    }

    /// The region in its ARN or URL; `None` if they have none, and then it is that of the account.
    pub(crate) fn region(&self) -> Option<String> {
        match &self.origin {
            None => region_of(&self.name),
            Some(origin) => {
                let mut parts = origin.host_str()?.split('.');
                let is_sqs = parts.next() == Some("sqs");
                parts
                    .next()
                    .filter(|_| is_sqs && parts.next() == Some("amazonaws"))
                    .map(str::to_owned)
            }
        }
    }

    /// The request of a call. `made` is the request that the description makes from the input, and `said` has the names
    /// and values that an HTTP service gets as Triad's headers. The endpoint is that of the configuration, else the
    /// queue's own, else AWS's in the region of the keys.
    ///
    /// # Errors
    /// The fault of a call that was not made: a probe of a queue or a topic, which cannot answer it; a description with
    /// a path or a query; or a content or headers that AWS does not take.
    pub(crate) fn request(
        &self,
        call: &Call<'_>,
        form: Option<&CallForm>,
        made: CallRequest,
        said: Vec<(&'static str, String)>,
        keys: &Keys,
    ) -> Result<AwsRequest, Fault> {
        if made.path.is_some() || !made.query.is_empty() {
            let text = format!(
                "the description of {} has a path or a query, which {self} cannot have: remove them",
                call.action
            );
            return Err(refused("bad-description", text));
        }
        let own = [("triad-action", call.action.to_owned())];
        let said = said.into_iter().chain(own);
        let said = said.map(|(name, value)| (name.to_owned(), value));
        let said: Vec<_> = made.headers.into_iter().chain(said).collect();
        let key = &call.idempotency_key.0;
        let key = &form.map_or_else(|| key.clone(), |form| form.key(key));
        let (body, region, endpoint) = (made.body, keys.region(), keys.endpoint(self.kind.id()));
        if self.kind != Kind::Lambda && call.direction == Direction::Probe {
            let text =
                format!("{self} cannot say whether an effect happened: a message has no answer");
            return Err(not_sent("no-probe", text));
        }
        let bad = |text: String| not_sent("bad-input", text);
        let domain = match region.starts_with("cn-") {
            true => "amazonaws.com.cn",
            false => "amazonaws.com",
        };
        let own = format!("https://{}.{region}.{domain}/", self.kind.name());
        let endpoint = endpoint.or_else(|| self.origin.clone());
        let mut url = match endpoint {
            Some(url) => url,
            None => Url::parse(&own).map_err(|e| bad(format!("{own}: {e}")))?,
        };
        let mut headers = HeaderMap::new();
        let mut add = |name: &'static str, value: &str| {
            let value = HeaderValue::try_from(value).map_err(|e| bad(e.to_string()))?;
            headers.insert(name, value);
            Ok::<_, Fault>(())
        };
        let body = match self.kind {
            Kind::Lambda => {
                let path = url.path().trim_end_matches('/').to_owned();
                let name = self.name.replace(':', "%3A").replace('$', "%24");
                url.set_path(&format!("{path}/2015-03-31/functions/{name}/invocations"));
                add("content-type", "application/json")?;
                let custom: Map<String, Value> = said
                    .into_iter()
                    .map(|(name, value)| (name, value.into()))
                    .collect();
                let context = base64(json!({"custom": custom}).to_string().as_bytes());
                if context.len() > MAX_CONTEXT {
                    let text = "the headers of the description make the client context of the function longer";
                    return Err(bad(format!("{text} than {MAX_CONTEXT} bytes")));
                }
                add("x-amz-client-context", &context)?;
                let payload = match body {
                    Body::None => json!({}),
                    Body::Json(value) => value,
                    text => Value::String(plain(text)),
                };
                let payload = payload.to_string().into_bytes();
                if payload.len() > MAX_PAYLOAD {
                    let text = "the content is larger than a function takes";
                    return Err(bad(format!("{text}: {MAX_PAYLOAD} bytes at most")));
                }
                payload
            }
            Kind::Sqs => {
                add("content-type", "application/x-amz-json-1.0")?;
                add("x-amz-target", "AmazonSQS.SendMessage")?;
                let attributes = attributes(said)?.into_iter().map(|(name, value)| {
                    (name, json!({"DataType": "String", "StringValue": value}))
                });
                let mut message = json!({
                    "QueueUrl": self.name, "MessageBody": plain(body),
                    "MessageAttributes": attributes.collect::<Map<_, _>>(),
                });
                for (name, value) in self.ids(call, key) {
                    message[name] = value.into();
                }
                message.to_string().into_bytes()
            }
            Kind::Sns => {
                add("content-type", "application/x-www-form-urlencoded")?;
                let mut form = form_urlencoded::Serializer::new(String::new());
                form.append_pair("Action", "Publish")
                    .append_pair("Version", "2010-03-31")
                    .append_pair("TopicArn", &self.name)
                    .append_pair("Message", &plain(body));
                for (at, (name, value)) in attributes(said)?.iter().enumerate() {
                    let entry = format!("MessageAttributes.entry.{}", at + 1);
                    form.append_pair(&format!("{entry}.Name"), name)
                        .append_pair(&format!("{entry}.Value.DataType"), "String")
                        .append_pair(&format!("{entry}.Value.StringValue"), value);
                }
                form.extend_pairs(self.ids(call, key));
                form.finish().into_bytes()
            }
        };
        Ok(AwsRequest { url, headers, body })
    }

    /// Group id and deduplication id of a message for a FIFO queue or topic: the order's id and the idempotency key.
    /// None for another queue or topic.
    fn ids(&self, call: &Call<'_>, key: &str) -> Vec<(&'static str, String)> {
        match self.name.ends_with(".fifo") {
            true => vec![
                ("MessageGroupId", id(call.order_id.as_str())),
                ("MessageDeduplicationId", id(key)),
            ],
            false => Vec::new(),
        }
    }

    /// The answer with what it says in the service's own form. The answer of a queue or topic becomes
    /// `{"message_id", …}`, and an error of AWS itself `{"code", "message"}`.
    pub(crate) fn read(&self, received: Received) -> Received {
        let (status, value) = received.json();
        let is_good = (200..300).contains(&status);
        if !received.is_whole() {
            return received;
        }
        if is_good && self.kind == Kind::Lambda {
            return match received.header("x-amz-function-error") {
                None => received,
                Some(_) => {
                    let text = |name: &str| value[name].as_str().filter(|text| !text.is_empty());
                    let own = Own {
                        means: Some(AnswerMeaning::MayPass),
                        code: Some(code(text("errorType").unwrap_or("function-error"))),
                        message: text("errorMessage").map(str::to_owned),
                        maybe_applied: Some(true),
                    };
                    received.with(own, None)
                }
            };
        }
        let xml = value.as_str().unwrap_or_default();
        let part = |json: &str, tag: &str| {
            let of_json = value[json].as_str().map(str::to_owned);
            of_json.or_else(|| element(xml, tag))
        };
        if is_good {
            let mut output = json!({"message_id": part("MessageId", "MessageId")});
            if let Some(number) = part("SequenceNumber", "SequenceNumber") {
                output["sequence_number"] = number.into();
            }
            return received.with(Own::default(), Some(&output));
        }
        let named = received.header("x-amzn-errortype").map(str::to_owned);
        let named = named.or_else(|| part("__type", "Code"));
        // `com.amazonaws.sqs#QueueDoesNotExist`, `ThrottlingException:http://…`
        let named = named.unwrap_or_default();
        let named = named.rsplit('#').next().unwrap_or_default();
        let named = named.split(':').next().unwrap_or_default();
        let message = part("message", "Message").or_else(|| part("Message", "Message"));
        let own = Own {
            means: meaning(named),
            code: (!named.is_empty()).then(|| code(named)),
            message: message.clone(),
            maybe_applied: meaning(named).map(|_| false),
        };
        let body = (!named.is_empty() || message.is_some())
            .then(|| json!({"code": named, "message": message}));
        received.with(own, body.as_ref())
    }
}

/// The meaning of an error of AWS by its name; `None` if its status decides. Both meanings say that the call had no
/// effect: AWS refused the request before it reached the function, queue or topic.
fn meaning(code: &str) -> Option<AnswerMeaning> {
    let code = code.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| code.contains(part));
    if has(&[
        "throttl",
        "toomanyrequests",
        "requestlimit",
        // The function is being changed or restored.
        "resourceconflict",
        "notready",
    ]) {
        return Some(AnswerMeaning::MayPass);
    }
    let is_about_caller = has(&[
        "accessdenied",
        "authorizationerror",
        "unrecognizedclient",
        "invalidclienttoken",
        "expiredtoken",
        "signature",
        "missingauthentication",
        "invalidsecurity",
        "optinrequired",
        // There is no such function, queue or topic: the settings name a wrong one.
        "notfound",
        "doesnotexist",
        "nonexistentqueue",
        "invalidaddress",
        // The key of a queue or topic cannot be used.
        "kms",
    ]);
    is_about_caller.then_some(AnswerMeaning::CallerRefused)
}

/// The names and values of a message's attributes, without empty values.
fn attributes(said: Vec<(String, String)>) -> Result<Vec<(String, String)>, Fault> {
    let said = said.into_iter().filter(|(_, value)| !value.is_empty());
    let all: Vec<(String, String)> = said.collect();
    match all.len() > MAX_ATTRIBUTES {
        true => Err(not_sent(
            "bad-input",
            format!(
                "the message would have {} attributes, more than the {MAX_ATTRIBUTES} that are allowed: remove headers from the description",
                all.len()
            ),
        )),
        false => Ok(all),
    }
}

/// The content of a request as a text.
fn plain(body: Body) -> String {
    match body {
        Body::None => "{}".to_owned(),
        Body::Json(value) => value.to_string(),
        Body::Text(text) => text,
        Body::Form(pairs) => form_urlencoded::Serializer::new(String::new())
            .extend_pairs(pairs)
            .finish(),
    }
}

/// An id for a FIFO queue or topic: the text itself if its characters and length are allowed there, else its SHA-256.
fn id(text: &str) -> String {
    let is_id = (1..=MAX_ID).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    match is_id {
        true => text.to_owned(),
        false => {
            let digest = Sha256::digest(text.as_bytes());
            digest.iter().map(|b| format!("{b:02x}")).collect()
        }
    }
}

/// The name of an error as the code of a failure: at most [`MAX_CODE`] characters, others than plain ones replaced by
/// `-`.
fn code(name: &str) -> String {
    let plain = |c: char| match c {
        _ if c.is_ascii_alphanumeric() || "-_.:/".contains(c) => c,
        _ => '-',
    };
    name.chars().take(MAX_CODE).map(plain).collect()
}

/// The text of the first XML element with this name. The elements that are looked for contain only text.
fn element(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    let text = text.replace("&quot;", "\"").replace("&apos;", "'");
    Some(text.replace("&amp;", "&"))
}

fn refused(code: &str, message: String) -> Fault {
    Fault::CallerRefused {
        code: code.to_owned(),
        message,
        maybe_applied: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_that_of_the_arn_or_of_the_queues_url() {
        for (kind, name, region) in [
            (Kind::Lambda, "charge", None),
            (Kind::Lambda, "charge:live", None),
            (
                Kind::Lambda,
                "arn:aws:lambda:eu-west-1:111122223333:function:charge:live",
                Some("eu-west-1"),
            ),
            (
                Kind::Sns,
                "arn:aws:sns:us-east-2:111122223333:paid",
                Some("us-east-2"),
            ),
            (
                Kind::Sqs,
                "https://sqs.eu-west-3.amazonaws.com/111122223333/paid.fifo",
                Some("eu-west-3"),
            ),
            (
                Kind::Sqs,
                "https://sqs.cn-north-1.amazonaws.com.cn/111122223333/paid",
                Some("cn-north-1"),
            ),
            (Kind::Sqs, "http://localhost:4566/000000000000/paid", None),
        ] {
            let service = AwsService::new(kind, name).expect(name);
            assert_eq!(service.region().as_deref(), region, "{name}");
        }
        for (kind, name) in [
            (Kind::Lambda, ""),
            (Kind::Lambda, "https://lambda.example/charge"),
            (Kind::Sns, "paid"),
            (Kind::Sqs, "paid"),
            (Kind::Sqs, "arn:aws:sqs:eu-west-1:111122223333:paid"),
            (Kind::Sqs, "https://sqs.eu-west-1.amazonaws.com/paid"),
            (
                Kind::Sqs,
                "https://user:word@sqs.eu-west-1.amazonaws.com/111122223333/paid",
            ),
        ] {
            assert!(AwsService::new(kind, name).is_err(), "{name}");
        }
    }

    #[test]
    fn an_id_is_the_text_unless_a_queue_refuses_it() {
        assert_eq!(id("7/pay/forward"), "7/pay/forward");
        for text in ["", "a b", "ü", &"x".repeat(129)] {
            let id = id(text);
            assert!(
                id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit()),
                "{id}"
            );
        }
    }

    #[test]
    fn errors_of_aws_are_about_the_caller_or_pass_or_are_left_to_their_status() {
        let refused = Some(AnswerMeaning::CallerRefused);
        for (code, wanted) in [
            ("AccessDeniedException", refused),
            ("AuthorizationError", refused),
            ("ResourceNotFoundException", refused),
            ("QueueDoesNotExist", refused),
            ("AWS.SimpleQueueService.NonExistentQueue", refused),
            ("KMSAccessDeniedException", refused),
            ("KmsDisabled", refused),
            ("InvalidSignatureException", refused),
            ("ExpiredTokenException", refused),
            ("KMSThrottlingException", Some(AnswerMeaning::MayPass)),
            ("TooManyRequestsException", Some(AnswerMeaning::MayPass)),
            ("ResourceConflictException", Some(AnswerMeaning::MayPass)),
            ("RequestThrottled", Some(AnswerMeaning::MayPass)),
            ("InvalidParameterValue", None),
            ("InvalidMessageContents", None),
            ("ServiceException", None),
            ("", None),
        ] {
            assert_eq!(meaning(code), wanted, "{code}");
        }
    }
}
