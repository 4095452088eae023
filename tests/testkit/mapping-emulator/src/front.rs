//! The HTTP front: the API of event source mappings, as far as Terraform and the AWS command line use it. Every other
//! request is forwarded unchanged to the emulator.
//!
//! A mapping works from the answer to its creation until its deletion. Mappings are kept in memory: after a restart
//! they must be created again; their groups' offsets are in Kafka.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use triad_kafka::KafkaConfig;

use crate::lambda::{Account, Aws};
use crate::poller::Poller;
use crate::settings::Settings;

/// Largest request: a zip, in base64.
const MAX_REQUEST: usize = 100 * 1024 * 1024;

/// The HTTP front of one emulator of Lambda: it answers the API of event source mappings itself, runs the mappings,
/// and forwards every other request to the emulator.
#[derive(Clone)]
pub struct Front(Arc<FrontState>);

struct FrontState {
    account: Account,
    kafka: KafkaConfig,
    client: reqwest::Client,
    mappings: Mutex<BTreeMap<String, Mapping>>,
}

struct Mapping {
    /// The mapping in the form of the API's answers.
    shown: Value,
    stop: CancellationToken,
}

type Answer = Result<axum::Json<Value>, Refused>;

struct Refused(StatusCode, &'static str, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let body = json!({"Type": "User", "Message": self.2, "message": self.2});
        (self.0, [("x-amzn-errortype", self.1)], axum::Json(body)).into_response()
    }
}

impl Front {
    /// A front before the emulator at `account`; its mappings read from `kafka`. No request is made yet.
    ///
    /// # Panics
    /// If no HTTP client can be created, for example because the system has no root certificates.
    #[must_use]
    pub fn new(account: Account, kafka: KafkaConfig) -> Self {
        Self(Arc::new(FrontState {
            account,
            kafka,
            client: triad_http::client_builder()
                .build()
                .expect("a client without settings can be made"),
            mappings: Mutex::default(),
        }))
    }

    /// The routes by which the front answers HTTP requests.
    pub fn routes(self) -> Router {
        let all = "/2015-03-31/event-source-mappings";
        let one = "/2015-03-31/event-source-mappings/{id}";
        Router::new()
            .route(all, get(list).post(create))
            .route(&format!("{all}/"), get(list).post(create))
            .route(one, get(show).put(update).delete(delete))
            .route("/2017-03-31/tags/{arn}", any(tags))
            .fallback(hand_on)
            .with_state(self)
    }

    /// Creates a mapping from the body of a `CreateEventSourceMapping` request and starts it, unless the body has
    /// `Enabled: false`. Returns the mapping as the API shows it.
    ///
    /// # Errors A message, if the request names no function or topic, or the consumer or the HTTP client cannot be
    /// created.
    ///
    /// # Panics If `request` is neither a JSON object nor null, or if a mapping is started outside of a Tokio
    /// runtime.
    pub fn create(&self, request: Value) -> anyhow::Result<Value> {
        let id = uuid::Uuid::new_v4().to_string();
        let account = &self.0.account;
        let arn = format!(
            "arn:aws:lambda:{}:000000000000:event-source-mapping:{id}",
            account.region
        );
        let mut shown = request;
        shown["UUID"] = json!(id);
        shown["EventSourceMappingArn"] = json!(arn);
        let shown = self.start(id.clone(), shown)?;
        Ok(shown)
    }

    /// Starts a mapping, or restarts it with other settings.
    fn start(&self, id: String, mut shown: Value) -> anyhow::Result<Value> {
        let function = shown["FunctionName"]
            .as_str()
            .or(shown["FunctionArn"].as_str());
        let function = function.ok_or_else(|| anyhow::anyhow!("FunctionName is missing"))?;
        let function = function.to_owned();
        let topic = shown["Topics"][0].as_str().map(str::to_owned);
        let topic = topic.ok_or_else(|| anyhow::anyhow!("Topics is missing"))?;
        let group = [
            "SelfManagedKafkaEventSourceConfig",
            "AmazonManagedKafkaEventSourceConfig",
        ]
        .iter()
        .find_map(|config| shown[*config]["ConsumerGroupId"].as_str())
        .map_or_else(|| id.clone(), str::to_owned);
        let bucket = shown["DestinationConfig"]["OnFailure"]["Destination"].as_str();
        let bucket = bucket
            .and_then(|arn| arn.strip_prefix("arn:aws:s3:::"))
            .map(str::to_owned);
        let enabled = shown["Enabled"].as_bool().unwrap_or(true);
        shown["FunctionArn"] = json!(function);
        shown["State"] = json!(if enabled { "Enabled" } else { "Disabled" });
        shown["StateTransitionReason"] = json!("USER_INITIATED");
        shown["LastModified"] = json!(0);
        let stop = CancellationToken::new();
        if enabled {
            let poller = Poller::join(&self.0.kafka, &group, &topic, settings(&shown))?;
            let aws = Aws::new(self.0.account.clone(), function, bucket, id.clone())?;
            let stop = stop.clone();
            tokio::spawn(async move { poller.run(&aws, &aws, &stop).await });
        }
        let mapping = Mapping {
            shown: shown.clone(),
            stop,
        };
        if let Some(before) = self.mappings().insert(id, mapping) {
            before.stop.cancel();
        }
        Ok(shown)
    }

