//! Requests and answers of applications: the types from which the OpenAPI document is made.

use std::borrow::Cow;
use std::time::Duration;

use http::{StatusCode, Uri};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use triad_console::answer::Details;
use triad_core::{OrderId, Priority};
use triad_operator::operations::Problem;
use triad_operator::operations::routes::with_kind;
use triad_operator::order::OrderView;

/// The query of a submission.
#[derive(Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubmitQuery {
    /// Waits so long for the order's end, such as `30s`, and answers with the order's record. At most `60s`; not for
    /// a batch.
    pub(crate) wait: Option<String>,
    /// The order's lane; of a batch that of all its orders.
    #[serde(default)]
    pub(crate) priority: Priority,
}

/// The query of a request for an order.
#[derive(Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetQuery {
    /// Waits so long for the order's end, such as `30s`, before it is shown. At most `60s`.
    pub(crate) wait: Option<String>,
}

/// The fields of the path of an order.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct OrderPath {
    /// The order's id, percent-encoded where a path needs it.
    #[schemars(length(min = 1, max = 128))]
    id: String,
}

/// The headers of a submission.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct SubmitHeaders {
    /// W3C Trace Context: the trace that the order's messages belong to.
    traceparent: String,
}

/// Reads the query of a request. An unknown or repeated parameter is an error.
pub(crate) fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    let read = serde_urlencoded::from_str(uri.query().unwrap_or_default());
    read.map_err(|e| {
        let why: String = e.to_string().chars().take(200).collect();
        Problem::bad("bad-query", format!("the query: {why}"))
    })
}

/// Reads how long a request waits; `longest` is the most that it may ask for.
pub(crate) fn wait(text: Option<&str>, longest: Duration) -> Result<Option<Duration>, Problem> {
    let bad = |why: String| Problem::bad("bad-wait", why);
    let Some(text) = text else { return Ok(None) };
    let wait = humantime::parse_duration(text)
        .map_err(|e| bad(format!("wait is no duration such as 30s: {e}")))?;
    if wait > longest {
        let longest = humantime::format_duration(longest);
        return Err(bad(format!("wait is {longest} at most")));
    }
    Ok(Some(wait))
}

/// What came of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Taken {
    /// The order is new.
    Accepted,
    /// The same order was submitted before.
    #[serde(rename = "again")]
    Repeated,
}

impl Taken {
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::Accepted => StatusCode::CREATED,
            Self::Repeated => StatusCode::OK,
        }
    }
}

/// What an answer is about.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub(crate) enum Kind {
    Submitted,
}

/// The answer for an order that was taken.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Submitted<'a> {
    pub(crate) kind: Kind,
    /// The order's id.
    #[schemars(with = "String")]
    pub(crate) order_id: &'a OrderId,
    pub(crate) result: Taken,
    /// The order's record, with `wait`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OrderRecord>")]
    pub(crate) order: Option<Value>,
}

/// The schema of an order's record.
pub(crate) struct OrderRecord;

impl JsonSchema for OrderRecord {
    fn schema_name() -> Cow<'static, str> {
        "Order".into()
    }

    fn json_schema(of: &mut SchemaGenerator) -> Schema {
        with_kind(OrderView::json_schema(of), "order")
    }
}

/// The answer for one line of a batch.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
#[schemars(rename = "BatchLine")]
pub(crate) enum LineAnswer<'a> {
    /// The order of the line was taken.
    Taken {
        /// The line's number, from 1; blank lines are counted.
        line: usize,
        /// 201 for a new order, 200 for one that was submitted before.
        status: u16,
        /// The order's id.
        #[schemars(with = "String")]
        order_id: &'a OrderId,
        result: Taken,
    },
    /// The order of the line was not taken.
    Refused {
        /// The line's number, from 1; blank lines are counted.
        line: usize,
        #[serde(flatten)]
        problem: Details<'a>,
    },
}

/// The state of the server.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Status")]
pub(crate) struct Health {
    pub(crate) status: HealthStatus,
}

/// Whether the server is well.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub(crate) enum HealthStatus {
    /// The process is up.
    Up,
    /// Orders are taken.
    Ready,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_strictly() {
        let longest = Duration::from_secs(60);
        let read = |text: &str| {
            let uri: Uri = format!("/v1/orders?{text}").parse().unwrap();
            let read: SubmitQuery = query(&uri)?;
            Ok((wait(read.wait.as_deref(), longest)?, read.priority))
        };
        let read = |text: &str| read(text).map_err(|p: Problem| p.code.into_owned());
        assert_eq!(read(""), Ok((None, Priority::Normal)));
        assert_eq!(
            read("wait=1m&priority=high"),
            Ok((Some(longest), Priority::High))
        );
        assert_eq!(read("wait=0s").unwrap().0, Some(Duration::ZERO));
        for (text, code) in [
            ("wait=61s", "bad-wait"),
            ("wait=30", "bad-wait"),
            ("wait=", "bad-wait"),
            ("wait=-1s", "bad-wait"),
            ("wait=99999999999999999999y", "bad-wait"),
            ("priority=HIGH", "bad-query"),
            ("waits=1s", "bad-query"),
            ("wait=1s&wait=1s", "bad-query"),
            ("%FF=1", "bad-query"),
        ] {
            assert_eq!(read(text), Err(code.to_owned()), "{text}");
        }
    }
}
