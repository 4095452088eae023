//! An order as an application submits it, and the rule by which two submissions are equal.

mod not_an_order;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use triad_workflow::duration::MAX_SPAN;
use triad_workflow::names::check_name;
use triad_workflow::{Millis, Workflow, WorkflowName, moment, numbers};

use crate::ids::{NotPortable, OrderId, Priority, Timestamp};

use not_an_order::{registered, why_not};

/// Largest submission, in bytes, inclusive: 256 KiB. It bounds both the value as it comes and its
/// details as they are stored, because numbers may grow when they are written again. DynamoDB's
/// items end at 400 KB.
pub const MAX_SUBMISSION_BYTES: usize = 256 * 1024;

/// An order as a bare JSON object: all that an application needs to send. Unknown fields are an
/// error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "NewOrder")
)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// Id of the order, chosen by the application: the same id is the same order. It has 1 to 128 ASCII letters,
    /// digits and `- _ . ~ : @ = ,`, and begins with a letter or a digit.
    #[cfg_attr(
        feature = "schema",
        schemars(
            with = "String",
            regex(pattern = r"^[a-zA-Z0-9][a-zA-Z0-9_.~:@=,-]{0,127}$")
        )
    )]
    pub order_id: OrderId,
    /// Name of the workflow to run, in the version that is published now.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub workflow: WorkflowName,
    /// The order's details, which the workflow's expressions read; at most 256 KiB as JSON. Absent: an empty
    /// object.
    #[serde(default)]
    pub details: Map<String, Value>,
    /// Topic for status messages; it begins with `reply.` and is on the installation's allow-list. Absent: the
    /// topic `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_topic: Option<String>,
    /// Before when no step starts, in JSON a text such as `2026-12-24T08:00:00+01:00`: at most 366 days ahead when
    /// the order is taken. Absent, or in the past: the order starts at once.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "start_at")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<String>", extend("format" = "date-time"))
    )]
    pub start_at: Option<Timestamp>,
    /// Longest time of this order from its start to its end, in JSON a text such as `30m`: at least `1s`.
    /// If the workflow has a shorter one, that counts. Absent: that of the workflow counts, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_timeout: Option<Millis>,
}

/// What some producers write before a text in UTF-8. It is no part of the order.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Shortest time within which an order may ask to be completed, inclusive: 1 s.
pub const LEAST_ORDER_TIMEOUT: Millis = Millis(1_000);

/// Why a submission cannot be taken, now or ever. A record with such a submission is dead-lettered
/// with this cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmissionRefusal {
    /// The Kafka record has no value: it is a tombstone.
    #[error("the record has no value (a tombstone)")]
    Tombstone,
    /// The value, or its details as they are stored, has this many bytes: more than
    /// [`MAX_SUBMISSION_BYTES`].
    #[error("the order has {0} bytes; {MAX_SUBMISSION_BYTES} are allowed")]
    TooLarge(usize),
    /// The value is not UTF-8; the text says where.
    #[error("the value is not UTF-8: {0}")]
    NotUtf8(String),
    /// The value is not JSON, or more than 127 of its lists and objects are one inside another; the text says
    /// where.
    #[error("the value is not JSON: {0}")]
    NotJson(String),
    /// The value is JSON, and is not an object or has a field twice; the text says which.
    #[error("the value is not an order: {0}")]
    NotAnOrder(String),
    /// The order has a field that orders do not have; the text says which, and what else is wrong.
    #[error("{0}")]
    UnknownField(String),
    /// The order lacks a field; the text says which, and what else is wrong.
    #[error("{0}")]
    MissingField(String),
    /// A field of the order has a value of the wrong kind; the text says which, and what else is wrong.
    #[error("{0}")]
    WrongField(String),
    /// The details have a number at this place that would be rounded: a whole one beyond 64 bits, or one with more
    /// digits than a floating-point number has.
    #[error("the number at {0} would be rounded: send it as a text")]
    Number(String),
    /// The details do not fit the workflow's `details_schema`; the text says where.
    #[error("the details do not fit workflow {workflow}: {misfits}")]
    Details {
        /// Name of the workflow.
        workflow: String,
        /// Where they do not fit, and why.
        misfits: String,
    },
    /// The order's id, given here, is not [portable](OrderId::check_portable).
    #[error("the order id {0:?} cannot be taken: {NotPortable}")]
    OrderId(String),
    /// The order asks to be completed within this time, which is below [`LEAST_ORDER_TIMEOUT`].
    #[error("order_timeout is {0}; at least {LEAST_ORDER_TIMEOUT} is allowed")]
    OrderTimeout(Millis),
    /// The order asks to be started at this moment, which is more than [`MAX_SPAN`] ahead.
    #[error("start_at is {}, more than 366 days ahead", moment::text(.0.0))]
    StartAt(Timestamp),
    /// No workflow of this name is published.
    #[error("there is no workflow {0}")]
    UnknownWorkflow(String),
    /// The reply topic, given here, is not on the allow-list, or has not the form `reply.<name>`.
    #[error("the reply topic {0:?} is not on the allow-list")]
    ReplyTopic(String),
    /// The store refuses the order's item, now and at every later try; the text says why.
    #[error("the order cannot be stored: {0}")]
    Unstorable(String),
    /// This order id is taken by an order with different content.
    #[error("order {0} exists already with different content")]
    Conflict(String),
}

