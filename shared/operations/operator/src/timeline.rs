//! An order's timeline, attempt by attempt, from its record.

use serde::Serialize;
use triad_core::history::{Untold, untold};
use triad_core::order::{Incident, IncidentKind};
use triad_core::received::KeptEvent;
use triad_core::{Attempt, Direction, Leg, Order, StepRecord, StepState, Timestamp, Work};

/// One line of an order's timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TimelineEntry {
    /// When it happened, in milliseconds since the Unix epoch.
    pub at: Timestamp,
    /// What happened, in one line for a person. The text is no contract.
    pub what: String,
}

/// The number of a step's last attempt at its action, from 1. For a step that is being compensated, or was,
/// it is that of the last attempt at its compensation. `None` for a step that waits or was skipped.
#[must_use]
pub fn attempt(state: &StepState) -> Option<u32> {
    match state {
        StepState::Waiting | StepState::Skipped => None,
        StepState::Compensating { work, .. } => Some(work.attempt().0),
        StepState::NotCompensated { attempt, .. } | StepState::Compensated { attempt, .. } => {
            Some(attempt.0)
        }
        other => other.attempt().map(|a| a.0),
    }
}

/// The state of a step in words, such as `compensating` or `deferred`.
#[must_use]
pub fn state_in_words(record: &StepRecord) -> &'static str {
    match &record.state {
        StepState::Waiting => "waiting",
        StepState::Skipped => "skipped",
        StepState::Acting(Work::Due { .. } | Work::Parked { .. }) if record.children.is_some() => {
            "runs child orders"
        }
        StepState::Acting(work) => match work {
            Work::Due { .. } => "retry due",
            Work::Delayed { .. } => "waits for its retry",
            Work::Out(out) if out.direction == Direction::Probe => "probing",
            Work::Out(_) => "running",
            Work::Deferred { .. } => "deferred",
            Work::Parked { .. } if record.in_progress.is_some() => "its service works on it",
            Work::Parked { events, .. } if events.is_empty() => "waits for its time",
            Work::Parked { .. } => "waits for an event",
            Work::Failed { .. } => "failed",
        },
        StepState::Completed { .. } => "completed",
        StepState::Refused { .. } => "refused",
        StepState::Ambiguous { .. } => "in doubt",
        StepState::Compensating { work, .. } => match work {
            Work::Due { .. } => "compensation due",
            Work::Delayed { .. } => "compensation waits for its retry",
            Work::Out(_) => "compensating",
            Work::Deferred { .. } => "compensation deferred",
            Work::Parked { .. } if record.children.is_some() => "compensating",
            Work::Parked { .. } => "compensation waits",
            Work::Failed { .. } => "compensation failed",
        },
        StepState::NotCompensated { .. } => "not compensated",
        StepState::Compensated { .. } => "compensated",
    }
}

/// The calls of a step's action and compensation together, in words: `3`, or `3 to 5` if attempts that were
/// never answered may have made up to two more.
#[must_use]
pub fn calls_in_words(action: Leg, compensation: Leg) -> String {
    let made = action.made.saturating_add(compensation.made);
    match action.unreported.saturating_add(compensation.unreported) {
        0 => made.to_string(),
        unknown => format!("{made} to {}", made.saturating_add(unknown)),
    }
}

/// The timeline of an order, as far as its record has it, oldest first. There are at most two entries for each step
/// and each incident, one for the submission, one for the end, and one for dropped lines.
#[must_use]
pub fn timeline(order: &Order) -> Vec<TimelineEntry> {
    let entry = |(at, _, what)| TimelineEntry { at, what };
    events(order).into_iter().map(entry).collect()
}

/// Rank of an event among those of the same millisecond: one write ends an attempt and begins the next step's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SameMoment {
    /// The event came before the rest.
    First,
    /// An earlier attempt ends, or an operator acts.
    Ends,
    Begins,
    /// An attempt ends in the millisecond in which it began.
    EndsAtOnce,
    /// The event comes after all others of its moment.
    Last,
}

impl SameMoment {
    /// Rank of an attempt's end.
    fn of_end(started: Option<Timestamp>, at: Timestamp) -> Self {
        match started == Some(at) {
            true => Self::EndsAtOnce,
            false => Self::Ends,
        }
    }
}

type Event = (Timestamp, SameMoment, String);

