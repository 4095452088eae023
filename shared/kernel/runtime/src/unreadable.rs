//! Alerts about process records that cannot be read or do not fit their definition, and about definitions that cannot
//! be read: one alert a day each, and not one per sweep or per waiting order.
//!
//! Such a record cannot store that operators were alerted. The control store does, under the order's id or the
//! definition's name and hash, until the next alert is due.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::json;
use triad_core::message::{Alert, AlertKind};
use triad_core::{Envelope, Failure, FailureKind, OrderId, Timestamp, WorkflowRef};
use triad_workflow::Millis;

use crate::alerts;
use crate::control::{ControlStore, ControlWrite};
use crate::ports::{Bus, Clock, Entropy, StoreError};

/// Time between two alerts about one record or definition.
const EVERY: Millis = Millis(24 * 3_600_000);

/// Unreadable subjects, and why.
pub(crate) type Unreadable = BTreeMap<Subject, String>;

/// Subject of such an alert.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// An order's record that cannot be read or does not fit its definition.
    Order(OrderId),
    /// A definition: all orders on it wait.
    Definition(WorkflowRef),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order(order) => order.fmt(f),
            Self::Definition(definition) => definition.fmt(f),
        }
    }
}

/// Sends alerts about the unreadable subjects of one page, except those that operators were alerted about within the
/// last day. Two processes that find a record at the same time may both send an alert, with different ids.
///
/// They are sent together, with the wait of other [alerts]. An alert that fails is logged, and the next sweep sends
/// it.
pub(crate) async fn publish_alert<S: ControlStore, B: Bus, C: Clock, E: Entropy>(
    (control, bus, clock, entropy): (&S, &B, &C, &E),
    unreadable: Unreadable,
) {
    let now = clock.now();
    let mut alerts = Vec::new();
    let mut keys = Vec::new();
    for (subject, why) in unreadable {
        let key = match &subject {
            Subject::Order(order) => format!("unreadable/{order}"),
            Subject::Definition(definition) => format!("unreadable-definition/{definition}"),
        };
        match control.read(key.clone(), false).await {
            Ok(None) => {
                alerts.push(alert(&subject, &why, now));
                keys.push(key);
            }
            Ok(Some(_)) => {}
            // All reads here are of the same store, so the others would fail too.
            Err(e) => {
                log_untold(&e);
                break;
            }
        }
    }
    if alerts.is_empty() {
        return;
    }
    let sent = match alerts::publish(bus, clock, alerts).await {
        Ok(sent) => sent,
        Err(late) => return log_untold(&late),
    };
    for (key, sent) in keys.into_iter().zip(sent) {
        let written = match sent {
            Ok(()) => write_down(control, entropy, key, now).await,
            Err(e) => return log_untold(&e),
        };
        if let Err(e) = written {
            return log_untold(&e);
        }
    }
}

/// If two processes send an alert, one of them records it.
async fn write_down<S: ControlStore, E: Entropy>(
    control: &S,
    entropy: &E,
    key: String,
    now: Timestamp,
) -> Result<(), StoreError> {
    let told = ControlWrite {
        key,
        value: json!({"told": now}),
        expected: None,
        expires: Some(now.plus(EVERY)),
        token: entropy.next_u64(),
    };
    control.write(told).await.map(|_| ())
}

fn log_untold(error: &dyn std::error::Error) {
    tracing::warn!(%error, "an alert about an unreadable record could not be sent or recorded");
}

fn alert(subject: &Subject, why: &str, now: Timestamp) -> Envelope {
    let alert = Alert {
        alert_id: format!("{subject}/unreadable/{}", now.0),
        kind: AlertKind::Unreadable,
        order_id: match subject {
            Subject::Order(order) => Some(order.to_string()),
            Subject::Definition(_) => None,
        },
        // The text of a failure is bounded.
        cause: Failure::new(FailureKind::Definition, "unreadable", why).message,
        at: now,
    };
    alert.message(&subject.to_string(), None)
}