impl SubmissionRefusal {
    /// The codes of all refusals, each once; [`code`](Self::code) returns one of these.
    pub const CODES: [&str; 17] = [
        "tombstone",
        "too-large",
        "not-utf8",
        "not-json",
        "not-an-order",
        "unknown-field",
        "missing-field",
        "wrong-field",
        "number-out-of-range",
        "order-id",
        "order-timeout",
        "start-at",
        "unknown-workflow",
        "details-do-not-fit",
        "reply-topic",
        "unstorable",
        "conflicting-submission",
    ];

    /// The refusal's name: short and stable, fit for grouping, such as `not-utf8`; one of
    /// [`CODES`](Self::CODES).
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Tombstone => "tombstone",
            Self::TooLarge(_) => "too-large",
            Self::NotUtf8(_) => "not-utf8",
            Self::NotJson(_) => "not-json",
            Self::NotAnOrder(_) => "not-an-order",
            Self::UnknownField(_) => "unknown-field",
            Self::MissingField(_) => "missing-field",
            Self::WrongField(_) => "wrong-field",
            Self::Number(_) => "number-out-of-range",
            Self::Details { .. } => "details-do-not-fit",
            Self::OrderId(_) => "order-id",
            Self::OrderTimeout(_) => "order-timeout",
            Self::StartAt(_) => "start-at",
            Self::UnknownWorkflow(_) => "unknown-workflow",
            Self::ReplyTopic(_) => "reply-topic",
            Self::Unstorable(_) => "unstorable",
            Self::Conflict(_) => "conflicting-submission",
        }
    }
}

