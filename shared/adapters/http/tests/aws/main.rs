//! Agents that need an account of AWS, against a stand-in that checks signatures.

mod account;
mod credentials;
mod services;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use triad_core::{Direction, IdempotencyKey, OrderId};
use triad_http::{AwsAccount, Destination, HttpService, HttpSettings};
use triad_runtime::{Call, Fault, RemoteService};
use triad_workflow::service::CallDefinition;
use triad_workflow::{Millis, StepId};

/// The settings of an agent for the service at this address.
fn settings(base_url: String, aws: impl Into<AwsAccount>) -> HttpSettings {
    HttpSettings {
        destination: Destination::BaseUrl(base_url),
        call_timeout: Duration::from_secs(10),
        headers: Vec::new(),
        auth: None,
        tls: None,
        aws: aws.into(),
        statuses: BTreeMap::new(),
        callback_url: None,
    }
}

/// Calls the action `pay`, with a description if `form` is given.
async fn call(service: &HttpService, form: Option<&Value>) -> Result<Value, Fault> {
    call_with(service, form, &json!({"amount": 20})).await
}

async fn call_with(
    service: &HttpService,
    form: Option<&Value>,
    input: &Value,
) -> Result<Value, Fault> {
    call_to(service, form, input, Direction::Forward).await
}

/// Sends a probe: whether the action has happened.
async fn call_probing(service: &HttpService) -> Result<Value, Fault> {
    call_to(service, None, &json!({}), Direction::Probe).await
}

async fn call_to(
    service: &HttpService,
    form: Option<&Value>,
    input: &Value,
    direction: Direction,
) -> Result<Value, Fault> {
    let key = IdempotencyKey("7/pay/forward".to_owned());
    let form: Option<CallDefinition> =
        form.map(|form| serde_json::from_value(form.clone()).expect("a description"));
    let call = Call {
        order_id: &OrderId::new("7").expect("an id"),
        step: &StepId::new("pay").expect("a step"),
        direction,
        idempotency_key: &key,
        compensates: None,
        action: "pay",
        input,
        form: form.as_ref(),
        repeats: false,
        callback: None,
        location: None,
        time_left: Millis(10_000),
        attempt: 1,
        traceparent: None,
    };
    service.call(call).await
}
