//! The HTTP agent against services on this machine.

mod calls;
mod credentials;
mod mutual_tls;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use triad_core::{Direction, IdempotencyKey, OrderId};
use triad_http::{AwsAccount, Destination, HttpService, HttpSettings};
use triad_runtime::{Call, Fault, RemoteService};
use triad_workflow::{Millis, StepId};

/// The settings of an agent of the service at this URL, without credentials.
fn settings(base_url: String) -> HttpSettings {
    HttpSettings {
        destination: Destination::BaseUrl(base_url),
        call_timeout: Duration::from_secs(10),
        headers: Vec::new(),
        auth: None,
        tls: None,
        aws: AwsAccount::default(),
        statuses: BTreeMap::new(),
        callback_url: None,
    }
}

/// Calls the action `pay` of an order.
async fn pay(service: &HttpService, time_left: Millis) -> Result<Value, Fault> {
    let call = Call {
        order_id: &OrderId::new("7").expect("an id"),
        step: &StepId::new("pay").expect("a step"),
        direction: Direction::Forward,
        idempotency_key: &IdempotencyKey("k".to_owned()),
        compensates: None,
        action: "pay",
        input: &json!({}),
        form: None,
        repeats: false,
        callback: None,
        location: None,
        time_left,
        attempt: 1,
        traceparent: None,
    };
    service.call(call).await
}
