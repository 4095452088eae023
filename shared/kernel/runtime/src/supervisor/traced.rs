//! Spans of a sweep's orders.

use triad_core::pass::{PassEnd, Snapshot, Task};

use crate::passes::Carried;
use crate::ports::Clock;
use crate::traces::{SpanEnd, SpanKind, Tracing, bus_code, store_code};

/// Records the span of one order, with links to the attempts under way in the order. An order without work gets no
/// span.
pub(super) fn swept<C: Clock>(tracing: &Tracing<'_, C>, read: &Snapshot, carried: &Carried) {
    let Some(span) = &carried.span else { return };
    let end = match carried.pass.task() {
        Task::Ended(PassEnd::Ignored(_) | PassEnd::Refused(_) | PassEnd::Absent) => return,
        Task::Ended(end) => Some(end),
        _ => None,
    };
    let failure = match (end, &carried.unwritten, &carried.unsent) {
        (Some(PassEnd::Illegal(_)) | None, ..) => Some("illegal"),
        (_, Some(e), _) => Some(store_code(e)),
        (_, _, Some(e)) => Some(bus_code(e)),
        _ => None,
    };
    tracing.traces.end(span, tracing.now(), failure, || {
        SpanEnd {
            links: span.attempts_of(&read.order),
            ..SpanEnd::new("sweep", SpanKind::Internal)
        }
        .with("triad.order.id", read.order.id.to_string())
        .with("triad.workflow", read.order.workflow.name.to_string())
        .with("triad.order.state", read.order.state.name())
    });
}
