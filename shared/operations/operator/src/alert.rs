//! Names and texts of alert kinds.

use triad_core::message::AlertKind;

/// The name of a kind in messages and for filters, such as `order-error`.
#[must_use]
pub fn name(kind: AlertKind) -> &'static str {
    title_and_advice(kind).0
}

/// What a kind says to a person, such as "an order is in Error".
#[must_use]
pub fn in_words(kind: AlertKind) -> &'static str {
    title_and_advice(kind).1
}

fn title_and_advice(kind: AlertKind) -> (&'static str, &'static str) {
    match kind {
        AlertKind::OrderError => ("order-error", "an order is in Error"),
        AlertKind::CompensationFailed => ("compensation-failed", "an order is half compensated"),
        AlertKind::OrderLate => ("order-late", "an order has missed its deadline"),
        AlertKind::EventsUnused => ("events-unused", "events of an order are not used"),
        AlertKind::DeadLetter => ("dead-letter", "a record could not be taken"),
        AlertKind::Breaker => ("breaker", "a downstream has changed"),
        AlertKind::Unreadable => ("unreadable", "an order's record cannot be read"),
        AlertKind::Misconfigured => ("misconfigured", "a handler cannot go on"),
        AlertKind::CampaignStopped => ("campaign-stopped", "a campaign has stopped by itself"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_the_name_that_it_has_in_messages() {
        for kind in [
            AlertKind::OrderError,
            AlertKind::CompensationFailed,
            AlertKind::OrderLate,
            AlertKind::EventsUnused,
            AlertKind::DeadLetter,
            AlertKind::Breaker,
            AlertKind::Unreadable,
            AlertKind::Misconfigured,
            AlertKind::CampaignStopped,
        ] {
            let told = serde_json::to_value(kind).expect("JSON");
            assert_eq!(told, name(kind));
        }
    }
}
