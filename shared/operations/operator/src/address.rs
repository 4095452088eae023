//! Addresses of the operators' pages, for the pages themselves, notices of alerts and log lines.
//!
//! This module only makes texts. The console answers requests for these addresses; its tests check that it answers
//! each of them.

use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use triad_core::message::{Alert, AlertKind};
use triad_runtime::dead_letter::LetterId;

/// The beginning of every page's path, without a slash at its end.
pub const ROOT: &str = "/console";

/// Characters that a path segment keeps unencoded.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Encodes a text so that it can be one part of a path, or a value of a query: characters that have a meaning
/// there are percent-encoded.
///
/// # Example
/// ```
/// assert_eq!(triad_operator::address::in_path("a/b 1"), "a%2Fb%201");
/// ```
#[must_use]
pub fn in_path(text: &str) -> String {
    utf8_percent_encode(text, KEPT).to_string()
}

/// A page that shows one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageAddress<'a> {
    /// The order with this id.
    Order(&'a str),
    /// The campaign with this id.
    Campaign(&'a str),
    /// The downstream of this name: its row in the page of all downstreams.
    Downstream(&'a str),
    /// The dead letter with this id.
    DeadLetter(LetterId),
}

impl<'a> PageAddress<'a> {
    /// The page that shows what an alert is about; `None` if there is no such page, or the alert does not
    /// name the thing.
    ///
    /// For an alert that is not about an order, the name is taken from the alert's id:
    /// `dead-letter/<letter>`, `downstream/<agent>/<moment>`, `campaign/<campaign>/<moment>`.
    #[must_use]
    pub fn of_alert(alert: &'a Alert) -> Option<Self> {
        match alert.kind {
            AlertKind::OrderError
            | AlertKind::CompensationFailed
            | AlertKind::OrderLate
            | AlertKind::EventsUnused
            | AlertKind::Unreadable => alert.order_id.as_deref().map(Self::Order),
            AlertKind::DeadLetter => {
                let letter = alert.alert_id.strip_prefix("dead-letter/")?;
                letter.parse().ok().map(Self::DeadLetter)
            }
            AlertKind::Breaker => named(&alert.alert_id, "downstream/").map(Self::Downstream),
            AlertKind::CampaignStopped => named(&alert.alert_id, "campaign/").map(Self::Campaign),
            // A wrong setting belongs to no order and no page: the alert has all the details.
            AlertKind::Misconfigured => None,
        }
    }

    /// The path of the page, beginning with [`ROOT`]; for a downstream with `#` and the id of its row.
    #[must_use]
    pub fn path(&self) -> String {
        match self {
            Self::Order(id) => format!("{ROOT}/orders/{}", in_path(id)),
            Self::Campaign(id) => format!("{ROOT}/campaigns/{}", in_path(id)),
            Self::Downstream(name) => format!("{ROOT}/downstreams#{}", row(name)),
            Self::DeadLetter(id) => {
                let topic = in_path(&id.topic);
                format!("{ROOT}/dead-letters/{topic}/{}/{}", id.partition, id.offset)
            }
        }
    }
}

/// The name between a prefix and the moment at the end.
fn named<'a>(id: &'a str, beginning: &str) -> Option<&'a str> {
    let (name, _moment) = id.strip_prefix(beginning)?.rsplit_once('/')?;
    (!name.is_empty()).then_some(name)
}

/// The HTML id of a downstream's row in the page of all downstreams.
#[must_use]
pub fn row(downstream: &str) -> String {
    format!("downstream-{}", in_path(downstream))
}

/// The address at which browsers reach the pages of an installation. It is read from a text: `http` or `https`, a
/// host and perhaps a port, and no other path than [`ROOT`].
///
/// # Example
/// ```
/// use triad_operator::address::{ConsoleUrl, PageAddress};
/// let console: ConsoleUrl = "https://triad.example/console/".parse().unwrap();
/// assert_eq!(console.of(&PageAddress::Order("7")), "https://triad.example/console/orders/7");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleUrl(String);

/// The error for a text that is not the address of a console. It does not show the text, which may have a
/// password in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "is not the address of a console: http or https, a host and perhaps a port, and no other path than \
     {ROOT}/, such as https://triad.example/console/"
)]
pub struct InvalidConsoleUrl;

