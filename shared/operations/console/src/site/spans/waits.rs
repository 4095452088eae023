//! The waits between the attempts at a step, and up to now.

use triad_core::order::{Incident, IncidentKind};
use triad_core::{Direction, Order, StepRecord, Timestamp, Work};

use super::attempts::{AttemptFollowedBy, AttemptSpan};
use super::{Kind, Span};

/// The waits before an attempt whose beginnings the record holds: the deferral, then the wait until the attempt.
pub(super) fn waits_before(
    order: &Order,
    before: Option<&AttemptSpan>,
    next: &AttemptSpan,
) -> [Option<Span>; 2] {
    let until = next.span.from;
    let deferred = before
        .filter(|before| before.then == AttemptFollowedBy::Deferral)
        .and_then(|before| deferral(order, before, until));
    let is_first_compensation =
        next.at_compensation && before.is_none_or(|before| !before.at_compensation);
    let waited = match before {
        Some(before) if before.then == AttemptFollowedBy::Another && next.follows(before) => {
            let since = last_of(order, &AGAIN, before.span.to, until);
            let since = since.unwrap_or(before.span.to);
            wait(since, until, "waited for its next attempt")
        }
        _ if is_first_compensation => {
            let ended = before.map_or(order.submitted_at, |before| before.span.to);
            let began = last_of(order, &[IncidentKind::CompensationBegan], ended, until);
            began.and_then(|began| wait(began, until, "waited for its compensation"))
        }
        _ => None,
    };
    [deferred, waited]
}

/// The wait up to now of a due or deferred step.
pub(super) fn wait_at_last(
    order: &Order,
    record: &StepRecord,
    before: Option<&AttemptSpan>,
    now: Timestamp,
) -> Option<Span> {
    let before_that = before.map_or(order.submitted_at, |before| before.span.to);
    if order.state.is_finished() {
        return None;
    }
    match record.state.work()? {
        Work::Deferred { deferred_since, .. } => {
            match before.filter(|before| before.then == AttemptFollowedBy::Deferral) {
                Some(before) => deferral(order, before, now),
                None => deferred(*deferred_since, now, ""),
            }
        }
        Work::Due { .. } | Work::Delayed { .. } if record.direction() == Direction::Compensate => {
            let kinds = [
                IncidentKind::CompensationBegan,
                IncidentKind::CompensationRetried,
            ];
            let since = last_of(order, &kinds, before_that, now);
            let since = since.or(before.filter(|b| b.at_compensation).map(|b| b.span.to));
            wait(since?, now, "waits for its compensation")
        }
        Work::Due { .. } | Work::Delayed { .. } => {
            let since = last_of(order, &AGAIN, before_that, now);
            let since = since.or(before.map(|before| before.span.to));
            wait(since?, now, "waits for its next attempt")
        }
        Work::Out(_) | Work::Parked { .. } | Work::Failed { .. } => None,
    }
}

/// Lines that make a finished step due again.
const AGAIN: [IncidentKind; 2] = [IncidentKind::Resubmitted, IncidentKind::CompensationRetried];
/// Lines that end a deferral without another attempt of the same leg.
const ENDS: [IncidentKind; 3] = [
    IncidentKind::CompensationBegan,
    IncidentKind::Cancelled,
    IncidentKind::Resolved,
];

/// Time of the latest line of these kinds, within these bounds.
fn last_of(
    order: &Order,
    kinds: &[IncidentKind],
    from: Timestamp,
    to: Timestamp,
) -> Option<Timestamp> {
    let fits = |line: &&Incident| kinds.contains(&line.what) && (from..=to).contains(&line.at);
    order
        .incidents
        .iter()
        .filter(fits)
        .map(|line| line.at)
        .max()
}

/// The deferral after an attempt.
fn deferral(order: &Order, before: &AttemptSpan, until: Timestamp) -> Option<Span> {
    let since = before.span.to;
    let ends = |line: &&Incident| ENDS.contains(&line.what) && (since..until).contains(&line.at);
    let ended = order.incidents.iter().find(ends).map(|line| line.at);
    let after = match before.last == before.first {
        true => format!(" after attempt {}", before.last),
        false => format!(" after attempts {} to {}", before.first, before.last),
    };
    deferred(since, ended.unwrap_or(until), &after)
}

fn deferred(from: Timestamp, to: Timestamp, after: &str) -> Option<Span> {
    wait(from, to, &format!("deferred{after}")).map(|span| Span {
        kind: Kind::Deferred,
        class: "warn",
        ..span
    })
}

/// A wait; `None` if it has no length.
pub(super) fn wait(from: Timestamp, to: Timestamp, say: &str) -> Option<Span> {
    (from < to).then(|| Span {
        kind: Kind::Wait,
        from,
        to,
        class: "none",
        say: say.to_owned(),
        calls: None,
    })
}
