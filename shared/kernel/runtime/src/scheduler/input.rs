//! What the records of the Scheduler's topics say.

use triad_core::children::ChildEnd;
use triad_core::later::{MAX_LOCATION_BYTES, MAX_TAKEN_BYTES};
use triad_core::message::{Accepted, MAX_OUTPUT_BYTES, Reply, ReplyOutcome, SchedulerMessage};
use triad_core::pass::{Pass, WriterOrder};
use triad_core::received::{EventMessage, Incoming, KeyedEvent, Message};
use triad_core::topics::EVENTS;
use triad_core::{OrderId, Timestamp};
use triad_workflow::{Millis, bounds};

use super::{MAX_RACES, Work};
use crate::cache::MAX_DETAILS_BYTES;
use crate::dead_letter::Cause;
use crate::decode::NoMessage;
use crate::passes::Carried;
use crate::record::InputRecord;

/// What a record says.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all records are of the large kind, and need no allocation more"
)]
pub(super) enum Input {
    /// A message of Triad's own.
    Message(SchedulerMessage),
    /// An event or a callback from outside.
    Incoming(Incoming),
}

impl Input {
    pub(super) fn order(&self) -> &OrderId {
        match self {
            Self::Message(SchedulerMessage::Accepted(accepted)) => &accepted.order_id,
            Self::Message(SchedulerMessage::Wake(wake)) => &wake.order_id,
            Self::Message(SchedulerMessage::Reply(reply)) => &reply.order_id,
            Self::Message(SchedulerMessage::ChildEnded(ended)) => &ended.order_id,
            Self::Message(SchedulerMessage::Child(child)) => &child.order_id,
            Self::Incoming(incoming) => incoming.order_id(),
        }
    }

    pub(super) fn accepted(&self) -> Option<&Accepted> {
        match self {
            Self::Message(SchedulerMessage::Accepted(accepted)) => Some(accepted),
            _ => None,
        }
    }

    pub(super) fn reply(&self) -> Option<&Reply> {
        match self {
            Self::Message(SchedulerMessage::Reply(reply)) => Some(reply),
            _ => None,
        }
    }

    pub(super) fn is_incoming(&self) -> bool {
        matches!(self, Self::Incoming(_))
    }
}

/// What a record of one of the topics is about, before the store is asked.
pub(super) enum Decoded {
    /// A message about an order.
    Work(Box<Work>),
    /// An event that names a key in place of its order.
    Keyed(Box<KeyedEvent>),
}

/// What a record of the topic `events` is.
fn decode_incoming(record: &InputRecord) -> Result<Message, NoMessage> {
    let default_id = format!("{}-{}-{}", record.topic, record.partition, record.offset);
    let message = EventMessage {
        key: record.key.as_deref(),
        value: record.value.as_deref(),
        headers: &record.headers,
        default_id: &default_id,
    };
    message.read().map_err(|e| Cause::new(e.code, e.why).into())
}

/// Reads a record; `index` is its place in its batch.
pub(super) fn decode(
    index: usize,
    record: &InputRecord,
    now: Timestamp,
) -> Result<Decoded, NoMessage> {
    let input = match record.topic == EVENTS {
        true => match decode_incoming(record)? {
            Message::Of(incoming) => Input::Incoming(incoming),
            Message::Keyed(event) => return Ok(Decoded::Keyed(event)),
        },
        false => Input::Message(decode_message(record, now)?),
    };
    Ok(Decoded::Work(Box::new(work(index, record, input, now))))
}

/// The work about a record that says this.
pub(super) fn work(index: usize, record: &InputRecord, input: Input, now: Timestamp) -> Work {
    let bytes = record.value.as_ref().map_or(0, Vec::len);
    Work {
        index,
        id: input.order().clone(),
        cacheable: bytes <= MAX_DETAILS_BYTES,
        input,
        unread: u64::try_from(record.timestamp_ms).map_or(Millis(0), |at| now.since(Timestamp(at))),
        is_passed: false,
        carried: Carried {
            cause: record.trace(),
            ..Carried::new(Pass::new(WriterOrder::InLine, MAX_RACES))
        },
    }
}

fn decode_message(record: &InputRecord, now: Timestamp) -> Result<SchedulerMessage, NoMessage> {
    let not_one = "not-a-scheduler-message";
    let mut message: SchedulerMessage = crate::decode::message(record, not_one, now)?;
    // Replies may come from any sender, and the record, statuses and alerts keep this part.
    if let SchedulerMessage::Reply(Reply {
        outcome: ReplyOutcome::Failed { failure, .. } | ReplyOutcome::Deferred { failure, .. },
        ..
    }) = &mut message
    {
        failure.bound();
    }
    if let SchedulerMessage::ChildEnded(ended) = &mut message {
        match &mut ended.end {
            ChildEnd::NoEffect { cause } | ChildEnd::Kept { cause } => cause.bound(),
            ChildEnd::Processed { output } => bounds::check(output, MAX_OUTPUT_BYTES)
                .map_err(|e| Cause::new("output-out-of-bounds", format!("the output {e}")))?,
        }
    }
    // Replies may come from any sender, and a record with a larger output could be written but not read.
    if let SchedulerMessage::Reply(Reply {
        outcome: ReplyOutcome::Succeeded { output },
        ..
    }) = &message
    {
        bounds::check(output, MAX_OUTPUT_BYTES)
            .map_err(|e| Cause::new("output-out-of-bounds", format!("the output {e}")))?;
    }
    if let SchedulerMessage::Reply(Reply {
        outcome: ReplyOutcome::InProgress(taking),
        ..
    }) = &message
    {
        bounds::check(&taking.output, MAX_TAKEN_BYTES)
            .map_err(|e| Cause::new("output-out-of-bounds", format!("the output {e}")))?;
        if taking
            .location
            .as_ref()
            .is_some_and(|at| at.len() > MAX_LOCATION_BYTES)
        {
            let why = format!("the location has more than {MAX_LOCATION_BYTES} bytes");
            return Err(Cause::new("location-out-of-bounds", why).into());
        }
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_reply_whose_output_could_not_be_read_back_is_dead_lettered() {
        let reply = |output: Value| {
            let reply = json!({"type": "reply", "order_id": "7", "step": "pay", "direction": "forward",
                "attempt": 1, "complete_by": 9, "calls": 1, "outcome": {"result": "succeeded", "output": output}});
            let record = InputRecord {
                value: Some(reply.to_string().into_bytes()),
                ..InputRecord::default()
            };
            decode(0, &record, Timestamp(0))
                .map(|_| ())
                .map_err(|why| match why {
                    NoMessage::Never(cause) => cause.code,
                    NoMessage::Newer(_) => "newer",
                })
        };
        let nested = |depth| (0..depth).fold(json!(7), |inner, _| json!([inner]));
        assert_eq!(reply(nested(64)), Ok(()));
        let refused = Err("output-out-of-bounds");
        assert_eq!(reply(nested(65)), refused);
        assert_eq!(reply(json!("x".repeat(8 * 1024 - 2))), Ok(()));
        assert_eq!(reply(json!("x".repeat(8 * 1024 - 1))), refused);
    }
}
