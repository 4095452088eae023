//! Open spans, and their attributes at their end.

use std::borrow::Cow;

use triad_core::render::requests_at_hand;
use triad_core::{Order, OrderId, Timestamp, TraceContext};

use super::{Attribute, SpanKind, Traces};

/// An open span.
///
/// In an unsampled trace only a failure is exported. Such a span keeps the inputs of its ids, and computes them when
/// it fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenSpan {
    place: SpanPlacement,
    pub(crate) began: Timestamp,
}

/// Position of work in its trace.
#[derive(Debug, Clone, Copy)]
enum SpanPlacement {
    /// The ids are computed.
    Made {
        context: TraceContext,
        parent: Option<TraceContext>,
    },
    /// The ids are not computed yet: `what` within `cause`, or within the work `around`, which is within `cause`.
    Within {
        cause: TraceContext,
        around: Option<(WorkKind, Timestamp)>,
        what: WorkKind,
    },
}

/// Identity of work among that of one cause in the same millisecond: its kind, and a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkKind(pub(crate) &'static str, pub(crate) u64);

impl OpenSpan {
    /// Work within `cause`, as in [`Traces::begin`].
    pub(crate) fn within(cause: TraceContext, what: WorkKind, now: Timestamp) -> Self {
        if cause.is_sampled() {
            return Self::made(part(cause, what, now), Some(cause), now);
        }
        let place = SpanPlacement::Within {
            cause,
            around: None,
            what,
        };
        Self { place, began: now }
    }

    /// Work with known ids.
    pub(crate) fn made(
        context: TraceContext,
        parent: Option<TraceContext>,
        began: Timestamp,
    ) -> Self {
        let place = SpanPlacement::Made { context, parent };
        Self { place, began }
    }

    /// The root of an order in this trace, which is its submitter's or the order's own.
    pub(crate) fn root(trace: TraceContext, order: &OrderId, now: Timestamp) -> Self {
        let context = trace.root_of(order);
        Self::made(context, (trace != context).then_some(trace), now)
    }

    /// A part of this work.
    pub(crate) fn part(&self, what: WorkKind, now: Timestamp) -> Self {
        match self.place {
            SpanPlacement::Within {
                cause,
                around: None,
                what: outer,
            } => Self {
                place: SpanPlacement::Within {
                    cause,
                    around: Some((outer, self.began)),
                    what,
                },
                began: now,
            },
            _ => Self::within(self.context(), what, now),
        }
    }

    /// Whether the span is exported even if the work succeeds.
    pub(crate) fn is_sampled(&self) -> bool {
        self.carried().is_sampled()
    }

    /// Context to propagate: this span's if sampled, else its parent's.
    pub(crate) fn carried(&self) -> TraceContext {
        match self.place {
            SpanPlacement::Made { context, .. } => context,
            SpanPlacement::Within { cause, .. } => cause,
        }
    }

    /// This span's own hop.
    pub(crate) fn context(&self) -> TraceContext {
        match self.place {
            SpanPlacement::Made { context, .. } => context,
            SpanPlacement::Within {
                cause,
                around,
                what,
            } => part(of_around(cause, around), what, self.began),
        }
    }

    /// The hops of the attempts under way in an order, which this work continues. Empty for an unsampled span.
    pub(crate) fn attempts_of(&self, order: &Order) -> Vec<TraceContext> {
        if !self.is_sampled() {
            return Vec::new();
        }
        let context = self.context();
        let requests = requests_at_hand(order);
        requests.iter().map(|id| context.child(id)).collect()
    }

    /// The hop of the parent; `None` for a root.
    pub(crate) fn parent(&self) -> Option<TraceContext> {
        match self.place {
            SpanPlacement::Made { parent, .. } => parent,
            SpanPlacement::Within { cause, around, .. } => Some(of_around(cause, around)),
        }
    }
}

fn of_around(cause: TraceContext, around: Option<(WorkKind, Timestamp)>) -> TraceContext {
    around.map_or(cause, |(what, began)| part(cause, what, began))
}

fn part(cause: TraceContext, WorkKind(kind, number): WorkKind, began: Timestamp) -> TraceContext {
    cause.part(&format!("{kind}/{number}/{}", began.0))
}

/// Name, kind and attributes of a span at its end.
pub(crate) struct SpanEnd {
    pub(crate) name: Cow<'static, str>,
    pub(crate) kind: SpanKind,
    pub(crate) links: Vec<TraceContext>,
    pub(crate) attributes: Vec<Attribute>,
}

impl Traces {
    /// Begins work within `cause`. Its id is made of the cause, of `what` it is and of the moment: the same message
    /// handled twice has two spans. `None` if tracing is off.
    pub(crate) fn begin(
        &self,
        cause: TraceContext,
        what: WorkKind,
        now: Timestamp,
    ) -> Option<OpenSpan> {
        self.is_on().then(|| OpenSpan::within(cause, what, now))
    }

    /// Begins work for an order without a message as its cause, such as a sweep: a child of the order's root.
    pub(crate) fn beside(
        &self,
        order: &Order,
        kind: &'static str,
        now: Timestamp,
    ) -> Option<OpenSpan> {
        if !self.is_on() {
            return None;
        }
        let trace = order.traceparent.as_deref().and_then(TraceContext::parse);
        let trace = trace.unwrap_or_else(|| TraceContext::of_order(&order.id));
        self.begin(trace.root_of(&order.id), WorkKind(kind, 0), now)
    }
}

impl SpanEnd {
    /// A span with this name and kind and no attributes.
    pub(crate) fn new(name: impl Into<Cow<'static, str>>, kind: SpanKind) -> Self {
        Self {
            name: name.into(),
            kind,
            links: Vec::new(),
            attributes: Vec::new(),
        }
    }

    /// Adds an attribute.
    pub(crate) fn with(
        mut self,
        name: &'static str,
        value: impl Into<super::AttributeValue>,
    ) -> Self {
        self.attributes.push((name, value.into()));
        self
    }
}
