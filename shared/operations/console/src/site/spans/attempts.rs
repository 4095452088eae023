//! The attempts at a step that an order's record holds, from timeline lines and from the step's state.

use triad_core::order::{Incident, IncidentKind};
use triad_core::{Attempt, Direction, Leg, Order, StepRecord, StepState, Timestamp, Work};

use super::{Kind, Span};

/// The event after an attempt at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptFollowedBy {
    /// The attempt has not ended, or it was the last of its leg.
    Nothing,
    /// A wait, then another attempt.
    Another,
    /// The step is deferred.
    Deferral,
}

/// One attempt, or several consecutive deferred ones.
pub(super) struct AttemptSpan {
    pub(super) at_compensation: bool,
    pub(super) first: Attempt,
    pub(super) last: Attempt,
    pub(super) then: AttemptFollowedBy,
    pub(super) span: Span,
}

impl AttemptSpan {
    /// Whether this attempt directly followed another one of its leg.
    pub(super) fn follows(&self, other: &Self) -> bool {
        self.at_compensation == other.at_compensation && self.first == other.last.next()
    }
}

/// The attempts at a step that the record holds, the oldest first.
pub(super) fn attempt_spans(
    order: &Order,
    record: &StepRecord,
    now: Timestamp,
) -> Vec<AttemptSpan> {
    let of_step = |line: &&Incident| line.step.as_ref() == Some(&record.step);
    let mut told: Vec<AttemptSpan> = Vec::new();
    for line in order.incidents.iter().filter(of_step) {
        let next = of_line(line, told.last());
        told.extend(next);
    }
    let calls = |at_compensation| calls_of_last(order, record, at_compensation);
    told.extend(of_state(record, calls, now));
    told.sort_by_key(|one| one.span.from);
    told
}

fn of_line(line: &Incident, before: Option<&AttemptSpan>) -> Option<AttemptSpan> {
    let (first, started) = (line.attempt?, line.started?);
    let last = line.through.unwrap_or(first);
    let at_compensation = line.direction() == Direction::Compensate;
    // The step was deferred for too long: this line ends a wait and is no attempt.
    let is_of_wait = before.is_some_and(|before| {
        before.then == AttemptFollowedBy::Deferral
            && before.at_compensation == at_compensation
            && before.last == first
    });
    let (class, then, ended) = match line.what {
        IncidentKind::AttemptFailed | IncidentKind::CompensationFailed if is_of_wait => {
            ("bad", AttemptFollowedBy::Another, ": deferred for too long")
        }
        IncidentKind::AttemptFailed | IncidentKind::CompensationFailed => {
            ("bad", AttemptFollowedBy::Another, "")
        }
        IncidentKind::Completed => ("good", AttemptFollowedBy::Nothing, ": completed"),
        IncidentKind::Compensated => ("warn", AttemptFollowedBy::Nothing, ": compensated"),
        IncidentKind::Deferred => ("warn", AttemptFollowedBy::Deferral, " deferred"),
        IncidentKind::Probed => ("busy", AttemptFollowedBy::Another, ""),
        IncidentKind::InProgress => {
            let goes_on = ": the service goes on with the work";
            ("busy", AttemptFollowedBy::Another, goes_on)
        }
        IncidentKind::Abandoned if line.failure.is_some() => (
            "none",
            AttemptFollowedBy::Another,
            " failed, and was not counted",
        ),
        IncidentKind::Abandoned => ("none", AttemptFollowedBy::Another, ": waited for no longer"),
        // About the order, and no attempt.
        _ => return None,
    };
    let failure = line.failure.as_ref().map(|f| format!(": {f}"));
    let name = name(line.direction(), first);
    let span = Span {
        kind: match is_of_wait {
            true => Kind::Deferred,
            false => Kind::Attempt,
        },
        from: match before.filter(|_| is_of_wait) {
            Some(before) => before.span.to,
            None => started,
        },
        to: line.at.max(started),
        class,
        say: format!("{name}{ended}{}", failure.unwrap_or_default()),
        calls: line.calls,
    };
    Some(AttemptSpan {
        at_compensation,
        first,
        last,
        then,
        span,
    })
}

