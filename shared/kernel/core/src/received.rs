//! Messages from outside: events, as applications and services send them and as an order's record keeps them; and
//! callbacks of services about work that they have taken.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use triad_workflow::names::{check_event, check_key};
use triad_workflow::{StepId, bounds, numbers};

use crate::ids::{OrderId, Timestamp};
use crate::later::{Callback, Says};
use crate::message::Envelope;
use crate::topics;

/// Largest message of an event, in bytes, inclusive: 64 KiB.
pub const MAX_EVENT_BYTES: usize = 64 * 1024;
/// Largest data of an event, as JSON, in bytes, inclusive: 8 KiB. The output of a step may be that.
pub const MAX_DATA_BYTES: usize = crate::message::MAX_OUTPUT_BYTES;
/// Longest id of an event, in bytes, inclusive.
pub const MAX_EVENT_ID_BYTES: usize = 128;
/// Who does what an application does that gives no name.
const APPLICATION: &str = "an application";
/// Most events that an order's record keeps for steps that do not wait yet, inclusive.
pub const MAX_KEPT: usize = 8;

/// An event from outside about one order.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedEvent {
    /// The order that it is about.
    pub order_id: OrderId,
    /// Its name, which keeps the rule of [`check_event`].
    pub event: String,
    /// Its identity, at most [`MAX_EVENT_ID_BYTES`]: an event of the same name and id is the same one again.
    pub id: String,
    /// What it brings, at most [`MAX_DATA_BYTES`].
    pub data: Value,
    /// The name of the user or the token that has sent it, at most [`MAX_EVENT_ID_BYTES`]; `None` if that is not said.
    pub by: Option<String>,
}

/// An event from outside whose sender does not know the order, and names a key in its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyedEvent {
    /// What it names: it keeps the rule of [`check_key`].
    pub key: String,
    /// As in [`ReceivedEvent`].
    pub event: String,
    /// As in [`ReceivedEvent`].
    pub id: String,
    /// As in [`ReceivedEvent`].
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
    /// As in [`ReceivedEvent`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl KeyedEvent {
    /// The same event about this order.
    #[must_use]
    pub fn about(self, order_id: OrderId) -> ReceivedEvent {
        ReceivedEvent {
            order_id,
            event: self.event,
            id: self.id,
            data: self.data,
            by: self.by,
        }
    }
}

impl ReceivedEvent {
    /// The event as a message of the topic `events`.
    #[must_use]
    pub fn message(&self) -> Envelope {
        let topic = topics::EVENTS.to_owned();
        let (key, id) = (self.order_id.as_str(), self.id.clone());
        let message = Envelope::event(topic, key, &self.event, id, None, &self.data);
        match &self.by {
            Some(name) => message.sent_by(name),
            None => message,
        }
    }
}

/// A message from outside about one order.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    /// An event, for the step that waits for it.
    Event(Box<ReceivedEvent>),
    /// What a service says of work that it has taken.
    Callback(Box<Callback>),
    /// What an application does to its own order.
    Act(Box<ApplicationAct>),
}

/// An act of an application on its own order, as it is on the topic `events`.
#[derive(Debug, Clone, PartialEq)]
pub struct ApplicationAct {
    /// The order.
    pub order_id: OrderId,
    /// What changes in the order's details, a merge patch (RFC 7396); `None`: the order is to be cancelled.
    pub amendment: Option<Value>,
    /// Who does it, and why; both are cut when they are written.
    pub by: String,
    /// The reason, for people; may be empty.
    pub why: String,
}

impl Incoming {
    /// The order that it is about.
    #[must_use]
    pub fn order_id(&self) -> &OrderId {
        match self {
            Self::Event(event) => &event.order_id,
            Self::Callback(callback) => &callback.order_id,
            Self::Act(act) => &act.order_id,
        }
    }
}

/// An event that an order has had.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptEvent {
    /// Its name.
    pub event: String,
    /// Its id.
    pub id: String,
    /// When it was taken up.
    pub at: Timestamp,
    /// The step that has taken it; `None` while it is kept for a step that does not wait yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
    /// What it brings; `None` once that is in the output of its step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// The name of who has sent it, while it is kept; `None` if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Why a message is not an event. It becomes a dead letter with this cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAnEvent {
    /// Short and stable, fit for grouping, such as `not-json`.
    pub code: &'static str,
    /// What is wrong, for a person.
    pub why: String,
}