fn events(order: &Order) -> Vec<Event> {
    let mut events = vec![(
        order.submitted_at,
        SameMoment::First,
        "submitted".to_owned(),
    )];
    if let Some(dropped) = order.dropped {
        let lines = dropped.lines;
        events.push((
            dropped.latest,
            SameMoment::First,
            format!("({lines} lines up to here are no longer kept)"),
        ));
    }
    for event in &order.events {
        of_event(event, &mut events);
    }
    for step in &order.steps {
        let has_called = step.action.made > 0 || step.action.unreported > 0;
        let began = match &step.children {
            _ if has_called => None,
            Some(_) => Some("began its child orders"),
            None => Some("began to wait"),
        };
        of_step(step.step.as_str(), &step.state, began, &mut events);
    }
    for incident in &order.incidents {
        of_incident(incident, &mut events);
    }
    if let Some(at) = order.state.finished_at() {
        events.push((at, SameMoment::Last, order.state.name().to_owned()));
    }
    sort(&mut events);
    events
}

fn sort(events: &mut [Event]) {
    events.sort_by_key(|(at, place, _)| (*at, *place));
}

/// Attempts of the order whose timeline lines were dropped; one text for people for each gap. Empty for most orders.
#[must_use]
pub fn gaps(order: &Order) -> Vec<String> {
    let gap = |gap: Untold| {
        let kind = match gap.at_compensation {
            true => Direction::Compensate,
            false => Direction::Forward,
        };
        format!("{}: {}", gap.step, name_of(kind, gap.from, Some(gap.to)))
    };
    untold(order).into_iter().map(gap).collect()
}

/// `attempt 2`, `compensation attempts 1 to 3`.
fn name_of(direction: Direction, first: Attempt, last: Option<Attempt>) -> String {
    let kind = match direction {
        Direction::Forward => "attempt",
        Direction::Probe => "probe, attempt",
        Direction::Compensate => "compensation attempt",
    };
    match last.filter(|last| *last != first) {
        None => format!("{kind} {first}"),
        Some(last) => format!("{kind}s {first} to {last}"),
    }
}

fn of_event(event: &KeptEvent, events: &mut Vec<Event>) {
    let KeptEvent {
        event: name, id, ..
    } = event;
    let what = match &event.step {
        Some(step) => format!("{step}: took the event {name} ({id})"),
        None => format!("the event {name} ({id}) came, and is kept for its step"),
    };
    events.push((event.at, SameMoment::Ends, what));
}

/// The lines of a step. `began` says what it has begun if no agent was called for its action: a wait, or child orders.
fn of_step(step: &str, state: &StepState, began: Option<&str>, events: &mut Vec<Event>) {
    let attempt_began =
        |direction, attempt| format!("{step}: {} started", name_of(direction, attempt, None));
    let is_compensating = matches!(state, StepState::Compensating { .. });
    match state {
        StepState::Acting(work) | StepState::Compensating { work, .. } => match work {
            Work::Out(out) => {
                events.push((
                    out.started,
                    SameMoment::Begins,
                    attempt_began(out.direction, out.attempt),
                ));
            }
            Work::Failed {
                direction,
                attempt,
                started,
                calls,
            } => {
                let began = attempt_began(*direction, *attempt);
                let calls = after(Some(*calls));
                events.push((
                    *started,
                    SameMoment::Begins,
                    format!("{began}; it failed{calls}, not counted yet"),
                ));
            }
            Work::Parked { attempt, since, .. } if is_compensating => {
                let what = attempt_began(Direction::Compensate, *attempt);
                events.push((*since, SameMoment::Begins, what));
            }
            Work::Parked { since, .. } => {
                // Without it the line of its attempt says that the service has taken the work.
                if let Some(began) = began {
                    events.push((*since, SameMoment::Begins, format!("{step}: {began}")));
                }
            }
            Work::Due { .. } | Work::Delayed { .. } | Work::Deferred { .. } => {}
        },
        StepState::Completed {
            attempt,
            started,
            finished,
            ..
        } => {
            if let Some(started) = started {
                let what = match began {
                    None => attempt_began(Direction::Forward, *attempt),
                    Some(began) => format!("{step}: {began}"),
                };
                events.push((*started, SameMoment::Begins, what));
            }
            let place = SameMoment::of_end(*started, *finished);
            events.push((*finished, place, format!("{step}: completed")));
        }
        StepState::Compensated {
            attempt,
            started,
            finished,
            ..
        } => {
            if let Some(started) = started {
                let what = attempt_began(Direction::Compensate, *attempt);
                events.push((*started, SameMoment::Begins, what));
            }
            let place = SameMoment::of_end(*started, *finished);
            events.push((*finished, place, format!("{step}: compensated")));
        }
        StepState::Waiting
        | StepState::Skipped
        | StepState::Refused { .. }
        | StepState::Ambiguous { .. }
        | StepState::NotCompensated { .. } => {}
    }
}

