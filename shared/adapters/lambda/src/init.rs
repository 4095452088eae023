//! The init phase: clients are made before the first invocation.
//!
//! `lambda_runtime` reports an init failure only for snapshots, so this module makes the documented call (`POST
//! /2018-06-01/runtime/init/error`).

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use http::{Method, Uri};
use lambda_runtime::Diagnostic;
use lambda_runtime_api_client::body::Body;
use lambda_runtime_api_client::{PooledClient, build_request};

use crate::error::RunError;

/// Longest time for reporting a failure to Lambda.
const REPORT_WITHIN: Duration = Duration::from_secs(2);

/// Runs the function's cold start, `start`: configuration, clients, connections.
///
/// # Errors
/// [`RunError::Init`] when `start` fails. The failure is first reported to Lambda (error type `Triad.Init`, with the
/// message; for at most 2 s). Returned from `main`, the error prints one line and ends the process with a status that
/// is not zero.
///
/// # Panics
/// When `start` fails outside of Lambda, where `AWS_LAMBDA_RUNTIME_API` is not set.
pub async fn init<T, E: Display>(start: impl Future<Output = Result<T, E>>) -> Result<T, RunError> {
    match start.await {
        Ok(started) => Ok(started),
        Err(error) => {
            let message = error.to_string();
            let reported = tokio::time::timeout(REPORT_WITHIN, report(&message)).await;
            if !matches!(reported, Ok(Ok(()))) {
                tracing::warn!("the failed start could not be reported to Lambda");
            }
            Err(RunError::Init(message))
        }
    }
}

async fn report(message: &str) -> Result<(), lambda_runtime::Error> {
    let diagnostic = Diagnostic {
        error_type: "Triad.Init".to_owned(),
        error_message: message.to_owned(),
    };
    let request = build_request()
        .method(Method::POST)
        .uri(Uri::from_static("/2018-06-01/runtime/init/error"))
        .header("lambda-runtime-function-error-type", "Triad.Init")
        .body(Body::from(serde_json::to_vec(&diagnostic)?))?;
    let answer = PooledClient::builder().build().call(request).await?;
    if answer.status().is_success() {
        Ok(())
    } else {
        Err(format!("status {}", answer.status()).into())
    }
}
