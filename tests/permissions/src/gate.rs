//! The gate: an HTTP endpoint between the function and the tables, which also stands for SNS, SQS, Lambda and Secrets
//! Manager. It refuses a request that the role may not make, as the real service would.
//!
//! Sources of the refusals' forms: DynamoDB and Secrets Manager API references, "Common Errors"
//! (`AccessDeniedException`, HTTP 400, JSON with `__type`); Amazon SNS API reference, Publish, "Errors"
//! (`AuthorizationError`, HTTP 403, XML).
//!
//! It listens only on loopback, and ends when it is dropped.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::policy::Permission;
use super::required::{PermissionRequest, request};
use super::rights::Rights;

/// Headers that are forwarded in requests and answers.
const HEADERS: [&str; 7] = [
    "content-type",
    "x-amz-target",
    "x-amz-date",
    "authorization",
    "x-amz-content-sha256",
    "x-amzn-requestid",
    "x-amz-crc32",
];
/// Content type of DynamoDB's answers.
const TABLES_FORM: &str = "application/x-amz-json-1.0";
/// Content type of Secrets Manager's answers.
const SECRETS_FORM: &str = "application/x-amz-json-1.1";

/// A running gate.
#[derive(Debug)]
pub struct IamGate {
    addr: SocketAddr,
    shared: Arc<GateState>,
    /// Dropping it ends its task.
    _serving: JoinSet<()>,
}

#[derive(Debug)]
struct GateState {
    tables: String,
    client: reqwest::Client,
    rights: Rights,
    secrets: BTreeMap<String, String>,
    published: Mutex<Vec<String>>,
}

impl IamGate {
    /// Listens on a free loopback port, and forwards requests to the tables at `tables`. `secrets` are the secrets'
    /// texts, by ARN.
    ///
    /// # Panics
    /// If there is no free port.
    pub async fn start(tables: String, rights: Rights, secrets: BTreeMap<String, String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let addr = listener.local_addr().expect("it has an address");
        let shared = Arc::new(GateState {
            tables,
            client: triad_tests::http::client(),
            rights,
            secrets,
            published: Mutex::default(),
        });
        let routes = Router::new().fallback(handle).with_state(shared.clone());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            // Ends with the gate. After an error, requests get no answer, which the run reports.
            let _ = axum::serve(listener, routes).await;
        });
        Self {
            addr,
            shared,
            _serving: serving,
        }
    }

    /// The URL at which the function reaches the gate.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The bodies of the requests to SNS, as sent.
    #[must_use]
    pub fn published(&self) -> Vec<String> {
        let published = self.shared.published.lock();
        published.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn handle(
    State(shared): State<Arc<GateState>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let target = headers.get("x-amz-target").and_then(|t| t.to_str().ok());
    match request(uri.path(), target, &body) {
        PermissionRequest::Tables(wanted) => {
            // All permissions are checked, so that all that a transaction lacks are recorded.
            let denied: Vec<_> = wanted.iter().filter(|w| !shared.rights.ask(w)).collect();
            match denied.first() {
                Some(permission) => refused(TABLES_FORM, permission),
                None => shared.hand_on(&headers, body).await,
            }
        }
        PermissionRequest::Publish(wanted) if shared.rights.ask(&wanted) => {
            let mut published = shared
                .published
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            published.push(String::from_utf8_lossy(&body).into_owned());
            let body = "<PublishResponse><PublishResult><MessageId>1</MessageId></PublishResult></PublishResponse>";
            answer(StatusCode::OK, "text/xml", body.to_owned())
        }
        PermissionRequest::Publish(wanted) => {
            let body = format!(
                "<ErrorResponse><Error><Type>Sender</Type><Code>AuthorizationError</Code><Message>{}</Message></Error></ErrorResponse>",
                why(&wanted)
            );
            answer(StatusCode::FORBIDDEN, "text/xml", body)
        }
        PermissionRequest::Secret(wanted) if shared.rights.ask(&wanted) => {
            let secret = shared.secrets.get(&wanted.resource);
            let body = match secret {
                Some(text) => json!({"ARN": wanted.resource, "SecretString": text}),
                None => json!({"__type": "ResourceNotFoundException"}),
            };
            let status = secret.map_or(StatusCode::BAD_REQUEST, |_| StatusCode::OK);
            answer(status, SECRETS_FORM, body.to_string())
        }
        PermissionRequest::Secret(wanted) => refused(SECRETS_FORM, &wanted),
        PermissionRequest::Send(wanted) if shared.rights.ask(&wanted) => {
            let body = json!({"MessageId": "1"});
            answer(StatusCode::OK, TABLES_FORM, body.to_string())
        }
        PermissionRequest::Send(wanted) => refused(TABLES_FORM, &wanted),
        PermissionRequest::Invoke(wanted) if shared.rights.ask(&wanted) => {
            answer(StatusCode::OK, "application/json", "{}".to_owned())
        }
        PermissionRequest::Invoke(wanted) => {
            let mut refusal = refused("application/json", &wanted);
            *refusal.status_mut() = StatusCode::FORBIDDEN;
            refusal
        }
        PermissionRequest::Unknown(what) => {
            shared.rights.note_strange(format!("asked for {what}"));
            let body = json!({"__type": "UnknownOperationException"});
            answer(StatusCode::BAD_REQUEST, TABLES_FORM, body.to_string())
        }
    }
}

impl GateState {
    async fn hand_on(&self, headers: &HeaderMap, body: Bytes) -> Response<Body> {
        let kept = |from: &HeaderMap| -> HeaderMap {
            let kept = HEADERS.iter().filter_map(|name| {
                let name = axum::http::HeaderName::from_static(name);
                Some((name.clone(), from.get(name)?.clone()))
            });
            kept.collect()
        };
        let asked = self
            .client
            .post(&self.tables)
            .headers(kept(headers))
            .body(body);
        let answered = match asked.send().await {
            Ok(answer) => {
                let (status, headers) = (answer.status(), kept(answer.headers()));
                answer.bytes().await.map(|body| (status, headers, body))
            }
            Err(e) => Err(e),
        };
        match answered {
            Ok((status, headers, body)) => {
                let mut response = Response::new(Body::from(body));
                *response.status_mut() = status;
                *response.headers_mut() = headers;
                response
            }
            Err(e) => {
                self.rights
                    .note_strange(format!("the tables do not answer: {e}"));
                answer(
                    StatusCode::BAD_GATEWAY,
                    TABLES_FORM,
                    Value::Null.to_string(),
                )
            }
        }
    }
}

fn why(permission: &Permission) -> String {
    let Permission { action, resource } = permission;
    format!(
        "User: arn:aws:sts::111122223333:assumed-role/triad/triad is not authorized to perform: {action} on resource: {resource} because no identity-based policy allows the {action} action"
    )
}

fn refused(form: &str, permission: &Permission) -> Response<Body> {
    let body = json!({
        "__type": "com.amazon.coral.service#AccessDeniedException",
        "Message": why(permission),
    });
    answer(StatusCode::BAD_REQUEST, form, body.to_string())
}

fn answer(status: StatusCode, form: &str, body: String) -> Response<Body> {
    let response = Response::builder().status(status);
    let response = response
        .header("content-type", form)
        .header("x-amzn-requestid", "gate");
    response.body(Body::from(body)).expect("sound headers")
}
