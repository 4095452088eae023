//! A DynamoDB service that gives scripted answers and records the requests.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use serde_json::Value;
use triad_core::{OrderId, Timestamp};
use triad_dynamodb::{DynamoStore, Endpoint, Tables, connect};
use triad_runtime::Clock;
use triad_workflow::Millis;

/// A recorded call: the operation, such as `GetItem`, and the request.
pub type Asked = (String, Value);

type Answers = Arc<dyn Fn(usize, &Asked) -> Value + Send + Sync>;

#[derive(Clone)]
pub struct Service {
    answers: Answers,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Service {
    /// A service that answers its nth call, counted from 1, with `answers(n, call)`.
    pub fn new(answers: impl Fn(usize, &Asked) -> Value + Send + Sync + 'static) -> Self {
        Self {
            answers: Arc::new(answers),
            asked: Arc::default(),
        }
    }

    /// A store over this service, whose tables have no prefix.
    pub async fn store(&self, clock: Sleeps) -> DynamoStore<Sleeps> {
        let connector = SharedHttpConnector::new(self.clone());
        let http: SharedHttpClient = http_client_fn(move |_, _| connector.clone());
        let client = connect(Endpoint::InProcess(http)).await;
        DynamoStore::new(client, Tables::with_prefix(""), clock, Millis(1))
    }

    /// Returns the requests since the previous query.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *lock(&self.asked))
    }
}

impl HttpConnector for Service {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").expect("an operation");
        let operation = target.rsplit('.').next().expect("it has a name").to_owned();
        let body = request.body().bytes().expect("a request in memory");
        let request = serde_json::from_slice(body).expect("a request");
        let mut asked = lock(&self.asked);
        asked.push((operation, request));
        let answer = (self.answers)(asked.len(), &asked[asked.len() - 1]);
        let status = StatusCode::try_from(200).expect("a status");
        let mut response = HttpResponse::new(status, SdkBody::from(answer.to_string()));
        let headers = response.headers_mut();
        headers.insert("content-type", "application/x-amz-json-1.0");
        HttpConnectorFuture::ready(Ok(response))
    }
}

/// A clock that advances only in sleeps, which it records.
#[derive(Debug, Clone, Default)]
pub struct Sleeps(Arc<Mutex<Vec<Millis>>>);

impl Sleeps {
    /// The recorded sleeps.
    pub fn slept(&self) -> Vec<Millis> {
        lock(&self.0).clone()
    }
}

impl Clock for Sleeps {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    async fn sleep(&self, span: Millis) {
        lock(&self.0).push(span);
    }
}

pub fn ids<const N: usize>(names: [&str; N]) -> Vec<OrderId> {
    names.map(|id| OrderId::new(id).expect("an id")).to_vec()
}