impl ConsoleUrl {
    /// The whole address of a page, such as `https://triad.example/console/orders/7`.
    #[must_use]
    pub fn of(&self, place: &PageAddress<'_>) -> String {
        format!("{}{}", self.0, place.path())
    }
}

impl FromStr for ConsoleUrl {
    type Err = InvalidConsoleUrl;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim().trim_end_matches('/');
        let origin = text.strip_suffix(ROOT).unwrap_or(text);
        let host = ["https://", "http://"]
            .iter()
            .find_map(|s| origin.strip_prefix(s));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        match host.is_some_and(|host| !host.is_empty() && host.chars().all(is_plain)) {
            true => Ok(Self(origin.to_owned())),
            false => Err(InvalidConsoleUrl),
        }
    }
}

#[cfg(test)]
mod tests {
    use triad_core::downstream::Downstream;
    use triad_core::{Envelope, Timestamp};
    use triad_runtime::InputRecord;
    use triad_runtime::dead_letter::{Cause, dead_letter};
    use triad_workflow::AgentName;

    use super::*;

    fn sent(message: &Envelope) -> Alert {
        serde_json::from_slice(&message.value).expect("an alert")
    }

    fn path_of(alert: &Alert) -> Option<String> {
        PageAddress::of_alert(alert).map(|place| place.path())
    }

    #[test]
    fn an_alert_about_an_order_leads_to_the_order_whatever_its_id_holds() {
        for kind in [
            "order-error",
            "compensation-failed",
            "order-late",
            "unreadable",
        ] {
            let of = |order: &str| {
                let alert = serde_json::json!({"alert_id": "x", "kind": kind, "order_id": order,
                    "cause": "c", "at": 7});
                path_of(&serde_json::from_value(alert).expect("an alert"))
            };
            assert_eq!(
                of("10248").as_deref(),
                Some("/console/orders/10248"),
                "{kind}"
            );
            let odd = of("ü?#%\" 1").expect("a page");
            assert_eq!(odd, "/console/orders/%C3%BC%3F%23%25%22%201");
        }
    }

    #[test]
    fn an_alert_as_it_is_sent_leads_to_its_dead_letter_or_its_downstream() {
        let record = InputRecord {
            topic: "orders".into(),
            partition: 3,
            offset: 42,
            ..InputRecord::default()
        };
        let cause = Cause::new("not-json", "no");
        let [_, alert] = dead_letter(&record, &cause, Timestamp(7));
        let letter = path_of(&sent(&alert));
        assert_eq!(letter.as_deref(), Some("/console/dead-letters/orders/3/42"));
        let agent = AgentName::new("payment").expect("a name");
        let downstream = path_of(&sent(&Downstream::default().event(&agent)));
        let expected = "/console/downstreams#downstream-payment";
        assert_eq!(downstream.as_deref(), Some(expected));
    }

    #[test]
    fn an_alert_that_no_page_shows_leads_nowhere() {
        for (kind, id) in [
            ("misconfigured", "misconfigured/agent/7"),
            ("order-error", "7/Error/7"),
            ("dead-letter", "dead-letter/orders"),
            ("breaker", "downstream//7"),
            ("campaign-stopped", "campaign/7"),
        ] {
            let alert = serde_json::json!({"alert_id": id, "kind": kind, "cause": "c", "at": 7});
            let alert = serde_json::from_value(alert).expect("an alert");
            assert_eq!(path_of(&alert), None, "{kind}");
        }
    }

    #[test]
    fn where_the_pages_are_is_a_scheme_a_host_and_a_port() {
        let order = PageAddress::Order("7");
        for text in [
            "https://triad.example",
            "https://triad.example/",
            "https://triad.example/console",
            " https://triad.example/console/ ",
        ] {
            let url: ConsoleUrl = text.parse().expect(text);
            assert_eq!(url.of(&order), "https://triad.example/console/orders/7");
        }
        let url: ConsoleUrl = "http://[::1]:7070/console/".parse().expect("it is one");
        assert_eq!(url.of(&order), "http://[::1]:7070/console/orders/7");
        for text in [
            "",
            "triad.example",
            "ftp://triad.example",
            "https://",
            "https:///console/",
            "https://ann@triad.example",
            "https://triad.example/ops/console",
            "https://triad.example/console?x=1",
            "https://triad.example/console#x",
            "javascript:alert(1)//",
        ] {
            assert_eq!(text.parse::<ConsoleUrl>(), Err(InvalidConsoleUrl), "{text}");
        }
    }
}
