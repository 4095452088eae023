//! Which orders and which dead letters: the filters of every query and act.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use triad_core::Timestamp;
use triad_workflow::{Millis, SearchKey};

use super::hidden::Hidden;
use super::problem::Problem;
use crate::dead_letters::LetterFilter;
use crate::find::{CausePattern, Filter, StateFilter, UnknownState};

/// Which orders: those that fit every field that is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "cli", derive(clap::Args))]
#[cfg_attr(feature = "cli", command(next_help_heading = "Which orders"))]
#[serde(default)]
pub struct OrderFilter {
    /// Orders with this search key of their workflow: its name, = and the whole value, such as customer=ALFKI.
    #[cfg_attr(feature = "cli", arg(long, value_name = "NAME=VALUE"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
    /// Orders in this state: Pending, Processing, Processed, Error, Compensating, Compensated, CompensationFailed,
    /// Paused, or UnderWay for all that are not finished.
    #[cfg_attr(feature = "cli", arg(long, value_name = "STATE"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Orders whose cause has this fingerprint, as the list by cause shows it; a * at its end matches anything.
    #[cfg_attr(feature = "cli", arg(long, value_name = "FINGERPRINT"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Orders of this workflow.
    #[cfg_attr(feature = "cli", arg(long, value_name = "NAME"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Orders whose age is at least this, such as 2h: since they finished or were paused; of others, since they were
    /// submitted.
    #[cfg_attr(feature = "cli", arg(long, value_name = "TIME"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub older_than: Option<String>,
    /// Orders whose age is less than this, such as 1d.
    #[cfg_attr(feature = "cli", arg(long, value_name = "TIME"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer_than: Option<String>,
    /// Orders whose failure has this text in its message.
    #[cfg_attr(feature = "cli", arg(long, value_name = "TEXT"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Child orders of the order with this id.
    #[cfg_attr(feature = "cli", arg(long, value_name = "ORDER"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Orders that wait for this event.
    #[cfg_attr(feature = "cli", arg(long, value_name = "EVENT"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Orders with this text in their id.
    #[cfg_attr(feature = "cli", arg(long = "id", value_name = "TEXT"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// A text that is there and not blank.
pub(super) fn said(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.trim().is_empty())
}

fn bad(text: String) -> Problem {
    Problem::bad("bad-filter", text)
}

impl OrderFilter {
    /// The names of its fields.
    pub const NAMES: [&str; 10] = [
        "search",
        "state",
        "cause",
        "workflow",
        "older_than",
        "newer_than",
        "error",
        "parent",
        "event",
        "id",
    ];

    /// The value of a field that is given and not blank, by its name; `None` for another name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        said(match name {
            "search" => &self.search,
            "state" => &self.state,
            "cause" => &self.cause,
            "workflow" => &self.workflow,
            "older_than" => &self.older_than,
            "newer_than" => &self.newer_than,
            "error" => &self.error,
            "parent" => &self.parent,
            "event" => &self.event,
            "id" => &self.id,
            _ => &None,
        })
    }

    /// Whether no field is given, so that every order fits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        Self::NAMES.iter().all(|name| self.get(name).is_none())
    }

    /// The text in a failure's message. Refused where fields are hidden: an answer would confirm what a message repeats
    /// of them.
    fn error(&self, hidden: &Hidden) -> Result<Option<String>, Problem> {
        match said(&self.error) {
            Some(_) if !hidden.is_empty() => {
                let text = "error: texts of failures are not searched where fields are hidden";
                Err(bad(text.to_owned()))
            }
            text => Ok(text.map(str::to_owned)),
        }
    }

    /// The filter. A blank field counts as not given. A search key whose value is hidden is refused: an answer would
    /// confirm its value.
    ///
    /// # Errors
    /// [`Problem`] `bad-filter` naming the field that cannot be read or is hidden.
    pub fn read(&self, hidden: &Hidden) -> Result<Filter, Problem> {
        let state = said(&self.state).map(str::parse::<StateFilter>).transpose();
        let state = state.map_err(|e: UnknownState| bad(format!("state {:?} {e}", e.0)))?;
        let search = match said(&self.search) {
            None => None,
            Some(text) => {
                let key = text.parse::<SearchKey>();
                Some(key.map_err(|e| bad(format!("search {text:?} {e}")))?)
            }
        };
        if let Some(key) = &search
            && hidden.hides(key.name().as_str())
        {
            let text = format!("search: {} is hidden here", key.name().as_str());
            return Err(bad(text));
        }
        Ok(Filter {
            state,
            search,
            cause: said(&self.cause).map(|cause| CausePattern(cause.to_owned())),
            workflow: said(&self.workflow).map(str::to_owned),
            older_than: span("older_than", &self.older_than)?,
            newer_than: span("newer_than", &self.newer_than)?,
            error: self.error(hidden)?,
            parent: said(&self.parent).map(|id| id.trim().to_owned()),
            event: said(&self.event).map(|event| event.trim().to_owned()),
            id: said(&self.id).map(|text| text.trim().to_owned()),
        })
    }
}

/// Which dead letters: those that fit every field that is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "cli", derive(clap::Args))]
#[serde(default)]
pub struct DeadLetterFilter {
    /// Only letters with this cause, such as not-json.
    #[cfg_attr(feature = "cli", arg(long, value_name = "CODE"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Only letters of records of this topic.
    #[cfg_attr(feature = "cli", arg(long, value_name = "TOPIC"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Only letters not older than this, such as 2h; the topic is read from there on.
    #[cfg_attr(feature = "cli", arg(long, value_name = "TIME"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

impl DeadLetterFilter {
    /// The names of its fields.
    pub const NAMES: [&str; 3] = ["cause", "topic", "since"];

    /// The value of a field that is given and not blank, by its name; `None` for another name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        said(match name {
            "cause" => &self.cause,
            "topic" => &self.topic,
            "since" => &self.since,
            _ => &None,
        })
    }

    /// The filter, with `since` as a moment before `now`. A blank field counts as not given.
    ///
    /// # Errors
    /// [`Problem`] `bad-filter` if `since` is no time span.
    pub fn read(&self, now: Timestamp) -> Result<LetterFilter, Problem> {
        Ok(LetterFilter {
            cause: said(&self.cause).map(str::to_owned),
            topic: said(&self.topic).map(str::to_owned),
            since: span("since", &self.since)?.map(|span| now.minus(span)),
            ..LetterFilter::default()
        })
    }
}

/// A time span such as `2h`; `None` if the text is blank or not given.
pub(super) fn span(name: &str, text: &Option<String>) -> Result<Option<Millis>, Problem> {
    let span = said(text).map(|text| Millis::try_from(text.to_owned()));
    span.transpose().map_err(|e| bad(format!("{name} {e}")))
}
