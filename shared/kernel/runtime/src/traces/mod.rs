//! Traces: handlers' work for an order, as spans for a sink.
//!
//! A span is a value. A handler makes it when the work is over and hands it to a port that never blocks. An unsampled
//! order builds no spans except for failures, and without a port none are built. Ids are derived ([`TraceContext`])
//! and times come from the handler's clock, so tracing draws no random number and never waits.
//!
//! Architecture invariant: no span holds a payload or the value of a header, and no decision about an order depends
//! on a span.

mod handler_spans;
mod open;

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use triad_core::TraceContext;
use triad_core::{OrderId, Timestamp};
use triad_workflow::Millis;

pub(crate) use handler_spans::{
    Tracing, bus_code, number, of_record, outcome_of, redelivery_code, store_code,
};
pub(crate) use open::{OpenSpan, SpanEnd, WorkKind};

/// The kind of a span, as OpenTelemetry has it: whether its work crosses a border of the process, and in
/// which direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// Work within Triad.
    Internal,
    /// Work that answers a caller.
    Server,
    /// A call to another system: a remote service, or the store.
    Client,
    /// A message that was sent.
    Producer,
    /// A message that was handled.
    Consumer,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributeValue {
    /// A text.
    Text(Cow<'static, str>),
    /// A whole number.
    Number(i64),
}

impl From<&'static str> for AttributeValue {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<i64> for AttributeValue {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

/// Name and value of an attribute. Names are those of OpenTelemetry's semantic conventions, or begin with
/// `triad.`.
pub type Attribute = (&'static str, AttributeValue);

/// One span: a piece of work for an order, from its begin to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceSpan {
    /// The trace, the span's own id and the flags. Two spans with the same ids are the same work, exported twice.
    pub context: TraceContext,
    /// The span that caused this one; `None` of a root.
    pub parent: Option<TraceContext>,
    /// Earlier spans whose work this one continues; empty if there are none.
    pub links: Vec<TraceContext>,
    /// The name of the work. There are few different names, so that spans can be grouped by them.
    pub name: Cow<'static, str>,
    /// The kind of the work.
    pub kind: SpanKind,
    /// When it began, by the clock of its machine.
    pub began: Timestamp,
    /// When it ended; not before it began.
    pub ended: Timestamp,
    /// Attributes of the work.
    pub attributes: Vec<Attribute>,
    /// The short code of the failure; `None` if there was none.
    pub failure: Option<String>,
}

/// The port that takes spans when their work has ended, and keeps them or sends them on.
pub trait TraceSink: Send + Sync + 'static {
    /// Takes a span. Handlers call this in the middle of their work, so it must return at once: it must not
    /// wait or fail, and drops spans for which it has no room.
    fn ended(&self, span: TraceSpan);

    /// Sends on the spans that it still holds, for at most `within` milliseconds. By default this does
    /// nothing, for sinks that hold none.
    fn flush(&self, _within: Millis) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}

/// The share of sampled orders, among those whose submitter sends no trace context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling(u64);

impl Sampling {
    /// Samples this share of the orders, from 0 (none) to 1 (all). The ids of their traces decide which orders these
    /// are, as in OpenTelemetry's `TraceIdRatioBased`. `None` if the share is outside these bounds or not a number.
    #[must_use]
    pub fn of_share(share: f64) -> Option<Self> {
        let whole = 1_u64 << 63;
        (0.0..=1.0)
            .contains(&share)
            .then_some(Self((share * whole as f64) as u64))
    }

    fn takes(self, trace: TraceContext) -> bool {
        let low = trace.trace_id() as u64;
        (low >> 1) < self.0
    }
}

/// The names that spans give to the bus, the store and the store's operations in their attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engines {
    /// The value of `messaging.system`.
    pub bus: &'static str,
    /// The value of `db.system.name`.
    pub store: &'static str,
    /// Name of the store's operation that creates a record.
    pub create: &'static str,
    /// Name of the store's operation that replaces a record.
    pub write: &'static str,
    /// The value of `db.collection.name` where a record is replaced: the table of the records.
    pub records: Cow<'static, str>,
}

