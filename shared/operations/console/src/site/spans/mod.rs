//! The spans of time in an order's record: attempts with their calls, and the waits between them.
//!
//! No value is guessed: an attempt whose line was dropped has no span, nor has a wait next to it, and an attempt has
//! a number of calls only if the record determines it.

mod attempts;
mod waits;

use triad_core::order::Incident;
use triad_core::{Order, StepRecord, Timestamp};

use attempts::{AttemptSpan, attempt_spans};
use waits::{wait, wait_at_last, waits_before};

/// Kind of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The whole order, from its submission to its end.
    Whole,
    Attempt,
    /// A wait: no request was sent, and the step was not deferred.
    Wait,
    /// The step was deferred: the service was not to be called, or no agent took the request.
    Deferred,
    /// An act of an operator, without length.
    Act,
}

/// A span of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) kind: Kind,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    /// Style class that shows whether the span ended well.
    pub(super) class: &'static str,
    /// Text for people.
    pub(super) say: String,
    /// Calls of the attempt; `None` if it is no attempt or the number is unknown.
    pub(super) calls: Option<u32>,
}

/// The whole order (up to now if unfinished), and its wait for the first attempt.
pub(super) fn of_order(order: &Order, class: &'static str, now: Timestamp) -> Vec<Span> {
    let end = order.state.finished_at().unwrap_or(now);
    let whole = Span {
        kind: Kind::Whole,
        from: order.submitted_at,
        to: end.max(order.submitted_at),
        class,
        say: format!("the order: {}", order.state.name()),
        calls: None,
    };
    let told = order
        .steps
        .iter()
        .flat_map(|record| attempt_spans(order, record, now));
    let first = told.map(|one| one.span.from).min();
    let begun = match first {
        // If the oldest lines were dropped, the first attempt is unknown.
        _ if order.dropped.is_some() => None,
        Some(first) => wait(order.submitted_at, first, "waited for its first attempt"),
        None if order.state.is_finished() => None,
        None => wait(order.submitted_at, now, "waits for its first attempt"),
    };
    std::iter::once(whole).chain(begun).collect()
}

/// The attempts at a step and the waits between them, the oldest first; up to now if the step is unfinished.
pub(super) fn of_step(order: &Order, record: &StepRecord, now: Timestamp) -> Vec<Span> {
    let told = attempt_spans(order, record, now);
    let mut spans = Vec::new();
    let mut before: Option<&AttemptSpan> = None;
    for one in &told {
        spans.extend(waits_before(order, before, one).into_iter().flatten());
        spans.push(one.span.clone());
        before = Some(one);
    }
    spans.extend(wait_at_last(order, record, before, now));
    spans
}

/// Acts of operators on the order.
pub(super) fn of_operators(order: &Order) -> Vec<Span> {
    let act = |line: &Incident| {
        let act = line.act.as_ref()?;
        let what = serde_json::to_value(line.what).ok()?;
        let what = what.as_str().unwrap_or_default();
        Some(Span {
            kind: Kind::Act,
            from: line.at,
            to: line.at,
            class: "busy",
            say: format!("{what} by {}: {}", act.by, act.why),
            calls: None,
        })
    };
    order.incidents.iter().filter_map(act).collect()
}

#[cfg(test)]
pub(super) mod tests;
