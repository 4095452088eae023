//! An order as an application submits it, and what makes two submissions the same.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use triad_workflow::{Millis, Workflow, WorkflowName};

use crate::ids::{NotPortable, OrderId, Priority, Timestamp};

/// Largest submission, in bytes, inclusive: 256 KiB. It bounds both the value as it comes and its
/// details as they are stored, because numbers may grow when they are written again. DynamoDB's
/// items end at 400 KB.
pub const MAX_SUBMISSION_BYTES: usize = 256 * 1024;

/// An order as a bare JSON object: all that an application needs to send. Unknown fields are an
/// error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// Chosen by the application; the same id is the same order. New ids must be
    /// [portable](OrderId::check_portable).
    pub order_id: OrderId,
    /// Name of the workflow to run, in the version that is published now.
    pub workflow: WorkflowName,
    /// The order's details, which the workflow's expressions read; at most [`MAX_SUBMISSION_BYTES`]
    /// as JSON. Absent: an empty object.
    #[serde(default)]
    pub details: Map<String, Value>,
    /// Topic for status messages; must be on the installation's allow-list. `None` is the topic
    /// `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_topic: Option<String>,
    /// Longest time of this order, such as `30m`, from its submission to its end: at least
    /// [`LEAST_COMPLETE_WITHIN`]. The workflow's own counts where it is shorter. `None`: the workflow's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_within: Option<Millis>,
}

/// Shortest time within which an order may ask to be completed: 1 s.
pub const LEAST_COMPLETE_WITHIN: Millis = Millis(1_000);

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
    /// The value is not JSON, is nested deeper than 128, or is not a [`Submission`]; the text says
    /// what is wrong.
    #[error("the value is not an order: {0}")]
    NotAnOrder(String),
    /// The order's id, given here, is not [portable](OrderId::check_portable).
    #[error("the order id {0:?} cannot be taken: {NotPortable}")]
    OrderId(String),
    /// The order asks to be completed within this time, which is below [`LEAST_COMPLETE_WITHIN`].
    #[error("complete_within is {0}; at least {LEAST_COMPLETE_WITHIN} is allowed")]
    CompleteWithin(Millis),
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
    /// The refusal's name: short and stable, fit for grouping, such as `not-utf8`.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Tombstone => "tombstone",
            Self::TooLarge(_) => "too-large",
            Self::NotUtf8(_) => "not-utf8",
            Self::NotAnOrder(_) => "not-an-order",
            Self::OrderId(_) => "order-id",
            Self::CompleteWithin(_) => "complete-within",
            Self::UnknownWorkflow(_) => "unknown-workflow",
            Self::ReplyTopic(_) => "reply-topic",
            Self::Unstorable(_) => "unstorable",
            Self::Conflict(_) => "conflicting-submission",
        }
    }
}

impl Submission {
    /// Reads the value of a record of the topic `orders`; `None` is a tombstone. Whether the
    /// workflow exists and the reply topic is allowed is not checked here.
    ///
    /// # Errors
    /// [`SubmissionRefusal::Tombstone`], [`TooLarge`](SubmissionRefusal::TooLarge),
    /// [`NotUtf8`](SubmissionRefusal::NotUtf8), [`NotAnOrder`](SubmissionRefusal::NotAnOrder),
    /// [`OrderId`](SubmissionRefusal::OrderId) or
    /// [`CompleteWithin`](SubmissionRefusal::CompleteWithin), in this order of checks.
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
        let text =
            std::str::from_utf8(bytes).map_err(|e| SubmissionRefusal::NotUtf8(e.to_string()))?;
        // The parser refuses nesting deeper than 128 by itself.
        let order: Self =
            serde_json::from_str(text).map_err(|e| SubmissionRefusal::NotAnOrder(e.to_string()))?;
        let stored = serde_json::to_string(&order.details).map_or(0, |json| json.len());
        if stored > MAX_SUBMISSION_BYTES {
            return Err(SubmissionRefusal::TooLarge(stored));
        }
        let id = &order.order_id;
        id.check_portable()
            .map_err(|_| SubmissionRefusal::OrderId(id.to_string()))?;
        match order.complete_within {
            Some(within) if within < LEAST_COMPLETE_WITHIN => {
                Err(SubmissionRefusal::CompleteWithin(within))
            }
            _ => Ok(order),
        }
    }

    /// By when the order must have finished if it is accepted at `now`; `None` if neither it nor its
    /// workflow says.
    #[must_use]
    pub fn deadline(&self, workflow: &Workflow, now: Timestamp) -> Option<Timestamp> {
        let asked = [self.complete_within, workflow.complete_within];
        let within = asked.into_iter().flatten().min();
        within.map(|within| now.plus(within))
    }

    /// A digest of all that a submission asks for: the first 16 bytes of SHA-256, as 32 hex digits,
    /// over workflow, details, reply topic, priority, and complete-within where there is one. It tells a repeated submission of an order
    /// id from a conflicting one.
    #[must_use]
    pub fn digest(&self, priority: Priority) -> String {
        let mut content = vec![
            json!(self.workflow.as_str()),
            json!(self.details),
            json!(self.reply_topic),
            json!(priority),
        ];
        // Orders that do not ask for it have the digest that they had before there was such a field.
        content.extend(self.complete_within.map(|within| json!(within)));
        let content = Value::Array(content);
        let digest = Sha256::digest(content.to_string().as_bytes());
        digest[..16].iter().map(|b| format!("{b:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn an_order_may_ask_for_less_time_than_its_workflow_gives() {
        let workflow = |more: &str| {
            let step = r#"{"id": "a", "agent": "x", "action": "go", "complete_within": "5s",
                "compensation": "none"}"#;
            let text = format!(r#"{{"workflow": "w", "steps": [{step}]{more}}}"#);
            let definition = serde_json::from_str(&text).expect("a definition");
            Workflow::compile(definition, &triad_workflow::Limits::published())
                .expect("it is sound")
        };
        let (free, bound) = (workflow(""), workflow(r#", "complete_within": "1h""#));
        let within = |order: &Submission, workflow| {
            let deadline = order.deadline(workflow, Timestamp(50));
            deadline.map(|at| at.0 - 50)
        };
        let (plain, hasty) = (order(""), order(r#", "complete_within": "10m""#));
        let patient = order(r#", "complete_within": "2h""#);
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
    fn less_than_a_second_is_no_time_to_ask_for() {
        let value = |within| {
            format!(r#"{{"order_id": "7", "workflow": "w", "complete_within": "{within}"}}"#)
        };
        assert!(Submission::decode(Some(value("1s").as_bytes())).is_ok());
        let refusal = Submission::decode(Some(value("999ms").as_bytes())).expect_err("too short");
        assert_eq!(refusal.code(), "complete-within");
        let refusal = Submission::decode(Some(value("soon").as_bytes())).expect_err("no time");
        assert_eq!(refusal.code(), "not-an-order");
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
