//! Work that has begun, and what is said of it at its end.

use std::borrow::Cow;

use triad_core::{Order, OrderId, Timestamp, TraceContext};

use super::{Attribute, SpanKind, Traces};

/// Work that has begun: a span to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Open {
    pub(crate) context: TraceContext,
    pub(crate) parent: Option<TraceContext>,
    pub(crate) began: Timestamp,
}

impl Open {
    /// Work within `cause`, as in [`Traces::begin`].
    pub(crate) fn within(cause: TraceContext, what: &str, now: Timestamp) -> Self {
        Self {
            context: cause.part(&format!("{what}/{}", now.0)),
            parent: Some(cause),
            began: now,
        }
    }

    /// The root of an order in this trace, which is its submitter's or its own.
    pub(crate) fn root(trace: TraceContext, order: &OrderId, now: Timestamp) -> Self {
        let context = trace.root_of(order);
        Self {
            context,
            parent: (trace != context).then_some(trace),
            began: now,
        }
    }
}

/// What is said of a span at its end.
pub(crate) struct Told {
    pub(crate) name: Cow<'static, str>,
    pub(crate) kind: SpanKind,
    pub(crate) links: Vec<TraceContext>,
    pub(crate) attributes: Vec<Attribute>,
}

impl Traces {
    /// Work within `cause`. Its id is made of the cause, of `what` it is and of the moment: the same
    /// message handled twice is two spans. `None` where nobody is told.
    pub(crate) fn begin(&self, cause: TraceContext, what: &str, now: Timestamp) -> Option<Open> {
        self.is_on().then(|| Open::within(cause, what, now))
    }

    /// Work for an order that no message has caused, such as a sweep: a child of the order's root.
    pub(crate) fn beside(&self, order: &Order, what: &str, now: Timestamp) -> Option<Open> {
        if !self.is_on() {
            return None;
        }
        let trace = order.traceparent.as_deref().and_then(TraceContext::parse);
        let trace = trace.unwrap_or_else(|| TraceContext::of_order(&order.id));
        self.begin(trace.root_of(&order.id), what, now)
    }
}

impl Told {
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
