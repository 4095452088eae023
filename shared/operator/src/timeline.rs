//! An order's timeline, attempt by attempt, from what its record knows.

use serde::Serialize;
use triad_core::order::{Incident, IncidentKind};
use triad_core::{Direction, Order, StepState, Timestamp, Work};

/// One line of an order's timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// When it happened; for a step that is deferred: until when it waits.
    pub at: Timestamp,
    /// What happened, in one line for a person. The text is no contract.
    pub what: String,
}

/// Number of the attempt that a step is at, from 1; `None` for a step that waits or was skipped.
/// For a step that is compensated, or was: the number of the compensation's attempt.
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

/// Everything that the record still knows, oldest first. There are at most two entries for each
/// step and each incident, and one each for the submission and the end.
#[must_use]
pub fn timeline(order: &Order) -> Vec<Entry> {
    let entry = |(at, what)| Entry { at, what };
    events(order).into_iter().map(entry).collect()
}

fn events(order: &Order) -> Vec<(Timestamp, String)> {
    let mut events = vec![(order.submitted_at, "submitted".to_owned())];
    for step in &order.steps {
        of_step(step.step.as_str(), &step.state, &mut events);
    }
    for incident in &order.incidents {
        of_incident(incident, &mut events);
    }
    if let Some(at) = order.state.finished_at() {
        events.push((at, order.state.name().to_owned()));
    }
    events.sort_by_key(|(at, _)| *at);
    events
}

fn of_step(name: &str, state: &StepState, events: &mut Vec<(Timestamp, String)>) {
    match state {
        StepState::Acting(Work::Out(out)) => {
            let what = match out.direction {
                Direction::Probe => "asks whether the effect happened",
                Direction::Forward | Direction::Compensate => "started",
            };
            events.push((
                out.started,
                format!("{name}: attempt {} {what}", out.attempt),
            ));
        }
        StepState::Acting(Work::Deferred { attempt, until }) => events.push((
            *until,
            format!("{name}: attempt {attempt} is put off until here"),
        )),
        StepState::Completed {
            attempt,
            started,
            finished,
            ..
        } => {
            events.push((*started, format!("{name}: attempt {attempt} started")));
            events.push((*finished, format!("{name}: completed")));
        }
        StepState::Compensating {
            work: Work::Out(out),
            ..
        } => events.push((
            out.started,
            format!("{name}: undo attempt {} started", out.attempt),
        )),
        StepState::Compensated { finished, .. } => {
            events.push((*finished, format!("{name}: undone")));
        }
        _ => {}
    }
}

fn of_incident(incident: &Incident, events: &mut Vec<(Timestamp, String)>) {
    let step = incident
        .step
        .as_ref()
        .map_or_else(String::new, |s| format!("{s}: "));
    let attempt = incident
        .attempt
        .map_or_else(String::new, |a| format!(" {a}"));
    let undo = matches!(incident.what, IncidentKind::CompensationFailed);
    if let (Some(started), Some(_)) = (incident.started, incident.attempt) {
        let kind = if undo { "undo attempt" } else { "attempt" };
        events.push((started, format!("{step}{kind}{attempt} started")));
    }
    let calls = match incident.calls {
        Some(1) => " after 1 call".to_owned(),
        Some(n) => format!(" after {n} calls"),
        None => String::new(),
    };
    let what = match incident.what {
        IncidentKind::AttemptFailed => format!("attempt{attempt} failed{calls}"),
        IncidentKind::CompensationFailed => format!("undo attempt{attempt} failed{calls}"),
        IncidentKind::CompensationBegan => "undo began".to_owned(),
        IncidentKind::Deferred => format!("attempt{attempt} put off"),
        IncidentKind::Late => "the deadline of the order has passed; it goes on".to_owned(),
        IncidentKind::Probed => "the service was asked whether the effect happened".to_owned(),
        IncidentKind::Resubmitted => "resubmitted".to_owned(),
        IncidentKind::Cancelled => "cancelled".to_owned(),
        IncidentKind::CompensationRetried => "undo retried".to_owned(),
        IncidentKind::Closed => "closed".to_owned(),
        IncidentKind::Paused => "paused".to_owned(),
        IncidentKind::Resumed => "resumed".to_owned(),
        IncidentKind::Settled => "settled".to_owned(),
        IncidentKind::Migrated => "migrated".to_owned(),
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
    events.push((incident.at, format!("{step}{what}{act}{note}{failure}")));
}