fn after(calls: Option<u32>) -> String {
    match calls {
        Some(1) => " after 1 call".to_owned(),
        Some(n) => format!(" after {n} calls"),
        None => String::new(),
    }
}

fn of_incident(incident: &Incident, events: &mut Vec<Event>) {
    let step = incident
        .step
        .as_ref()
        .map_or_else(String::new, |s| format!("{s}: "));
    let direction = incident.direction();
    let attempt = incident.attempt.map(|first| (first, incident.through));
    if let (Some(started), Some((first, _))) = (incident.started, attempt) {
        let began = name_of(direction, first, None);
        events.push((
            started,
            SameMoment::Begins,
            format!("{step}{began} started"),
        ));
    }
    let named = match (attempt, direction) {
        (Some((first, last)), _) => name_of(direction, first, last),
        (None, Direction::Compensate) => "compensation".to_owned(),
        (None, _) => "attempt".to_owned(),
    };
    let calls = after(incident.calls);
    let what = match incident.what {
        IncidentKind::AttemptFailed | IncidentKind::CompensationFailed => {
            format!("{named} failed{calls}")
        }
        IncidentKind::Completed => "completed".to_owned(),
        IncidentKind::Compensated => "compensated".to_owned(),
        IncidentKind::Abandoned if incident.failure.is_some() => {
            format!("{named} failed{calls}, and was not counted")
        }
        IncidentKind::Abandoned => format!("{named} is waited for no longer"),
        IncidentKind::CompensationBegan => "compensation began".to_owned(),
        IncidentKind::Deferred => format!("{named} deferred"),
        IncidentKind::InProgress if direction == Direction::Probe => {
            format!("{named}: the service is not done yet")
        }
        IncidentKind::InProgress => {
            format!("{named}: the service has taken the work, and finishes it later")
        }
        IncidentKind::Late => "the deadline of the order has passed; it goes on".to_owned(),
        IncidentKind::Probed => "the service was asked whether the effect happened".to_owned(),
        act => act.act().unwrap_or_default().to_owned(),
    };
    let act = incident
        .act
        .as_ref()
        .map_or_else(String::new, |a| format!(" by {}: {}", a.by, a.why));
    let note = incident
        .note
        .as_ref()
        .map_or_else(String::new, |n| format!(" ({n})"));
    let failure = incident
        .failure
        .as_ref()
        .map_or_else(String::new, |f| format!(": {f}"));
    let place = SameMoment::of_end(incident.started, incident.at);
    let what = format!("{step}{what}{act}{note}{failure}");
    events.push((incident.at, place, what));
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use triad_core::Applied;

    use super::*;

    #[test]
    fn within_a_millisecond_what_ends_stands_before_what_begins() {
        let mut events = Vec::new();
        for (step, started, finished) in [("reserve", 9, 12), ("charge", 5, 9), ("pack", 9, 9)] {
            let compensated = StepState::Compensated {
                applied: Applied {
                    position: None,
                    output: Value::Null.into(),
                },
                attempt: Attempt(1),
                started: Some(Timestamp(started)),
                finished: Timestamp(finished),
            };
            of_step(step, &compensated, None, &mut events);
        }
        sort(&mut events);
        let told: Vec<_> = events.iter().map(|(at, _, what)| (at.0, &**what)).collect();
        let expected = [
            (5, "charge: compensation attempt 1 started"),
            (9, "charge: compensated"),
            (9, "reserve: compensation attempt 1 started"),
            (9, "pack: compensation attempt 1 started"),
            (9, "pack: compensated"),
            (12, "reserve: compensated"),
        ];
        assert_eq!(told, expected);
    }
}