impl fmt::Display for NotAnEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for NotAnEvent {}

fn not(code: &'static str, why: impl Into<String>) -> NotAnEvent {
    let why = why.into();
    NotAnEvent { code, why }
}

/// A message of the topic `events`.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// It names its order.
    Of(Incoming),
    /// It names a key in place of its order.
    Keyed(Box<KeyedEvent>),
}

/// An event as a bare JSON object.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bare {
    #[serde(default)]
    order_id: Option<String>,
    #[serde(default)]
    key: Option<String>,
    event: String,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    data: Value,
    #[serde(default)]
    by: Option<String>,
}

/// A callback as a JSON object.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct BareCallback {
    #[serde(default)]
    order_id: Option<String>,
    step: String,
    token: String,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    data: Value,
    #[serde(default)]
    heartbeat: bool,
}

/// An act as a JSON object.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct BareAct {
    #[serde(default)]
    order_id: Option<String>,
    act: NamedAct,
    #[serde(default)]
    details: Option<Map<String, Value>>,
    #[serde(default)]
    why: String,
    #[serde(default)]
    by: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum NamedAct {
    Cancel,
    Amend,
}

/// A message of the topic `events`, as a broker delivers it.
#[derive(Debug, Clone, Copy)]
pub struct EventMessage<'a> {
    /// Key of the message: the order's id, if the message does not say it.
    pub key: Option<&'a [u8]>,
    /// Its value; `None` if it has none.
    pub value: Option<&'a [u8]>,
    /// Its headers, in their order.
    pub headers: &'a [(String, Option<Vec<u8>>)],
    /// The id of an event that names none: the same whenever this message is delivered.
    pub default_id: &'a str,
}

