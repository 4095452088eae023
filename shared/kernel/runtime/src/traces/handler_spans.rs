//! Spans common to all handlers: writes, sent messages, handled records.

use triad_core::message::ReplyOutcome;
use triad_core::{Envelope, Order, OrderId, ProcessState, Timestamp, TraceContext};

use super::{OpenSpan, SpanEnd, SpanKind, Traces, WorkKind};
use crate::handled::Redelivery;
use crate::ports::{BusError, Clock, StoreError, Written};
use crate::record::InputRecord;

/// The sink of spans, and the clock of their times.
pub(crate) struct Tracing<'a, C> {
    pub(crate) traces: &'a Traces,
    pub(crate) clock: &'a C,
}

impl<C: Clock> Tracing<'_, C> {
    /// The present time; without a sink no clock is read.
    pub(crate) fn now(&self) -> Timestamp {
        match self.traces.is_on() {
            true => self.clock.now(),
            false => Timestamp(0),
        }
    }

    /// Records the span of a conditional write that began at `began`.
    pub(crate) fn wrote(
        &self,
        within: &OpenSpan,
        began: Timestamp,
        next: &Order,
        result: &Result<Written, StoreError>,
    ) {
        let needs_an_operator = match &next.state {
            ProcessState::Error { cause, .. } | ProcessState::CompensationFailed { cause, .. } => {
                Some(cause.code.as_str())
            }
            _ => None,
        };
        let failure = match result {
            Ok(Written::Written | Written::WithMessages) => needs_an_operator,
            Ok(Written::Conflict) => None,
            Err(e) => Some(store_code(e)),
        };
        let what = WorkKind("write", next.version.0);
        let engines = self.traces.engines();
        self.store_call(within, what, began, failure, || {
            let told = SpanEnd::new(engines.write, SpanKind::Client)
                .with("db.operation.name", engines.write)
                .with("db.collection.name", engines.records.to_string())
                .with("triad.order.id", next.id.to_string())
                .with("triad.order.state", next.state.name())
                .with("triad.order.version", number(next.version.0));
            match result {
                Ok(Written::Conflict) => told.with("triad.write", "conflict"),
                _ => told,
            }
        });
    }

    /// Records the span of the transaction that should have stored an order's record and details.
    pub(crate) fn created(
        &self,
        within: &OpenSpan,
        began: Timestamp,
        order: &OrderId,
        failure: Option<&StoreError>,
    ) {
        let engines = self.traces.engines();
        self.store_call(
            within,
            WorkKind("create", 0),
            began,
            failure.map(store_code),
            || {
                SpanEnd::new(engines.create, SpanKind::Client)
                    .with("db.operation.name", engines.create)
                    .with("triad.order.id", order.to_string())
            },
        );
    }

    fn store_call(
        &self,
        within: &OpenSpan,
        what: WorkKind,
        began: Timestamp,
        failure: Option<&str>,
        told: impl FnOnce() -> SpanEnd,
    ) {
        if !within.is_sampled() && failure.is_none() {
            return;
        }
        let open = within.part(what, began);
        self.traces.end(&open, self.now(), failure, || {
            told().with("db.system.name", self.traces.engines().store)
        });
    }

    /// Copies of messages that a bus is about to take, without their values, as [`sent`](Self::sent) needs them.
    /// Empty if tracing is off.
    pub(crate) fn outlines(&self, messages: &[Envelope]) -> Vec<Envelope> {
        if !self.traces.is_on() {
            return Vec::new();
        }
        messages.iter().map(outline).collect()
    }

    /// Records the span of a message that was sent, or failed to be. It is a child of `within`, or of its order's
    /// root. The sent message is caused by `cause`, or by the trace that it names itself.
    pub(crate) fn sent(
        &self,
        within: Option<&OpenSpan>,
        cause: Option<TraceContext>,
        message: &Envelope,
        began: Timestamp,
        result: Result<(), &BusError>,
    ) {
        if !self.traces.is_on() {
            return;
        }
        let failure = result.err().map(bus_code);
        let Some(trace) = cause.or(message.trace) else {
            return;
        };
        if !trace.is_sampled() && failure.is_none() {
            return;
        }
        let of_cause = cause.zip(message.id()).map(|(cause, id)| cause.child(id));
        let context = match of_cause.or(message.trace) {
            // The message has the hop of its cause; its failure has its own.
            _ if !trace.is_sampled() => {
                let what = message.id().unwrap_or(&message.topic);
                trace.part(&format!("send/{what}/{}", began.0))
            }
            Some(context) => context,
            None => return,
        };
        let order = message
            .key
            .as_deref()
            .and_then(|key| std::str::from_utf8(key).ok());
        let root = || Some(context.root_of(&OrderId::new(order?).ok()?));
        let parent = within.map(OpenSpan::context).or_else(root);
        let open = OpenSpan::made(context, parent, began);
        self.traces.end(&open, self.now(), failure, || {
            let told = SpanEnd::new(format!("send {}", message.topic), SpanKind::Producer)
                .with("messaging.system", self.traces.engines().bus)
                .with("messaging.operation.type", "send")
                .with("messaging.operation.name", "send")
                .with("messaging.destination.name", message.topic.clone());
            let told = match order {
                Some(order) => told.with("messaging.message.conversation_id", order.to_owned()),
                None => told,
            };
            match message.id() {
                Some(id) => told.with("messaging.message.id", id.to_owned()),
                None => told,
            }
        });
    }
}

