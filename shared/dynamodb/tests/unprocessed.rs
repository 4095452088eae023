//! Keys that a throttled table leaves unprocessed are asked for again, after growing waits.

use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use serde_json::{Value, json};
use triad_core::{OrderId, Timestamp};
use triad_dynamodb::{DynamoStore, Endpoint, Tables, connect};
use triad_runtime::{Clock, StateStore, StoreError};
use triad_workflow::Millis;

/// Counts the calls, and processes no key before this many of them.
#[derive(Debug, Clone, Default)]
struct Throttled {
    calls: Arc<Mutex<u32>>,
    until: u32,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HttpConnector for Throttled {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let body = request.body().bytes().expect("a request in memory");
        let request: Value = serde_json::from_slice(body).expect("a request");
        let mut calls = lock(&self.calls);
        *calls += 1;
        let answer = if *calls <= self.until {
            json!({"Responses": {}, "UnprocessedKeys": request["RequestItems"]})
        } else {
            json!({"Responses": {}, "UnprocessedKeys": {}})
        };
        let status = StatusCode::try_from(200).expect("a status");
        let mut response = HttpResponse::new(status, SdkBody::from(answer.to_string()));
        let headers = response.headers_mut();
        headers.insert("content-type", "application/x-amz-json-1.0");
        HttpConnectorFuture::ready(Ok(response))
    }
}

/// Time that passes only in sleeps, which it notes.
#[derive(Debug, Clone, Default)]
struct Sleeps(Arc<Mutex<Vec<Millis>>>);

impl Clock for Sleeps {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    async fn sleep(&self, span: Millis) {
        lock(&self.0).push(span);
    }
}

/// Reads two orders from a table that processes nothing in so many calls.
async fn read(until: u32) -> (Vec<bool>, u32, Vec<Millis>) {
    let throttled = Throttled {
        until,
        ..Throttled::default()
    };
    let connector = SharedHttpConnector::new(throttled.clone());
    let http: SharedHttpClient = http_client_fn(move |_, _| connector.clone());
    let client = connect(Endpoint::InProcess(http)).await;
    let clock = Sleeps::default();
    let store = DynamoStore::new(client, Tables::with_prefix(""), clock.clone(), Millis(1));
    let ids = ["a", "b"].map(|id| OrderId::new(id).expect("an id"));
    let found = store.load(ids.to_vec()).await;
    let transient = |r: &Result<_, StoreError>| matches!(r, Err(StoreError::Transient(_)));
    let failed = found.iter().map(transient).collect();
    let (calls, waits) = (*lock(&throttled.calls), lock(&clock.0).clone());
    (failed, calls, waits)
}

#[tokio::test]
async fn every_call_but_the_first_comes_after_a_wait_within_its_bound() {
    let (failed, calls, waits) = read(3).await;
    assert_eq!((failed, calls), (vec![false, false], 4));
    assert_eq!(waits.len(), 3);
    for (wait, bound) in waits.iter().zip([50, 100, 200]) {
        assert!(wait.0 <= bound, "{waits:?}");
    }
}

#[tokio::test]
async fn after_eight_calls_the_read_has_failed_for_now() {
    let (failed, calls, waits) = read(u32::MAX).await;
    assert_eq!((failed, calls), (vec![true, true], 8));
    assert_eq!(waits.len(), 7);
    assert!(
        waits.iter().map(|wait| wait.0).sum::<u64>() <= 3_200,
        "{waits:?}"
    );
}