impl EventMessage<'_> {
    /// Reads the message. It is a CloudEvent in binary mode if it has a header `ce_type`, else a CloudEvent in
    /// structured mode if its value has `specversion`, else a bare object: `event`, and if need be `order_id`, `id` and
    /// `data`; or `key` in place of `order_id`, and then the message's own key says nothing. Of a CloudEvent, `type` is
    /// the event and `subject` the order's id. (Kafka protocol binding of
    /// CloudEvents 1.0, sections 3.2 and 3.3.) A bare object with `token` is a callback: `step` and `token`, and if need
    /// be `order_id`, `id`, and `data` or `heartbeat: true`. One with `act` is an act of the application: `cancel`, or
    /// `amend` with `details`; and if need be `order_id`, `why` and `by`.
    ///
    /// # Errors
    /// [`NotAnEvent`]: there is no value, it is too large, not UTF-8, not JSON, or no object of one of these forms; the
    /// name, the id or the order's id is missing or not allowed; the key names another order; or the data is too large
    /// or has a number that would be rounded.
    ///
    /// # Example
    /// ```
    /// use triad_core::received::{EventMessage, Incoming, Message};
    /// let message = EventMessage {
    ///     key: Some(b"o-1"), value: Some(br#"{"event": "paid", "data": {"amount": 20}}"#), headers: &[],
    ///     default_id: "events-0-17",
    /// };
    /// let Ok(Message::Of(Incoming::Event(event))) = message.read() else { panic!("it is an event") };
    /// assert_eq!((event.order_id.as_str(), event.event.as_str(), event.id.as_str()), ("o-1", "paid", "events-0-17"));
    /// ```
    pub fn read(&self) -> Result<Message, NotAnEvent> {
        let bytes = self
            .value
            .ok_or_else(|| not("tombstone", "the record has no value (a tombstone)"))?;
        if bytes.len() > MAX_EVENT_BYTES {
            let why = format!(
                "the event has {} bytes; {MAX_EVENT_BYTES} are allowed",
                bytes.len()
            );
            return Err(not("too-large", why));
        }
        let text = std::str::from_utf8(bytes)
            .map_err(|e| not("not-utf8", format!("the value is not UTF-8: {e}")))?;
        // The parser refuses nesting deeper than 128.
        let value: Value = serde_json::from_str(text)
            .map_err(|e| not("not-json", format!("the value is not JSON: {e}")))?;
        if let Some(place) = numbers::altered(text) {
            let why = format!("the number at {place} would be rounded: send it as a text");
            return Err(not("number-out-of-range", why));
        }
        if self.header("ce_type").is_none() && value.get("token").is_some() {
            return self.callback(value).map(Message::Of);
        }
        if self.header("ce_type").is_none() && value.get("act").is_some() {
            return self.act(value).map(Message::Of);
        }
        let bare = self.bare(value)?;
        check_event(&bare.event).map_err(|e| not("wrong-field", format!("the event: {e}")))?;
        let (id, data) = self.checked(bare.id, bare.data)?;
        let is_name = |by: &String| (1..=MAX_EVENT_ID_BYTES).contains(&by.len());
        if !bare.by.as_ref().is_none_or(is_name) {
            let why = format!("the name of who sends it has 1 to {MAX_EVENT_ID_BYTES} bytes");
            return Err(not("wrong-field", why));
        }
        let (event, by) = (bare.event, bare.by);
        let Some(key) = bare.key else {
            let order_id = self.order_id(bare.order_id)?;
            let event = ReceivedEvent {
                order_id,
                event,
                id,
                data,
                by,
            };
            return Ok(Message::Of(Incoming::Event(Box::new(event))));
        };
        check_key(&key).map_err(|e| not("wrong-field", format!("the key: {e}")))?;
        if bare.order_id.is_some() {
            let why = "the event names a key and an order: it names one of the two";
            return Err(not("wrong-field", why));
        }
        Ok(Message::Keyed(Box::new(KeyedEvent {
            key,
            event,
            id,
            data,
            by,
        })))
    }

    fn callback(&self, value: Value) -> Result<Incoming, NotAnEvent> {
        let bare: BareCallback = serde_json::from_value(value).map_err(|e| {
            let why = format!(
                "the value is not a callback: {e}; write {{\"step\": …, \"token\": …, \"data\": …}}"
            );
            not("not-a-callback", why)
        })?;
        let (id, data) = self.checked(bare.id, bare.data)?;
        let says = match (bare.heartbeat, &data) {
            (true, Value::Null) => Says::Alive,
            (true, _) => {
                let why = "a heartbeat says that the work goes on, so it brings no data";
                return Err(not("not-a-callback", why));
            }
            (false, _) => Says::Ended(data),
        };
        Ok(Incoming::Callback(Box::new(Callback {
            order_id: self.order_id(bare.order_id)?,
            step: bare.step,
            token: bare.token,
            id,
            says,
        })))
    }

    fn act(&self, value: Value) -> Result<Incoming, NotAnEvent> {
        let bare: BareAct = serde_json::from_value(value).map_err(|e| {
            let why = format!(
                "the value is not an act: {e}; write {{\"act\": \"cancel\", \"why\": …}}, or \"amend\" with \"details\""
            );
            not("not-an-act", why)
        })?;
        let amendment = match (bare.act, bare.details) {
            (NamedAct::Cancel, None) => None,
            (NamedAct::Amend, Some(patch)) => Some(patch.into()),
            (NamedAct::Cancel, Some(_)) => {
                return Err(not("not-an-act", "a cancel has no \"details\""));
            }
            (NamedAct::Amend, None) => {
                let why = "an amendment has \"details\": what changes in those of the order";
                return Err(not("not-an-act", why));
            }
        };
        Ok(Incoming::Act(Box::new(ApplicationAct {
            order_id: self.order_id(bare.order_id)?,
            amendment,
            by: bare.by.unwrap_or_else(|| APPLICATION.to_owned()),
            why: bare.why,
        })))
    }

    /// The id of a message, and its data if they are within the bounds.
    fn checked(&self, id: Option<String>, data: Value) -> Result<(String, Value), NotAnEvent> {
        let id = id.unwrap_or_else(|| self.default_id.to_owned());
        if id.is_empty() || id.len() > MAX_EVENT_ID_BYTES {
            let why = format!("the id of an event has 1 to {MAX_EVENT_ID_BYTES} bytes");
            return Err(not("wrong-field", why));
        }
        bounds::check(&data, MAX_DATA_BYTES)
            .map_err(|e| not("too-large", format!("the data {e}")))?;
        Ok((id, data))
    }

    fn bare(&self, value: Value) -> Result<Bare, NotAnEvent> {
        if let Some(event) = self.header("ce_type") {
            return Ok(Bare {
                order_id: self.header("ce_subject"),
                key: self.header("ce_key"),
                event,
                id: self.header("ce_id"),
                data: value,
                by: self.header("ce_by"),
            });
        }
        match value {
            Value::Object(mut fields) if fields.contains_key("specversion") => Ok(Bare {
                order_id: text(&mut fields, "subject")?,
                key: text(&mut fields, "key")?,
                event: text(&mut fields, "type")?
                    .ok_or_else(|| not("missing-field", "the CloudEvent has no \"type\""))?,
                id: text(&mut fields, "id")?,
                by: text(&mut fields, "by")?,
                data: fields.remove("data").unwrap_or_default(),
            }),
            Value::Object(fields) => serde_json::from_value(Value::Object(fields)).map_err(|e| {
                let why = format!(
                    "the value is not an event: {e}; write {{\"event\": …, \"id\": …, \"data\": …}} or a CloudEvent"
                );
                not("not-an-event", why)
            }),
            _ => Err(not("not-an-event", "the value is not an event: it is no object")),
        }
    }

    fn header(&self, name: &str) -> Option<String> {
        let mut headers = self.headers.iter();
        let (_, value) = headers.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        String::from_utf8(value.clone()?).ok()
    }

    /// The order's id, from the message or from its key, which must not name another one.
    fn order_id(&self, said: Option<String>) -> Result<OrderId, NotAnEvent> {
        let key = self.key.map(String::from_utf8_lossy);
        let id = match (said, key) {
            (Some(said), Some(key)) if said != *key => {
                let why = format!("the event is about order {said:?}, and its key is {key:?}");
                return Err(not("order-id", why));
            }
            (Some(said), _) => said,
            (None, Some(key)) => key.into_owned(),
            (None, None) => {
                let why = "neither the event nor its key names an order";
                return Err(not("missing-field", why));
            }
        };
        OrderId::new(id).map_err(|e| not("order-id", e.to_string()))
    }
}