impl Submission {
    /// Reads the value of a record of the topic `orders` or `orders.high`; `None` is a tombstone. A byte order mark is
    /// passed over. Whether the
    /// workflow exists, the details fit it and the reply topic is allowed is not checked here.
    ///
    /// # Errors
    /// The first of these that applies. For the value as a whole: [`SubmissionRefusal::Tombstone`],
    /// [`TooLarge`](SubmissionRefusal::TooLarge), [`NotUtf8`](SubmissionRefusal::NotUtf8),
    /// [`NotJson`](SubmissionRefusal::NotJson), and [`NotAnOrder`](SubmissionRefusal::NotAnOrder) if it is
    /// not an object. For its fields, all that is wrong with them in one text:
    /// [`UnknownField`](SubmissionRefusal::UnknownField), [`MissingField`](SubmissionRefusal::MissingField),
    /// [`WrongField`](SubmissionRefusal::WrongField). Then [`Number`](SubmissionRefusal::Number) if a number would
    /// not be kept as it is, [`OrderId`](SubmissionRefusal::OrderId) if the id
    /// cannot be any order's, [`NotAnOrder`](SubmissionRefusal::NotAnOrder) if a field stands twice,
    /// [`TooLarge`](SubmissionRefusal::TooLarge) if the details are too large as they are stored,
    /// [`OrderId`](SubmissionRefusal::OrderId) if the id is not portable, and
    /// [`OrderTimeout`](SubmissionRefusal::OrderTimeout).
    ///
    /// # Example
    /// ```
    /// use triad_core::submission::Submission;
    /// let order = Submission::decode(Some(br#"{"order_id": "7", "workflow": "w"}"#)).unwrap();
    /// assert_eq!(order.order_id.as_str(), "7");
    /// assert!(Submission::decode(None).is_err());
    /// ```
    pub fn decode(value: Option<&[u8]>) -> Result<Self, SubmissionRefusal> {
        let bytes = value.ok_or(SubmissionRefusal::Tombstone)?;
        if bytes.len() > MAX_SUBMISSION_BYTES {
            return Err(SubmissionRefusal::TooLarge(bytes.len()));
        }
        if let Some(why) = registered(bytes) {
            return Err(SubmissionRefusal::NotAnOrder(why));
        }
        let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        let text =
            std::str::from_utf8(bytes).map_err(|e| SubmissionRefusal::NotUtf8(e.to_string()))?;
        // The parser would accept a list as the fields in their order.
        if text.trim_start().starts_with('[') {
            return Err(why_not(text, &"it is a list"));
        }
        // The parser refuses nesting deeper than 128.
        let order: Self = serde_json::from_str(text).map_err(|e| why_not(text, &e))?;
        if let Some(place) = numbers::altered(text) {
            return Err(SubmissionRefusal::Number(place));
        }
        let stored = serde_json::to_string(&order.details).map_or(0, |json| json.len());
        if stored > MAX_SUBMISSION_BYTES {
            return Err(SubmissionRefusal::TooLarge(stored));
        }
        let id = &order.order_id;
        id.check_portable()
            .map_err(|_| SubmissionRefusal::OrderId(id.to_string()))?;
        if check_name(order.workflow.as_str()).is_err() {
            let why = format!(
                "{} is run by orders of another workflow alone",
                order.workflow
            );
            return Err(SubmissionRefusal::WrongField(why));
        }
        match order.order_timeout {
            Some(within) if within < LEAST_ORDER_TIMEOUT => {
                Err(SubmissionRefusal::OrderTimeout(within))
            }
            _ => Ok(order),
        }
    }

    /// The order id and the reply topic of a submission, as far as they can be read from a value that need
    /// not be a valid order: the address of a status `rejected`. `None` if there is no value, if it is too
    /// large or not JSON, has no order id that a new order may have, or has a reply topic that is neither a
    /// text nor null. The topic in the answer is `None` if the value names none; whether it is allowed is not
    /// checked.
    #[must_use]
    pub fn sender(value: Option<&[u8]>) -> Option<(OrderId, Option<String>)> {
        let bytes = value.filter(|bytes| bytes.len() <= MAX_SUBMISSION_BYTES)?;
        let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let id = OrderId::new(value.get("order_id")?.as_str()?).ok()?;
        id.check_portable().ok()?;
        let topic = match value.get("reply_topic") {
            None | Some(Value::Null) => None,
            Some(topic) => Some(topic.as_str()?.to_owned()),
        };
        Some((id, topic))
    }

    /// When the order starts if it is accepted at `now`; `None`: at once.
    ///
    /// # Errors
    /// [`SubmissionRefusal::StartAt`].
    pub fn starts_later(&self, now: Timestamp) -> Result<Option<Timestamp>, SubmissionRefusal> {
        match self.start_at.filter(|at| *at > now) {
            Some(at) if at > now.plus(MAX_SPAN) => Err(SubmissionRefusal::StartAt(at)),
            at => Ok(at),
        }
    }

