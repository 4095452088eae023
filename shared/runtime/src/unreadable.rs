//! Tells operators of a process record that cannot be read, or does not fit its definition: once a
//! day, and not in each sweep that meets it.
//!
//! Such a record cannot say itself that operators know of it. The control store does, by the order's
//! id, for as long as nobody is told again.

use serde_json::json;
use triad_core::message::{Alert, AlertKind};
use triad_core::{Envelope, Failure, FailureKind, OrderId, Timestamp, topics};
use triad_workflow::Millis;

use crate::control::{ControlStore, ControlWrite};
use crate::ports::{Bus, Entropy, StoreError};

/// Time between two alerts about one record.
const EVERY: Millis = Millis(24 * 3_600_000);

/// Tells operators of one record, unless they were told within the last day. Of two processes that
/// meet it at once both may tell, under two ids.
///
/// What cannot be told now is told by the next sweep: a failure is logged.
pub(crate) async fn tell<S: ControlStore, B: Bus, E: Entropy>(
    (control, bus, entropy): (&S, &B, &E),
    order: &OrderId,
    why: &str,
    now: Timestamp,
) {
    if let Err(e) = try_to_tell((control, bus, entropy), order, why, now).await {
        tracing::warn!(%order, error = e, "nobody was told of a record that cannot be read");
    }
}

async fn try_to_tell<S: ControlStore, B: Bus, E: Entropy>(
    (control, bus, entropy): (&S, &B, &E),
    order: &OrderId,
    why: &str,
    now: Timestamp,
) -> Result<(), String> {
    let in_words = |e: StoreError| e.to_string();
    let key = format!("unreadable/{order}");
    if control
        .read(key.clone(), false)
        .await
        .map_err(in_words)?
        .is_some()
    {
        return Ok(());
    }
    let sent = bus.publish(vec![alert(order, why, now)]).await;
    if let Some(e) = sent.into_iter().find_map(Result::err) {
        return Err(e.to_string());
    }
    let told = ControlWrite {
        key,
        value: json!({"told": now}),
        expected: None,
        expires: Some(now.plus(EVERY)),
        token: entropy.next_u64(),
    };
    // Of two that tell one writes it down.
    control.write(told).await.map(|_| ()).map_err(in_words)
}

fn alert(order: &OrderId, why: &str, now: Timestamp) -> Envelope {
    let body = Alert {
        alert_id: format!("{order}/unreadable/{}", now.0),
        kind: AlertKind::Unreadable,
        order_id: Some(order.to_string()),
        // A failure's text is bounded.
        cause: Failure::new(FailureKind::Definition, "unreadable", why).message,
        at: now,
    };
    let (topic, id) = (topics::ALERTS.to_owned(), body.alert_id.clone());
    Envelope::event(topic, order.as_str(), "triad.alert", id, None, &body)
}
