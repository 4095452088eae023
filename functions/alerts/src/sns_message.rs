//! The SNS message of an alert.

use triad_core::message::Alert;
use triad_operator::address::{ConsoleUrl, PageAddress};
use triad_operator::alert;
use triad_runtime::InputRecord;

/// Bound of a message: SNS takes 256 KB with its attributes.
const MAX_MESSAGE_BYTES: usize = 200_000;
/// Bound of an id, of the alert or of its order, in bytes. Triad's own are shorter; the id of another writer must not
/// make a message that SNS refuses each time.
const MAX_ID_BYTES: usize = 1024;
/// Bound of a subject, in characters; SNS's own.
const MAX_SUBJECT: usize = 100;

/// One message to the SNS topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// One line for people: at most 100 printable ASCII characters, other characters replaced by
    /// `?`.
    pub subject: String,
    /// The value of the alert's record as text, cut to at most 200,000 bytes. Where a page shows what the
    /// alert is about, the address of that page is the first field of the object, `link`.
    pub message: String,
    /// Attributes for the filters of subscriptions, by name: `kind`, and `alert_id`, `order_id` and `link`
    /// where the alert has them.
    pub attributes: Vec<(&'static str, String)>,
}

impl Notice {
    /// The message about a record of the topic `alerts`; `None` if the record has no value or an
    /// empty one. `console` is the address of the operators' pages; with `None` the message has no link.
    ///
    /// A value that is not an alert of Triad becomes a message, too, with the kind `unknown` and without a
    /// link. So does one with an id that is empty or has more than 1,024 bytes.
    pub fn of(record: &InputRecord, console: Option<&ConsoleUrl>) -> Option<Self> {
        let value = record.value.as_deref().filter(|v| !v.is_empty())?;
        let alert = serde_json::from_slice::<Alert>(value).ok();
        let Some(alert) = alert.filter(has_ids_of_ours) else {
            return Some(Self {
                subject: "Triad: an alert of unknown form".to_owned(),
                message: cut(&String::from_utf8_lossy(value)),
                attributes: vec![("kind", "unknown".to_owned())],
            });
        };
        let (kind, what) = (alert::name(alert.kind), alert::in_words(alert.kind));
        let link = console.and_then(|at| Some(at.of(&PageAddress::of_alert(&alert)?)));
        let order = alert.order_id.as_deref();
        let about = order.map_or_else(|| what.to_owned(), |order| format!("{what}: {order}"));
        let mut attributes = vec![("kind", kind.to_owned()), ("alert_id", alert.alert_id)];
        attributes.extend(order.map(|order| ("order_id", order.to_owned())));
        let text = String::from_utf8_lossy(value);
        let message = match &link {
            Some(link) => cut(&with(&text, link)),
            None => cut(&text),
        };
        attributes.extend(link.map(|link| ("link", link)));
        Some(Self {
            subject: subject(&format!("Triad: {about}")),
            message,
            attributes,
        })
    }
}

fn has_ids_of_ours(alert: &Alert) -> bool {
    let is_bounded = |id: &str| (1..=MAX_ID_BYTES).contains(&id.len());
    is_bounded(&alert.alert_id) && alert.order_id.as_deref().is_none_or(is_bounded)
}

/// A JSON object with the link as its first field: it stays an object for programs, and people find the address at
/// its beginning. Text that is no object is unchanged.
fn with(object: &str, link: &str) -> String {
    match object.trim_start().strip_prefix('{') {
        // An address of a page needs no escape.
        Some(fields) => format!("{{\"link\":\"{link}\",{fields}"),
        None => object.to_owned(),
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
        linked(value, None)
    }

    fn linked(value: &[u8], console: Option<&str>) -> Option<Notice> {
        let console = console.map(|at| at.parse().expect("an address"));
        let record = InputRecord {
            value: Some(value.to_vec()),
            ..InputRecord::default()
        };
        Notice::of(&record, console.as_ref())
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
    fn where_the_pages_are_known_a_notice_links_to_the_one_that_shows_it() {
        let console = Some("https://triad.example/console/");
        let text = r#"{"alert_id":"a 1/Error/7","kind":"order-error","order_id":"a 1","cause":"c","at":7}"#;
        let notice = linked(text.as_bytes(), console).unwrap();
        let link = "https://triad.example/console/orders/a%201";
        let of_link = |notice: &Notice| {
            let mut named = notice.attributes.iter().filter(|(name, _)| *name == "link");
            named.next().map(|(_, link)| link.clone())
        };
        assert_eq!(of_link(&notice).as_deref(), Some(link));
        assert!(
            notice
                .message
                .starts_with(&format!("{{\"link\":\"{link}\","))
        );
        let mut message: serde_json::Value = serde_json::from_str(&notice.message).unwrap();
        assert_eq!(
            message.as_object_mut().unwrap().remove("link"),
            Some(link.into())
        );
        let told: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(message, told, "nothing else is changed");
        let text =
            r#"{"alert_id":"misconfigured/agent/7","kind":"misconfigured","cause":"c","at":7}"#;
        let notice = linked(text.as_bytes(), console).unwrap();
        assert_eq!(
            (of_link(&notice), &*notice.message),
            (None, text),
            "no page shows it"
        );
        let array = r#"["a/Error/7","order-error","a","c",7]"#;
        let notice = linked(array.as_bytes(), console).unwrap();
        assert_eq!(notice.message, array, "it is no object");
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
        for id in [String::new(), "x".repeat(MAX_ID_BYTES + 1)] {
            let text =
                serde_json::json!({"alert_id": id, "kind": "order-error", "cause": "c", "at": 7});
            let notice = notice(text.to_string().as_bytes()).unwrap();
            assert_eq!(notice.attributes, [("kind", "unknown".to_owned())]);
        }
        let large = "é".repeat(MAX_MESSAGE_BYTES);
        assert!(notice(large.as_bytes()).unwrap().message.len() <= MAX_MESSAGE_BYTES);
        assert_eq!(notice(b""), None);
        assert_eq!(Notice::of(&InputRecord::default(), None), None);
    }
}