    /// By when the order must have finished if it starts at `now`: `now` plus its own order timeout or
    /// its workflow's, whichever is shorter. `None` if neither has one. Without a workflow its own alone counts.
    #[must_use]
    pub fn deadline(&self, workflow: Option<&Workflow>, now: Timestamp) -> Option<Timestamp> {
        let own = workflow.and_then(|workflow| workflow.order_timeout);
        let asked = [self.order_timeout, own];
        let within = asked.into_iter().flatten().min();
        within.map(|within| now.plus(within))
    }

    /// A digest of all that a submission asks for: the first 16 bytes of SHA-256, as 32 lower-case
    /// hexadecimal digits, over the workflow's name, details, reply topic, priority, order timeout and start. If an order id is submitted again, an equal digest means the same submission, and another
    /// one a conflict.
    #[must_use]
    pub fn digest(&self, priority: Priority) -> String {
        let mut content = Sha256::new();
        add_text(&mut content, self.workflow.as_str());
        add_fields(&mut content, &self.details);
        add_text(
            &mut content,
            self.reply_topic.as_deref().unwrap_or_default(),
        );
        content.update([match priority {
            Priority::Normal => 0,
            Priority::High => 1,
        }]);
        let within = self.order_timeout.map_or(u64::MAX, |within| within.0);
        content.update(within.to_be_bytes());
        // Absent from the digests that stores had before orders could start later.
        if let Some(at) = self.start_at {
            content.update(at.0.to_be_bytes());
        }
        let digest = content.finalize();
        digest[..16].iter().map(|b| format!("{b:02x}")).collect()
    }
}

/// The moment of [`Submission::start_at`], a text; one without an offset is in UTC.
mod start_at {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use triad_workflow::moment::{self, Tz, moment};

    use crate::ids::Timestamp;

    pub(super) fn serialize<S: Serializer>(
        at: &Option<Timestamp>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => to.serialize_str(&moment::text(at.0)),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        let read = text.map(|text| moment(&text, Tz::UTC).map(Timestamp));
        read.transpose().map_err(de::Error::custom)
    }
}

// This code alone defines the bytes of a digest: another version of a library may write the same value as other text,
// and then a resubmitted order would be a conflict.

/// Adds a value to a digest: its kind, and then its parts, each with its length.
fn add_value(content: &mut Sha256, value: &Value) {
    match value {
        Value::Null => content.update(b"z"),
        Value::Bool(is) => content.update([b'b', u8::from(*is)]),
        Value::Number(number) => {
            let (kind, bits) = match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(whole), ..) => (b'u', whole.to_be_bytes()),
                (None, Some(whole), _) => (b'i', whole.to_be_bytes()),
                (None, None, float) => (b'f', float.unwrap_or_default().to_be_bytes()),
            };
            content.update([kind]);
            content.update(bits);
        }
        Value::String(text) => {
            content.update(b"s");
            add_text(content, text);
        }
        Value::Array(items) => {
            content.update(b"a");
            add_length(content, items.len());
            items.iter().for_each(|item| add_value(content, item));
        }
        Value::Object(fields) => {
            content.update(b"o");
            add_fields(content, fields);
        }
    }
}

fn add_fields(content: &mut Sha256, fields: &Map<String, Value>) {
    let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
    sorted.sort_unstable_by_key(|(name, _)| *name);
    add_length(content, sorted.len());
    for (name, value) in sorted {
        add_text(content, name);
        add_value(content, value);
    }
}

fn add_text(content: &mut Sha256, text: &str) {
    add_length(content, text.len());
    content.update(text.as_bytes());
}

