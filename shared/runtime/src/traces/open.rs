//! Work that has begun, and what is said of it at its end.

use std::borrow::Cow;

use triad_core::render::requests_at_hand;
use triad_core::{Order, OrderId, Timestamp, TraceContext};

use super::{Attribute, SpanKind, Traces};

/// Work that has begun: a span to be.
///
/// In a trace that is not recorded only a failure is told. Such work keeps what its ids are made of, and they
/// are made when it fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenSpan {
    place: SpanPlacement,
    pub(crate) began: Timestamp,
}

/// Where work is in its trace.
#[derive(Debug, Clone, Copy)]
enum SpanPlacement {
    /// The ids are made.
    Made {
        context: TraceContext,
        parent: Option<TraceContext>,
    },
    /// The ids are still to be made: `what` within `cause`, or within the work `around`, which is in it.
    Within {
        cause: TraceContext,
        around: Option<(WorkKind, Timestamp)>,
        what: WorkKind,
    },
}

/// What work it is, among those that one cause has in the same millisecond: its kind, and a number.
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

    /// Work whose ids are known.
    pub(crate) fn made(
        context: TraceContext,
        parent: Option<TraceContext>,
        began: Timestamp,
    ) -> Self {
        let place = SpanPlacement::Made { context, parent };
        Self { place, began }
    }

    /// The root of an order in this trace, which is its submitter's or its own.
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

    /// Whether it is told of even if it succeeds.
    pub(crate) fn is_sampled(&self) -> bool {
        self.carried().is_sampled()
    }

    /// What others that it calls carry on: its own hop, or that of its cause where nobody is told of its own.
    pub(crate) fn carried(&self) -> TraceContext {
        match self.place {
            SpanPlacement::Made { context, .. } => context,
            SpanPlacement::Within { cause, .. } => cause,
        }
    }

    /// Its own hop.
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

    /// The hops of the attempts at which an order stands that this work takes up again. None where nobody is
    /// told of its own hop.
    pub(crate) fn attempts_of(&self, order: &Order) -> Vec<TraceContext> {
        if !self.is_sampled() {
            return Vec::new();
        }
        let context = self.context();
        let requests = requests_at_hand(order);
        requests.iter().map(|id| context.child(id)).collect()
    }

    /// The hop that it is a part of; `None` of a root.
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

/// What is said of a span at its end.
pub(crate) struct SpanEnd {
    pub(crate) name: Cow<'static, str>,
    pub(crate) kind: SpanKind,
    pub(crate) links: Vec<TraceContext>,
    pub(crate) attributes: Vec<Attribute>,
}

impl Traces {
    /// Work within `cause`. Its id is made of the cause, of `what` it is and of the moment: the same
    /// message handled twice is two spans. `None` where nobody is told.
    pub(crate) fn begin(
        &self,
        cause: TraceContext,
        what: WorkKind,
        now: Timestamp,
    ) -> Option<OpenSpan> {
        self.is_on().then(|| OpenSpan::within(cause, what, now))
    }

    /// Work for an order that no message has caused, such as a sweep: a child of the order's root.
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
    /// Of this name and kind; nothing more is said of it yet.
    pub(crate) fn new(name: impl Into<Cow<'static, str>>, kind: SpanKind) -> Self {
        Self {
            name: name.into(),
            kind,
            links: Vec::new(),
            attributes: Vec::new(),
        }
    }

    /// Says one thing more.
    pub(crate) fn with(
        mut self,
        name: &'static str,
        value: impl Into<super::AttributeValue>,
    ) -> Self {
        self.attributes.push((name, value.into()));
        self
    }
}