    fn mappings(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Mapping>> {
        self.0
            .mappings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn mapping_json(&self, id: &str) -> Result<Value, Refused> {
        let shown = self.mappings().get(id).map(|mapping| mapping.shown.clone());
        shown.ok_or_else(|| {
            let message = format!("there is no mapping {id}");
            Refused(StatusCode::NOT_FOUND, "ResourceNotFoundException", message)
        })
    }
}

/// Reads a mapping's settings from its form in the API.
fn settings(shown: &Value) -> Settings {
    let defaults = Settings::default();
    let whole = |name: &str| shown[name].as_i64().filter(|n| *n >= 0);
    let lists_failures = |types: &Vec<Value>| types.iter().any(|t| t == "ReportBatchItemFailures");
    Settings {
        batch_size: whole("BatchSize").map_or(defaults.batch_size, |n| n as usize),
        window: whole("MaximumBatchingWindowInSeconds")
            .filter(|seconds| *seconds > 0)
            .map_or(defaults.window, |seconds| {
                Duration::from_secs(seconds as u64)
            }),
        partial: shown["FunctionResponseTypes"]
            .as_array()
            .is_some_and(lists_failures),
        bisect: shown["BisectBatchOnFunctionError"]
            .as_bool()
            .unwrap_or(false),
        retries: whole("MaximumRetryAttempts").map(|n| n as u32),
        record_age: whole("MaximumRecordAgeInSeconds").map(|n| Duration::from_secs(n as u64)),
        ..defaults
    }
}

fn bad(error: &anyhow::Error) -> Refused {
    let message = format!("{error:#}");
    Refused(
        StatusCode::BAD_REQUEST,
        "InvalidParameterValueException",
        message,
    )
}

async fn create(
    State(front): State<Front>,
    body: Bytes,
) -> Result<(StatusCode, axum::Json<Value>), Refused> {
    let request: Map<String, Value> = serde_json::from_slice(&body).map_err(|e| bad(&e.into()))?;
    let shown = front.create(request.into()).map_err(|e| bad(&e))?;
    Ok((StatusCode::ACCEPTED, axum::Json(shown)))
}

async fn list(State(front): State<Front>, Query(query): Query<BTreeMap<String, String>>) -> Answer {
    let wanted = |shown: &Value| {
        let name = query.get("FunctionName");
        name.is_none_or(|name| {
            shown["FunctionArn"]
                .as_str()
                .is_some_and(|arn| arn.ends_with(name))
        })
    };
    let all: Vec<Value> = front
        .mappings()
        .values()
        .map(|m| m.shown.clone())
        .filter(wanted)
        .collect();
    Ok(axum::Json(json!({"EventSourceMappings": all})))
}

async fn show(State(front): State<Front>, Path(id): Path<String>) -> Answer {
    front.mapping_json(&id).map(axum::Json)
}

async fn update(State(front): State<Front>, Path(id): Path<String>, body: Bytes) -> Answer {
    let mut shown = front.mapping_json(&id)?;
    let changes: Map<String, Value> = serde_json::from_slice(&body).map_err(|e| bad(&e.into()))?;
    for (name, value) in changes {
        shown[name] = value;
    }
    front.start(id, shown).map(axum::Json).map_err(|e| bad(&e))
}

async fn delete(State(front): State<Front>, Path(id): Path<String>) -> Answer {
    let mut shown = front.mapping_json(&id)?;
    if let Some(mapping) = front.mappings().remove(&id) {
        mapping.stop.cancel();
    }
    shown["State"] = json!("Deleting");
    Ok(axum::Json(shown))
}

/// Answers requests about tags of mappings, and forwards those about tags of functions.
async fn tags(State(front): State<Front>, Path(arn): Path<String>, request: Request) -> Response {
    let Some((_, id)) = arn.split_once(":event-source-mapping:") else {
        return hand_on(State(front), request).await;
    };
    if let Err(refused) = front.mapping_json(id) {
        return refused.into_response();
    }
    let (parts, body) = request.into_parts();
    let given: Value = match to_bytes(body, MAX_REQUEST).await {
        Ok(body) => serde_json::from_slice(&body).unwrap_or_default(),
        Err(e) => return bad(&e.into()).into_response(),
    };
    let taken_away: Vec<String> = match Query::<Vec<(String, String)>>::try_from_uri(&parts.uri) {
        Ok(Query(pairs)) => pairs.into_iter().map(|(_, key)| key).collect(),
        Err(_) => Vec::new(),
    };
    let mut mappings = front.mappings();
    let Some(mapping) = mappings.get_mut(id) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if !mapping.shown["Tags"].is_object() {
        mapping.shown["Tags"] = json!({});
    }
    let Some(tags) = mapping.shown["Tags"].as_object_mut() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match parts.method {
        Method::GET => axum::Json(json!({"Tags": tags})).into_response(),
        Method::DELETE => {
            tags.retain(|key, _| !taken_away.contains(key));
            StatusCode::NO_CONTENT.into_response()
        }
        _ => {
            let given = given["Tags"].as_object().cloned().unwrap_or_default();
            tags.extend(given);
            StatusCode::NO_CONTENT.into_response()
        }
    }
}

/// Forwards a request unchanged, also its host, because the signature covers it.
async fn hand_on(State(front): State<Front>, request: Request) -> Response {
    let upstream = front.0.account.endpoint.clone();
    match pass(&front.0.client, &upstream, request).await {
        Ok(response) => response,
        Err(e) => (StatusCode::BAD_GATEWAY, format!("{e:#}")).into_response(),
    }
}

async fn pass(
    client: &reqwest::Client,
    upstream: &str,
    request: Request,
) -> anyhow::Result<Response> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |p| p.as_str());
    let body = to_bytes(body, MAX_REQUEST).await?;
    let mut headers = parts.headers;
    // Removed, because the body is sent as a whole, not in chunks.
    headers.remove("transfer-encoding");
    // A policy may require encryption, which AWS has on every connection.
    headers.insert("x-forwarded-proto", HeaderValue::from_static("https"));
    let call = client.request(parts.method, format!("{upstream}{path}"));
    let answer = call.headers(headers).body(body).send().await?;
    let mut response = Response::builder().status(answer.status());
    for (name, value) in answer.headers() {
        if !matches!(
            name.as_str(),
            "transfer-encoding" | "connection" | "content-length"
        ) {
            response = response.header(name, value);
        }
    }
    Ok(response.body(Body::from(answer.bytes().await?))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front() -> Front {
        let account = Account {
            endpoint: "http://127.0.0.1:1".into(),
            region: "eu-central-1".into(),
            key: "test".into(),
            secret: "not-a-real-secret".into(),
        };
        Front::new(account, KafkaConfig::new("127.0.0.1:1"))
    }

    #[tokio::test]
    async fn a_body_that_is_no_object_is_refused_and_changes_nothing() {
        let front = front();
        let disabled = json!({"FunctionName": "f", "Topics": ["t"], "Enabled": false});
        let made = front.create(disabled).expect("it names what it must");
        let id = made["UUID"].as_str().expect("it has an id").to_owned();
        for body in ["", "{", "[]", "3", "null", r#""BatchSize""#] {
            let created = create(State(front.clone()), Bytes::from(body)).await;
            let updated = update(State(front.clone()), Path(id.clone()), Bytes::from(body)).await;
            let statuses = [created.map(|_| ()), updated.map(|_| ())];
            let statuses = statuses.map(|answer| answer.err().map(|refused| refused.0));
            assert_eq!(statuses, [Some(StatusCode::BAD_REQUEST); 2], "{body}");
        }
        let all: Vec<Value> = front.mappings().values().map(|m| m.shown.clone()).collect();
        assert_eq!(all, [made]);
    }
}
