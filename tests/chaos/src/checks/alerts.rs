//! G6: every order that ends in failure has its alert, and every alert has such an order.

use std::collections::{BTreeMap, BTreeSet};

use triad_core::message::AlertKind;
use triad_core::{Alert, Order, ProcessState};

use super::{Guarantee, Verdict};
use crate::evidence::Evidence;

/// The alert that the order's end requires: order id, kind and cause; `None` after a good end.
fn called_for(order: &Order) -> Option<(String, AlertKind, String)> {
    let (kind, at, cause) = match &order.state {
        ProcessState::Error { at, cause } => (AlertKind::OrderError, at, cause),
        ProcessState::CompensationFailed { at, cause, .. } => {
            (AlertKind::CompensationFailed, at, cause)
        }
        _ => return None,
    };
    let id = format!("{}/{}/{}", order.id, order.state.name(), at.0);
    Some((id, kind, cause.to_string()))
}

pub(super) fn verdicts(e: &Evidence) -> Vec<Verdict> {
    let mut told: BTreeMap<&str, Vec<&Alert>> = BTreeMap::new();
    for alert in &e.alerts {
        told.entry(&alert.alert_id).or_default().push(alert);
    }
    let wanted: BTreeSet<String> = e
        .records
        .values()
        .filter_map(called_for)
        .map(|(id, ..)| id)
        .collect();
    let of_orders = e.alerts.iter().filter(|a| {
        matches!(
            a.kind,
            AlertKind::OrderError | AlertKind::CompensationFailed
        )
    });
    vec![
        Verdict::each(
            Guarantee::G6,
            "an Error and a CompensationFailed have an alert with their cause",
            e.records.values().filter_map(called_for),
            |(id, kind, cause)| {
                let alerts = told.get(id.as_str()).map_or(&[][..], Vec::as_slice);
                let fits = alerts.iter().any(|a| a.kind == kind && a.cause == cause);
                (!fits).then(|| format!("{id}: {cause}; alerts {alerts:?}"))
            },
        ),
        Verdict::each(
            Guarantee::G6,
            "an alert about an order is of such an end",
            of_orders,
            |alert| (!wanted.contains(&alert.alert_id)).then(|| format!("{alert:?}")),
        ),
        Verdict::each(
            Guarantee::G6,
            "an alert that comes again says the same",
            told.values(),
            |all| {
                let differs = all
                    .iter()
                    .any(|a| a.kind != all[0].kind || a.cause != all[0].cause);
                differs.then(|| format!("{all:?}"))
            },
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::sample_history::{breached, sound};

    #[test]
    fn a_missing_alert_is_seen() {
        let mut e = sound();
        e.alerts.retain(|a| a.order_id.as_deref() != Some("stuck"));
        assert_eq!(
            breached(&e),
            ["an Error and a CompensationFailed have an alert with their cause"]
        );
    }

    #[test]
    fn an_alert_without_a_bad_end_is_seen() {
        let mut e = sound();
        let mut alert = e.alerts[0].clone();
        alert.alert_id = "done/Error/7".into();
        e.alerts.push(alert);
        assert_eq!(breached(&e), ["an alert about an order is of such an end"]);
    }

    #[test]
    fn an_alert_that_means_two_things_is_seen() {
        let mut e = sound();
        let mut alert = e.alerts[0].clone();
        alert.cause = "something else".into();
        e.alerts.push(alert);
        assert_eq!(breached(&e), ["an alert that comes again says the same"]);
    }
}