impl Engines {
    /// The names for Kafka and DynamoDB, whose tables have no prefix.
    pub const DEPLOYED: Self = Self {
        bus: "kafka",
        store: "aws.dynamodb",
        create: "TransactWriteItems",
        write: "PutItem",
        records: Cow::Borrowed("order-state"),
    };
    /// The names for the embedded broker and the SQLite file of one machine.
    pub const ONE_MACHINE: Self = Self {
        bus: "triad",
        store: "sqlite",
        create: "INSERT",
        write: "UPDATE",
        records: Cow::Borrowed("order_state"),
    };

    /// The same names, with another table of the records.
    #[must_use]
    pub fn with_records(self, table: &str) -> Self {
        Self {
            records: Cow::Owned(table.to_owned()),
            ..self
        }
    }
}

/// Where handlers send their spans: to a sink, or nowhere, which is the default and costs nothing. Clones
/// share the sink.
#[derive(Clone, Default)]
pub struct Traces(Option<Arc<TracesOn>>);

struct TracesOn {
    sink: Box<dyn TraceSink>,
    sampling: Sampling,
    engines: Engines,
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_on() {
            "Traces(on)"
        } else {
            "Traces(off)"
        })
    }
}

impl Traces {
    /// Sends spans to `sink`. `sampling` decides about orders whose submitter sends no trace context; otherwise the
    /// submitter's context says whether the order is sampled. For an unsampled order only spans with a failure are
    /// sent. `engines` has the names for the spans' attributes.
    pub fn to(sink: impl TraceSink, sampling: Sampling, engines: Engines) -> Self {
        Self(Some(Arc::new(TracesOn {
            sink: Box::new(sink),
            sampling,
            engines,
        })))
    }

    /// Whether there is a sink, so that spans are made at all.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Has the sink send the spans that it still holds, for at most `within` milliseconds. Call it at the end of a
    /// process, and before a sandbox is frozen. No-op without a sink.
    pub async fn flush(&self, within: Millis) {
        if let Some(on) = &self.0 {
            on.sink.flush(within).await;
        }
    }

    /// Trace of a new order: its submitter's, or a new one, with the sampling decision. Without a sink, the
    /// submitter's only.
    pub(crate) fn of_submission(
        &self,
        order: &OrderId,
        given: Option<TraceContext>,
    ) -> Option<TraceContext> {
        let Some(on) = &self.0 else {
            return given;
        };
        Some(given.unwrap_or_else(|| {
            let own = TraceContext::of_order(order);
            own.sampled(on.sampling.takes(own))
        }))
    }

    /// Ends a span: sends it if its trace is sampled or the work has failed.
    pub(crate) fn end(
        &self,
        open: &OpenSpan,
        ended: Timestamp,
        failure: Option<&str>,
        told: impl FnOnce() -> SpanEnd,
    ) {
        let Some(on) = &self.0 else { return };
        if !open.is_sampled() && failure.is_none() {
            return;
        }
        let told = told();
        on.sink.ended(TraceSpan {
            context: open.context(),
            parent: open.parent(),
            links: told.links,
            name: told.name,
            kind: told.kind,
            began: open.began,
            ended: ended.max(open.began),
            attributes: told.attributes,
            failure: failure.map(str::to_owned),
        });
    }

    fn engines(&self) -> &Engines {
        static UNTOLD: Engines = Engines::DEPLOYED;
        self.0.as_ref().map_or(&UNTOLD, |on| &on.engines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_orders_is_sampled_by_their_traces() {
        let taken = |share| {
            let sampling = Sampling::of_share(share).expect("it is a share");
            let orders = (0..2_000).map(|n| OrderId::new(format!("o-{n}")).expect("an id"));
            orders
                .filter(|id| sampling.takes(TraceContext::of_order(id)))
                .count()
        };
        assert_eq!(taken(0.0), 0);
        assert_eq!(taken(1.0), 2_000);
        let tenth = taken(0.1);
        assert!((150..250).contains(&tenth), "{tenth}");
        for wrong in [-0.1, 1.1, f64::NAN] {
            assert_eq!(Sampling::of_share(wrong), None);
        }
    }

    #[test]
    fn where_nobody_is_told_an_order_has_its_submitters_context_and_no_other() {
        let id = OrderId::new("7").expect("an id");
        let given = TraceContext::of_order(&OrderId::new("8").expect("an id"));
        let off = Traces::default();
        assert_eq!(off.of_submission(&id, None), None);
        assert_eq!(off.of_submission(&id, Some(given)), Some(given));
    }
}