/// The attempt that only the state of a step holds, without a timeline line.
fn of_state(
    record: &StepRecord,
    calls: impl Fn(bool) -> Option<u32>,
    now: Timestamp,
) -> Option<AttemptSpan> {
    let told =
        |direction, attempt, (from, to): (Timestamp, Timestamp), class, what: &str, calls| {
            AttemptSpan {
                at_compensation: direction == Direction::Compensate,
                first: attempt,
                last: attempt,
                then: AttemptFollowedBy::Nothing,
                span: Span {
                    kind: Kind::Attempt,
                    from,
                    to: to.max(from),
                    class,
                    say: format!("{}: {what}", name(direction, attempt)),
                    calls,
                },
            }
        };
    match &record.state {
        StepState::Completed {
            started: Some(started),
            finished,
            attempt,
            ..
        } => {
            let (direction, calls) = (Direction::Forward, calls(false));
            let span = (*started, *finished);
            Some(told(direction, *attempt, span, "good", "completed", calls))
        }
        StepState::Compensated {
            started: Some(started),
            finished,
            attempt,
            ..
        } => {
            let (direction, calls) = (Direction::Compensate, calls(true));
            let span = (*started, *finished);
            let what = "compensated";
            Some(told(direction, *attempt, span, "warn", what, calls))
        }
        state => match state.work()? {
            Work::Out(out) => {
                let (span, what) = ((out.started, now), "waited for");
                Some(told(out.direction, out.attempt, span, "busy", what, None))
            }
            Work::Failed {
                direction,
                attempt,
                started,
                calls,
            } => {
                // Early versions stored neither time.
                let span = (started.0 > 0).then_some((*started, now))?;
                let (what, calls) = ("failed, not counted yet", Some(*calls));
                Some(told(*direction, *attempt, span, "bad", what, calls))
            }
            Work::Parked { attempt, since, .. } => {
                let direction = record.direction();
                Some(told(
                    direction,
                    *attempt,
                    (*since, now),
                    "none",
                    "waited for",
                    None,
                ))
            }
            Work::Due { .. } | Work::Delayed { .. } | Work::Deferred { .. } => None,
        },
    }
}

fn name(direction: Direction, attempt: Attempt) -> String {
    match direction {
        Direction::Compensate => format!("compensation attempt {attempt}"),
        Direction::Forward => format!("attempt {attempt}"),
        Direction::Probe => format!("probe, attempt {attempt}"),
    }
}

/// Calls of the attempt with which a leg succeeded: the calls reported for the leg, less those in the lines of
/// earlier attempts. `None` if an earlier attempt has no line, or a line without calls.
fn calls_of_last(order: &Order, record: &StepRecord, at_compensation: bool) -> Option<u32> {
    let (leg, last): (&Leg, _) = match at_compensation {
        true => (&record.compensation, record.compensations()),
        false => (&record.action, record.actions()),
    };
    let is_moved = |line: &Incident| line.what == IncidentKind::Migrated;
    if order.incidents.iter().any(is_moved) {
        // Attempts may be numbered from more than 1, so the first one is unknown.
        return None;
    }
    let of_leg = |line: &&Incident| {
        line.step.as_ref() == Some(&record.step)
            && line.attempt.is_some()
            && (line.direction() == Direction::Compensate) == at_compensation
    };
    let earlier: Option<Vec<u32>> = order
        .incidents
        .iter()
        .filter(of_leg)
        .map(|line| line.calls)
        .collect();
    let earlier = earlier?;
    let is_whole = earlier.len() + 1 == usize::try_from(last).ok()?;
    let calls = earlier
        .iter()
        .try_fold(leg.made, |left, calls| left.checked_sub(*calls))?;
    (is_whole && calls > 0).then_some(calls)
}