fn add_length(content: &mut Sha256, length: usize) {
    content.update((length as u64).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_order_is_told_by_its_own_cause() {
        for (value, code, said) in [
            ("", "not-json", "EOF"),
            ("{\"order_id\": \"7\"", "not-json", "line 1"),
            ("{'order_id': '7'}", "not-json", "key"),
            ("[]", "not-an-order", "each order as a record of its own"),
            ("\"{}\"", "not-an-order", "it was encoded twice"),
            ("\"7\"", "not-an-order", "not its text"),
            (
                "\0\0\0\0\u{2a}{}",
                "not-an-order",
                "a schema registry's magic byte, schema 42",
            ),
            (
                r#"{"specversion": "1.0", "type": "t", "id": "e", "data": {"order_id": "7"}}"#,
                "not-an-order",
                "a CloudEvent in structured mode",
            ),
            (
                r#"{"schema": null, "payload": {"order_id": "7"}}"#,
                "not-an-order",
                "an envelope of Kafka Connect",
            ),
            (
                r#"{"before": null, "after": {"order_id": "7"}, "op": "c"}"#,
                "not-an-order",
                "a change event of Debezium",
            ),
            (
                r#"{"order_id": "7", "workflow": "w", "details": {"a": "\ud83d"}}"#,
                "not-json",
                "half of a character",
            ),
            ("7", "not-an-order", "no object"),
            (
                r#"{"order_id": "7", "order_id": "8", "workflow": "w"}"#,
                "not-an-order",
                "duplicate",
            ),
            (
                "{}",
                "missing-field",
                "\"order_id\" is missing; the field \"workflow\" is missing",
            ),
            (
                r#"{"order_id": "7"}"#,
                "missing-field",
                "\"workflow\" is missing",
            ),
            (
                r#"{"order_id": "7", "workflow": "w", "detials": {}}"#,
                "unknown-field",
                "did you mean \"details\"?",
            ),
            (
                r#"{"orderId": "7", "workflow": "w"}"#,
                "unknown-field",
                "did you mean \"order_id\"?",
            ),
            (
                r#"{"order_id": "7", "workflow": "w", "amount": 3}"#,
                "unknown-field",
                "belongs into \"details\"",
            ),
            (
                r#"{"x": 1, "order_id": 7}"#,
                "unknown-field",
                "\"workflow\" is missing; \"order_id\" is a number",
            ),
            (
                r#"{"order_id": 7, "workflow": "w"}"#,
                "wrong-field",
                "\"order_id\" is a number, and has to be a text",
            ),
            (
                r#"{"order_id": "7", "workflow": "W W"}"#,
                "wrong-field",
                "not a valid name",
            ),
            (
                r#"{"order_id": "7", "workflow": "w", "details": []}"#,
                "wrong-field",
                "\"details\" is a list, and has to be an object",
            ),
            (
                r#"{"order_id": "7", "workflow": "w", "details": null}"#,
                "wrong-field",
                "null",
            ),
            (
                r#"{"order_id": "7", "workflow": "w", "reply_topic": 3}"#,
                "wrong-field",
                "reply_topic",
            ),
            (
                r#" ["7", "w", {}, null, null]"#,
                "not-an-order",
                "it is a list",
            ),
            (
                r#"{"order_id": "a/b", "workflow": "w"}"#,
                "order-id",
                "a-z, A-Z, 0-9",
            ),
            (
                r#"{"order_id": "", "workflow": "w"}"#,
                "order-id",
                "1 to 128",
            ),
        ] {
            let refusal = Submission::decode(Some(value.as_bytes())).expect_err(value);
            assert_eq!(refusal.code(), code, "{value}: {refusal}");
            assert!(refusal.to_string().contains(said), "{value}: {refusal}");
            assert!(SubmissionRefusal::CODES.contains(&code));
        }
        let deep = format!("{{\"details\": {}", "[".repeat(200));
        let refusal = Submission::decode(Some(deep.as_bytes())).expect_err("too deep");
        assert_eq!(refusal.code(), "not-json");
    }

    #[test]
    fn the_sender_is_known_of_what_is_no_order_where_it_can_be_read() {
        let sender = |text: &str| Submission::sender(Some(text.as_bytes()));
        let id = |text: &str| OrderId::new(text).expect("a good id");
        let plain = sender(r#"{"order_id": "7", "x": 1}"#);
        assert_eq!(plain, Some((id("7"), None)));
        let own = sender(r#"{"order_id": "7", "reply_topic": "reply.shop"}"#);
        assert_eq!(own, Some((id("7"), Some("reply.shop".to_owned()))));
        for unknown in [
            "{",
            "[]",
            "{}",
            r#"{"order_id": 7}"#,
            r#"{"order_id": "a b"}"#,
            r#"{"order_id": "7", "reply_topic": 3}"#,
        ] {
            assert_eq!(sender(unknown), None, "{unknown}");
        }
        assert_eq!(Submission::sender(None), None);
    }

    #[test]
    fn details_that_grow_beyond_the_bound_when_they_are_stored_are_refused() {
        let numbers = vec!["1e15"; MAX_SUBMISSION_BYTES / 6].join(",");
        let value =
            format!(r#"{{"order_id": "7", "workflow": "w", "details": {{"n": [{numbers}]}}}}"#);
        assert!(value.len() <= MAX_SUBMISSION_BYTES);
        let refusal = Submission::decode(Some(value.as_bytes())).expect_err("it grows");
        assert!(
            matches!(refusal, SubmissionRefusal::TooLarge(bytes) if bytes > 3 * value.len()),
            "{refusal}"
        );
    }

    fn order(more: &str) -> Submission {
        let value = format!(r#"{{"order_id": "7", "workflow": "w"{more}}}"#);
        Submission::decode(Some(value.as_bytes())).expect("it is an order")
    }

    #[test]
    fn a_number_that_would_be_rounded_is_refused_with_its_place() {
        for number in ["18446744073709551616", "0.12345678901234567890"] {
            let value = format!(
                r#"{{"order_id": "7", "workflow": "w", "details": {{"items": [{{"id": {number}}}]}}}}"#
            );
            let place = "details.items[0].id".to_owned();
            let refusal = SubmissionRefusal::Number(place);
            assert_eq!(Submission::decode(Some(value.as_bytes())), Err(refusal));
        }
        // The largest number that is kept unchanged, and one with seventeen digits.
        let kept =
            order(r#", "details": {"id": 18446744073709551615, "rate": 0.12345678901234568}"#);
        assert_eq!(kept.details["rate"].to_string(), "0.12345678901234568");
    }

    /// Stored with every order: a new version of a library must not change it.
    #[test]
    fn a_digest_is_of_what_is_asked_for_and_not_of_how_it_is_written() {
        let one = order(r#", "details": {"a": [1, -1, 2.5, "x", true, null], "b": {"c": {}}}"#);
        let same = order(r#", "details": { "b":{"c":{}}, "a":[1,-1,2.50,"\u0078",true,null] }"#);
        let known = "757047fe1c8745fb2603c09899749bdd";
        assert_eq!(one.digest(Priority::Normal), known);
        assert_eq!(same.digest(Priority::Normal), known);
        let others = [
            r#", "details": {"a": [1, -1, 2.5, "x", true], "b": {"c": {}}}"#,
            r#", "details": {"a": ["1", -1, 2.5, "x", true, null], "b": {"c": {}}}"#,
            r#", "details": {"a": [1.0, -1, 2.5, "x", true, null], "b": {"c": {}}}"#,
            r#", "details": {"a": [1, -1, 2.5, "x", true, null], "b": {"c": []}}"#,
        ];
        for other in others {
            assert_ne!(order(other).digest(Priority::Normal), known, "{other}");
        }
        assert_ne!(one.digest(Priority::High), known);
    }

    #[test]
    fn an_order_may_ask_for_less_time_than_its_workflow_gives() {
        let workflow = |more: &str| {
            let step = r#"{"id": "a", "agent": "x", "action": "go", "attempt_timeout": "5s",
                "compensation": "none"}"#;
            let text = format!(r#"{{"workflow": "w", "steps": [{step}]{more}}}"#);
            let definition = serde_json::from_str(&text).expect("a definition");
            Workflow::compile(definition, &triad_workflow::Limits::published())
                .expect("it is sound")
        };
        let (free, bound) = (workflow(""), workflow(r#", "order_timeout": "1h""#));
        let within = |order: &Submission, workflow| {
            let deadline = order.deadline(Some(workflow), Timestamp(50));
            deadline.map(|at| at.0 - 50)
        };
        let (plain, hasty) = (order(""), order(r#", "order_timeout": "10m""#));
        let patient = order(r#", "order_timeout": "2h""#);
        assert_eq!(within(&plain, &free), None);
        assert_eq!(within(&plain, &bound), Some(3_600_000));
        assert_eq!(within(&hasty, &free), Some(600_000));
        assert_eq!(within(&hasty, &bound), Some(600_000));
        assert_eq!(within(&patient, &bound), Some(3_600_000));
        assert_ne!(
            hasty.digest(Priority::Normal),
            plain.digest(Priority::Normal)
        );
        assert_ne!(
            hasty.digest(Priority::Normal),
            patient.digest(Priority::Normal)
        );
    }

    #[test]
    fn an_order_may_ask_for_its_start() {
        let now = Timestamp(1_798_000_000_000);
        let at = |text: &str| order(&format!(r#", "start_at": {text}"#)).starts_later(now);
        let ahead = Ok(Some(Timestamp(1_798_095_600_000)));
        assert_eq!(at(r#""2026-12-24T08:00:00+01:00""#), ahead);
        assert_eq!(at(r#""2026-12-24T07:00""#), ahead, "without an offset: UTC");
        assert_eq!(at(r#""1999-12-24""#), Ok(None), "in the past: at once");
        assert_eq!(at("null"), Ok(None));
        let far = at(r#""2031-01-01""#).expect_err("too far");
        assert_eq!(
            (far.code(), far.to_string().as_str()),
            (
                "start-at",
                "start_at is 2031-01-01T00:00:00.000Z, more than 366 days ahead"
            )
        );
        let soon = br#"{"order_id": "7", "workflow": "w", "start_at": "soon"}"#;
        let refusal = Submission::decode(Some(soon)).expect_err("no moment");
        assert_eq!(refusal.code(), "wrong-field");
        let plain = order("");
        let later = order(r#", "start_at": "2026-12-24""#);
        assert_ne!(
            later.digest(Priority::Normal),
            plain.digest(Priority::Normal)
        );
        let again = serde_json::to_vec(&later).expect("it is written");
        assert_eq!(Submission::decode(Some(&again)), Ok(later));
    }

    #[test]
    fn less_than_a_second_is_no_time_to_ask_for() {
        let value = |within| {
            format!(r#"{{"order_id": "7", "workflow": "w", "order_timeout": "{within}"}}"#)
        };
        assert!(Submission::decode(Some(value("1s").as_bytes())).is_ok());
        let refusal = Submission::decode(Some(value("999ms").as_bytes())).expect_err("too short");
        assert_eq!(refusal.code(), "order-timeout");
        let refusal = Submission::decode(Some(value("soon").as_bytes())).expect_err("no time");
        assert_eq!(refusal.code(), "wrong-field");
    }

    #[test]
    fn an_id_that_a_transport_would_change_is_refused_with_what_is_allowed() {
        for id in [
            "7 ", " 7", "-7", ".", "..", "a b", "a#b", "a%41", "a+b", "Nº7", "a?b", "a\\\\b",
        ] {
            let value = format!(r#"{{"order_id": "{id}", "workflow": "w"}}"#);
            let refusal = Submission::decode(Some(value.as_bytes())).expect_err(id);
            assert_eq!(refusal.code(), "order-id", "{id}");
            assert!(refusal.to_string().contains("a-z, A-Z, 0-9"), "{refusal}");
        }
    }
}
