//! What is true of every process record and of every write, by name.
//!
//! One list for production (a breach is an error log and a metric), the simulated world and the
//! models (a breach ends the run).

use triad_workflow::Workflow;

use crate::order::{Order, ProcessState, StepState};

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// Its name.
    pub invariant: &'static str,
    /// The order and what was seen.
    pub seen: String,
}

type OfRecord = fn(&Order, &Workflow) -> bool;
type OfWrite = fn(&Order, &Order, &Workflow) -> bool;

/// Every invariant of a record by itself.
pub const OF_RECORD: [(&str, OfRecord); 8] = [
    ("g1-alive-has-a-due-time", |o, _| {
        o.state.is_finished() || o.due.is_some()
    }),
    ("g3-starts-after-its-predecessors", |o, w| {
        o.steps.iter().enumerate().all(|(i, s)| {
            let untouched = matches!(s.state, StepState::Waiting | StepState::Skipped);
            untouched
                || w.steps[i]
                    .after
                    .iter()
                    .all(|&a| o.steps[a].state.is_done() || was_done(&o.steps[a].state))
        })
    }),
    ("g3-undo-only-in-compensation", |o, _| {
        let undoing = matches!(
            o.state,
            ProcessState::Compensating { .. }
                | ProcessState::Compensated { .. }
                | ProcessState::CompensationFailed { .. }
        );
        undoing || !o.steps.iter().any(|s| is_undo(&s.state))
    }),
    ("g3-one-undo-at-a-time", |o, _| {
        o.steps
            .iter()
            .filter(|s| matches!(s.state, StepState::Undoing { .. }))
            .count()
            <= 1
    }),
    ("g5-failures-within-threshold-plus-one", |o, w| {
        o.steps.iter().zip(&w.steps).all(|(r, s)| {
            let undo = s.compensation.as_ref().map_or(0, |c| c.threshold + 1);
            r.failures <= s.policy.max_attempts() && r.undo_failures <= undo
        })
    }),
    ("g5-calls-within-budget", |o, w| {
        o.steps.iter().zip(&w.steps).all(|(r, s)| {
            let undo = s
                .compensation
                .as_ref()
                .map_or(0, |c| u64::from(c.retry.calls) * u64::from(c.threshold + 1));
            u64::from(r.calls)
                <= u64::from(s.retry.calls) * u64::from(s.policy.max_attempts()) + undo
        })
    }),
    ("finished-orders-are-complete", |o, _| match &o.state {
        ProcessState::Processed { .. } => o.steps.iter().all(|s| s.state.is_done()),
        ProcessState::Compensated { .. } => !o.steps.iter().any(|s| {
            matches!(
                s.state,
                StepState::Running { .. }
                    | StepState::Failed { .. }
                    | StepState::RetryDue { .. }
                    | StepState::UndoDue { .. }
                    | StepState::Undoing { .. }
                    | StepState::UndoFailed { .. }
            )
        }),
        _ => true,
    }),
    ("outbox-is-bounded", |o, w| {
        o.outbox.entries.len() <= crate::outbox::MAX_ENTRIES + w.steps.len() + 4
    }),
];

/// Every invariant of a write: the version before, the version after.
pub const OF_WRITE: [(&str, OfWrite); 6] = [
    ("version-rises-by-one", |a, b, _| {
        b.version == a.version.next()
    }),
    ("g1-finished-states-stay", |a, b, _| {
        !a.state.is_finished() || a.state == b.state
    }),
    ("g4-a-claim-is-not-taken-over", |a, b, _| {
        match (a.state.locked_by(), b.state.locked_by()) {
            (Some(before), Some(after)) => before == after,
            _ => true,
        }
    }),
    ("a-late-reply-completes-nothing", |a, b, _| {
        a.steps
            .iter()
            .zip(&b.steps)
            .all(|(was, is)| match (&was.state, &is.state) {
                (StepState::Running { complete_by, .. }, StepState::Completed { finished, .. })
                | (StepState::Undoing { complete_by, .. }, StepState::Undone { finished, .. }) => {
                    finished <= complete_by
                }
                _ => true,
            })
    }),
    ("g6-a-bad-end-has-an-alert", |a, b, _| {
        let bad = matches!(
            b.state,
            ProcessState::Error { .. } | ProcessState::CompensationFailed { .. }
        );
        !bad || a.state.is_finished() || b.outbox.entries.contains(&crate::outbox::Emission::Alert)
    }),
    ("g8-sequence-has-no-gap", |a, b, _| {
        let told: Vec<u32> = b
            .outbox
            .entries
            .iter()
            .filter_map(|e| match e {
                crate::outbox::Emission::Status { sequence, .. } => Some(*sequence),
                _ => None,
            })
            .collect();
        b.sequence >= a.sequence
            && (a.sequence + 1..=b.sequence).all(|n| told.contains(&n))
            && told.windows(2).all(|w| w[0] < w[1])
    }),
];

/// Breaches in a record by itself.
#[must_use]
pub fn of_record(order: &Order, workflow: &Workflow) -> Vec<Breach> {
    OF_RECORD
        .iter()
        .filter(|(_, holds)| !holds(order, workflow))
        .map(|(invariant, _)| breach(invariant, order))
        .collect()
}

/// Breaches in a write, those of the record it leaves included.
#[must_use]
pub fn of_write(before: &Order, after: &Order, workflow: &Workflow) -> Vec<Breach> {
    let mut found = of_record(after, workflow);
    found.extend(
        OF_WRITE
            .iter()
            .filter(|(_, holds)| !holds(before, after, workflow))
            .map(|(invariant, _)| breach(invariant, after)),
    );
    found
}

fn breach(invariant: &'static str, order: &Order) -> Breach {
    Breach {
        invariant,
        seen: format!(
            "order {} version {} in {}: {:?}",
            order.id,
            order.version,
            order.state.name(),
            order.steps
        ),
    }
}

fn is_undo(state: &StepState) -> bool {
    matches!(
        state,
        StepState::UndoDue { .. }
            | StepState::Undoing { .. }
            | StepState::UndoFailed { .. }
            | StepState::Undone { .. }
    )
}

/// Whether a step that is being undone may have completed before that.
fn was_done(state: &StepState) -> bool {
    is_undo(state)
}