/// A field of a CloudEvent that is a text, if it is there.
fn text(fields: &mut Map<String, Value>, name: &str) -> Result<Option<String>, NotAnEvent> {
    match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(not("wrong-field", format!("\"{name}\" has to be a text"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(
        key: Option<&str>,
        value: &str,
        headers: &[(&str, &str)],
    ) -> Result<Message, NotAnEvent> {
        let header =
            |(name, value): &(&str, &str)| ((*name).to_owned(), Some(value.as_bytes().to_vec()));
        let headers: Vec<_> = headers.iter().map(header).collect();
        EventMessage {
            key: key.map(str::as_bytes),
            value: Some(value.as_bytes()),
            headers: &headers,
            default_id: "events-0-1",
        }
        .read()
    }

    fn event(id: &str, data: Value) -> Message {
        Message::Of(Incoming::Event(Box::new(ReceivedEvent {
            order_id: OrderId::new("o-1").expect("an id"),
            event: "com.shop.paid".into(),
            id: id.into(),
            data,
            by: None,
        })))
    }

    fn callback(id: &str, says: Says) -> Message {
        Message::Of(Incoming::Callback(Box::new(Callback {
            order_id: OrderId::new("o-1").expect("an id"),
            step: "book".into(),
            token: "0a".into(),
            id: id.into(),
            says,
        })))
    }

    #[test]
    fn each_form_of_an_event_is_read() {
        let bare =
            r#"{"order_id": "o-1", "event": "com.shop.paid", "id": "e-1", "data": {"amount": 20}}"#;
        assert_eq!(
            read(None, bare, &[]),
            Ok(event("e-1", json!({"amount": 20})))
        );
        let structured = r#"{"specversion": "1.0", "type": "com.shop.paid", "source": "/bank", "id": "e-1",
            "subject": "o-1", "time": "2026-01-01T00:00:00Z", "data": {"amount": 20}}"#;
        assert_eq!(
            read(Some("o-1"), structured, &[]),
            Ok(event("e-1", json!({"amount": 20})))
        );
        let headers = [
            ("ce_specversion", "1.0"),
            ("CE_TYPE", "com.shop.paid"),
            ("ce_id", "e-1"),
        ];
        assert_eq!(read(Some("o-1"), "7", &headers), Ok(event("e-1", json!(7))));
        let least = r#"{"event": "com.shop.paid"}"#;
        assert_eq!(
            read(Some("o-1"), least, &[]),
            Ok(event("events-0-1", Value::Null))
        );
        let keyed = Ok(Message::Keyed(Box::new(KeyedEvent {
            key: "pay-7".into(),
            event: "com.shop.paid".into(),
            id: "e-1".into(),
            data: json!(7),
            by: None,
        })));
        let bare = r#"{"key": "pay-7", "event": "com.shop.paid", "id": "e-1", "data": 7}"#;
        assert_eq!(
            read(Some("any"), bare, &[]),
            keyed,
            "its own key says nothing"
        );
        let structured = r#"{"specversion": "1.0", "type": "com.shop.paid", "source": "/bank", "id": "e-1",
            "key": "pay-7", "data": 7}"#;
        assert_eq!(read(None, structured, &[]), keyed);
        let headers = [headers[0], headers[1], headers[2], ("ce_key", "pay-7")];
        assert_eq!(read(None, "7", &headers), keyed);
        let ended = r#"{"order_id": "o-1", "step": "book", "token": "0a", "id": "c-1", "data": 7}"#;
        let said = Says::Ended(json!(7));
        assert_eq!(read(None, ended, &[]), Ok(callback("c-1", said)));
        let alive = r#"{"step": "book", "token": "0a", "heartbeat": true}"#;
        let said = callback("events-0-1", Says::Alive);
        assert_eq!(read(Some("o-1"), alive, &[]), Ok(said));
    }

    #[test]
    fn what_is_no_event_is_told_by_its_own_cause() {
        let large = format!(
            r#"{{"event": "paid", "data": "{}"}}"#,
            "x".repeat(MAX_DATA_BYTES)
        );
        let long = format!(
            r#"{{"event": "paid", "id": "{}"}}"#,
            "x".repeat(MAX_EVENT_ID_BYTES + 1)
        );
        for (key, value, code, said) in [
            (Some("o-1"), "{", "not-json", "EOF"),
            (Some("o-1"), "[]", "not-an-event", "no object"),
            (Some("o-1"), "{}", "not-an-event", "missing field `event`"),
            (
                Some("o-1"),
                r#"{"event": "paid", "amount": 3}"#,
                "not-an-event",
                "unknown field `amount`",
            ),
            (
                Some("o-1"),
                r#"{"event": "Has it been paid?"}"#,
                "wrong-field",
                "is not a valid name",
            ),
            (
                Some("o-1"),
                r#"{"token": "0a", "data": 7}"#,
                "not-a-callback",
                "missing field `step`",
            ),
            (
                Some("o-1"),
                r#"{"token": "0a", "step": "book", "heartbeat": true, "data": 7}"#,
                "not-a-callback",
                "no data",
            ),
            (
                Some("o-1"),
                r#"{"specversion": "1.0", "id": "1"}"#,
                "missing-field",
                "no \"type\"",
            ),
            (
                Some("o-1"),
                r#"{"specversion": "1.0", "id": 1, "type": "paid"}"#,
                "wrong-field",
                "\"id\"",
            ),
            (
                None,
                r#"{"event": "paid"}"#,
                "missing-field",
                "neither the event nor its key",
            ),
            (
                Some("o-2"),
                r#"{"event": "paid", "order_id": "o-1"}"#,
                "order-id",
                "its key is \"o-2\"",
            ),
            (
                Some("a/b"),
                r#"{"event": "paid"}"#,
                "order-id",
                "1 to 128 bytes",
            ),
            (
                Some("o-1"),
                r#"{"event": "paid", "data": 0.12345678901234567891}"#,
                "number-out-of-range",
                "data",
            ),
            (
                None,
                r#"{"event": "paid", "key": ""}"#,
                "wrong-field",
                "the key: a key is a text of 1 to 128 bytes",
            ),
            (
                None,
                r#"{"event": "paid", "key": "pay-7", "order_id": "o-1"}"#,
                "wrong-field",
                "names one of the two",
            ),
            (Some("o-1"), &large, "too-large", "8192"),
            (Some("o-1"), &long, "wrong-field", "1 to 128 bytes"),
        ] {
            let found = read(key, value, &[]).expect_err(value);
            assert_eq!(found.code, code, "{value}: {found}");
            assert!(found.why.contains(said), "{value}: {found}");
        }
    }
}
