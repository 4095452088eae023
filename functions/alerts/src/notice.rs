//! What an SNS topic is told of an alert.

use triad_core::message::{Alert, AlertKind};
use triad_runtime::InputRecord;

/// Bound of a message: SNS takes 256 KB with its attributes.
const MAX_MESSAGE_BYTES: usize = 200_000;
/// Bound of a subject, in characters; SNS's own.
const MAX_SUBJECT: usize = 100;

/// One message to the SNS topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// One line for people: at most 100 printable ASCII characters, other characters replaced by
    /// `?`.
    pub subject: String,
    /// The value of the alert's record as text, cut to at most 200,000 bytes.
    pub message: String,
    /// Attributes for the filters of subscriptions, by name: `kind`, and `alert_id` and `order_id`
    /// where the alert has them.
    pub attributes: Vec<(&'static str, String)>,
}

impl Notice {
    /// The message about a record of the topic `alerts`; `None` if the record has no value or an
    /// empty one.
    ///
    /// A value that is not an alert of Triad is told as well, with the kind `unknown`.
    pub fn of(record: &InputRecord) -> Option<Self> {
        let value = record.value.as_deref().filter(|v| !v.is_empty())?;
        let Ok(alert) = serde_json::from_slice::<Alert>(value) else {
            return Some(Self {
                subject: "Triad: an alert of unknown form".to_owned(),
                message: cut(&String::from_utf8_lossy(value)),
                attributes: vec![("kind", "unknown".to_owned())],
            });
        };
        let (kind, what) = match alert.kind {
            AlertKind::OrderError => ("order-error", "an order is in Error"),
            AlertKind::CompensationFailed => ("compensation-failed", "an order is half undone"),
            AlertKind::OrderLate => ("order-late", "an order has missed its deadline"),
            AlertKind::DeadLetter => ("dead-letter", "a record could not be taken"),
            AlertKind::Breaker => ("breaker", "a downstream has changed"),
            AlertKind::Unreadable => ("unreadable", "an order's record cannot be read"),
            AlertKind::Misconfigured => ("misconfigured", "a handler cannot go on"),
            AlertKind::CampaignStopped => ("campaign-stopped", "a campaign has stopped by itself"),
        };
        let order = alert.order_id.as_deref();
        let about = order.map_or_else(|| what.to_owned(), |order| format!("{what}: {order}"));
        let mut attributes = vec![("kind", kind.to_owned()), ("alert_id", alert.alert_id)];
        attributes.extend(order.map(|order| ("order_id", order.to_owned())));
        Some(Self {
            subject: subject(&format!("Triad: {about}")),
            message: cut(&String::from_utf8_lossy(value)),
            attributes,
        })
    }
}

/// SNS takes printable ASCII in subjects, and refuses the message otherwise.
fn subject(text: &str) -> String {
    let printable = |c: char| if matches!(c, ' '..='~') { c } else { '?' };
    text.chars().map(printable).take(MAX_SUBJECT).collect()
}

fn cut(text: &str) -> String {
    let mut end = text.len().min(MAX_MESSAGE_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(value: &[u8]) -> Option<Notice> {
        Notice::of(&InputRecord {
            value: Some(value.to_vec()),
            ..InputRecord::default()
        })
    }

    #[test]
    fn an_alert_has_a_subject_for_people_and_attributes_for_filters() {
        let text = r#"{"alert_id":"1/Error/7","kind":"order-error","order_id":"1","cause":"payment-refused","at":7}"#;
        let notice = notice(text.as_bytes()).unwrap();
        assert_eq!(notice.subject, "Triad: an order is in Error: 1");
        assert_eq!(notice.message, text);
        let expected = [
            ("kind", "order-error"),
            ("alert_id", "1/Error/7"),
            ("order_id", "1"),
        ];
        let found: Vec<_> = notice
            .attributes
            .iter()
            .map(|(n, v)| (*n, v.as_str()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_subject_is_one_that_sns_takes_whatever_the_order_is_called() {
        let order = "ü\n".repeat(64);
        let text = serde_json::json!({"alert_id": "a", "kind": "compensation-failed",
            "order_id": order, "cause": "c", "at": 7});
        let subject = notice(text.to_string().as_bytes()).unwrap().subject;
        assert!(
            subject.is_ascii() && subject.len() <= MAX_SUBJECT,
            "{subject}"
        );
        assert!(!subject.contains(char::is_control), "{subject}");
    }

    #[test]
    fn what_is_no_alert_is_told_too_and_a_tombstone_is_not() {
        for value in [&b"not json"[..], &[0xff, b'{'], br#"{"kind":"other"}"#] {
            assert!(notice(value).unwrap().subject.contains("unknown form"));
        }
        let large = "é".repeat(MAX_MESSAGE_BYTES);
        assert!(notice(large.as_bytes()).unwrap().message.len() <= MAX_MESSAGE_BYTES);
        assert_eq!(notice(b""), None);
        assert_eq!(Notice::of(&InputRecord::default()), None);
    }
}