impl Traces {
    /// The attributes common to all spans of a record that was handled for an order. `what` names the operation.
    pub(crate) fn handled(&self, what: &'static str, record: &InputRecord, order: &str) -> SpanEnd {
        let topic = &record.topic;
        SpanEnd::new(format!("{what} {topic}"), SpanKind::Consumer)
            .with("messaging.system", self.engines().bus)
            .with("messaging.operation.type", "process")
            .with("messaging.operation.name", what)
            .with("messaging.destination.name", topic.clone())
            .with(
                "messaging.destination.partition.id",
                record.partition.to_string(),
            )
            .with("messaging.kafka.offset", record.offset)
            .with("messaging.message.conversation_id", order.to_owned())
    }
}

fn outline(message: &Envelope) -> Envelope {
    // An unsampled message gets a span only if it fails: its trace and its topic are enough.
    let is_told = message.trace.is_some_and(TraceContext::is_sampled);
    Envelope {
        topic: message.topic.clone(),
        key: message.key.clone(),
        value: Vec::new(),
        headers: if is_told {
            message.headers.clone()
        } else {
            Vec::new()
        },
        trace: message.trace,
    }
}

/// The cause of the work on a record: the record's trace context, or its order's trace, unsampled, if it has none.
pub(crate) fn of_record(record: &InputRecord, order: &OrderId) -> TraceContext {
    record
        .trace()
        .unwrap_or_else(|| TraceContext::of_order(order))
}

impl InputRecord {
    /// Identity of work of this kind on this record.
    pub(crate) fn work_kind(&self, kind: &'static str) -> WorkKind {
        WorkKind(kind, self.offset.unsigned_abs())
    }
}

/// The number, as an attribute can hold it.
pub(crate) fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The short code of a failure of the store.
pub(crate) fn store_code(e: &StoreError) -> &'static str {
    match e {
        StoreError::Transient(_) => "store-transient",
        StoreError::Configuration(_) => "store-configuration",
        StoreError::Item(_) => "store-item",
    }
}

/// The short code of a failure of the bus.
pub(crate) fn bus_code(e: &BusError) -> &'static str {
    match e {
        BusError::Transient(_) => "bus-transient",
        BusError::Late(_) => "bus-late",
        BusError::TooLarge(_) => "bus-too-large",
        BusError::Permanent(_) => "bus-permanent",
    }
}

/// The short code of a redelivery that is a failure; `None` if the record only waits for its turn or for room.
pub(crate) fn redelivery_code(why: &Redelivery) -> Option<&'static str> {
    match why {
        Redelivery::Store(e) => Some(store_code(e)),
        Redelivery::Unsent(e) => Some(bus_code(e)),
        Redelivery::Outside(_) => Some("outside"),
        Redelivery::Raced => Some("raced"),
        Redelivery::OutOfTime => Some("out-of-time"),
        Redelivery::Newer(_) => Some("newer-version"),
        Redelivery::Behind | Redelivery::NoRoom(_) => None,
    }
}

/// The name of an outcome, and the code of its failure.
pub(crate) fn outcome_of(outcome: &ReplyOutcome) -> (&'static str, Option<&str>) {
    match outcome {
        ReplyOutcome::Succeeded { .. } => ("succeeded", None),
        ReplyOutcome::InProgress(_) => ("in_progress", None),
        ReplyOutcome::Failed { failure, .. } => ("failed", Some(&failure.code)),
        ReplyOutcome::Deferred { failure, .. } => ("deferred", Some(&failure.code)),
    }
}
