//! What the walks have reached: a generator that never gets somewhere tests nothing there.

use std::collections::BTreeSet;

use triad_core::order::IncidentKind;
use triad_core::{OperationRefusal, Order, ProcessState, Reason};

use crate::support::Then;

/// Everything seen, by kind and name.
#[derive(Default)]
pub struct Reached(BTreeSet<(&'static str, String)>);

const STEP_STATES: [&str; 16] = [
    "waiting",
    "skipped",
    "running",
    "probing",
    "deferred",
    "failed",
    "retry-due",
    "completed",
    "refused",
    "ambiguous",
    "compensation-due",
    "compensating",
    "compensation-deferred",
    "compensation-failed",
    "not-compensated",
    "compensated",
];
const INCIDENTS: [IncidentKind; 14] = [
    IncidentKind::AttemptFailed,
    IncidentKind::CompensationFailed,
    IncidentKind::CompensationBegan,
    IncidentKind::Deferred,
    IncidentKind::Late,
    IncidentKind::Probed,
    IncidentKind::Resubmitted,
    IncidentKind::Cancelled,
    IncidentKind::CompensationRetried,
    IncidentKind::Closed,
    IncidentKind::Paused,
    IncidentKind::Resumed,
    IncidentKind::Resolved,
    IncidentKind::Migrated,
];
const REASONS: [Reason; 10] = [
    Reason::Claimed,
    Reason::Finished,
    Reason::OlderAttempt,
    Reason::Late,
    Reason::NotAwaited,
    Reason::NotDue,
    Reason::Unfinished,
    Reason::Paused,
    Reason::SetAside,
    Reason::InFlight,
];
const REFUSALS: [&str; 5] = ["state", "past-pivot", "in-doubt", "step", "already"];

/// What came of attempts beyond their complete-by that nobody was heard of.
const SILENCES: [&str; 7] = [
    "uncounted",
    "taken forward",
    "untaken forward",
    "taken probe",
    "untaken probe",
    "taken compensate",
    "untaken compensate",
];

/// Fails to compile when a kind is added that the lists above do not have.
fn listed(reason: Reason, incident: IncidentKind) {
    match reason {
        Reason::Claimed
        | Reason::Finished
        | Reason::OlderAttempt
        | Reason::Late
        | Reason::NotAwaited
        | Reason::NotDue
        | Reason::Unfinished
        | Reason::Paused
        | Reason::SetAside
        | Reason::InFlight => {}
    }
    match incident {
        IncidentKind::AttemptFailed
        | IncidentKind::CompensationFailed
        | IncidentKind::Completed
        | IncidentKind::Compensated
        | IncidentKind::Abandoned
        | IncidentKind::CompensationBegan
        | IncidentKind::Deferred
        | IncidentKind::Late
        | IncidentKind::Probed
        | IncidentKind::Resubmitted
        | IncidentKind::Cancelled
        | IncidentKind::CompensationRetried
        | IncidentKind::Closed
        | IncidentKind::Paused
        | IncidentKind::Resumed
        | IncidentKind::Resolved
        | IncidentKind::Migrated => {}
    }
}

fn refusal(refusal: &OperationRefusal) -> &'static str {
    match refusal {
        OperationRefusal::State { .. } => "state",
        OperationRefusal::PastPivot(_) => "past-pivot",
        OperationRefusal::InDoubt(_) => "in-doubt",
        OperationRefusal::Step { .. } => "step",
        OperationRefusal::Already(_) => "already",
        OperationRefusal::ActedOn(_) => "acted-on",
    }
}

impl Reached {
    pub fn order(&mut self, order: &Order) {
        self.add("order", order.state.name());
        for step in &order.steps {
            self.add("step", step.state.name());
        }
        for incident in &order.incidents {
            self.add("incident", &format!("{:?}", incident.what));
        }
    }

    pub fn then(&mut self, then: &Then) {
        match then {
            Then::Written => self.add("decision", "written"),
            Then::Repeat => self.add("decision", "repeat"),
            Then::Illegal(_) => self.add("decision", "illegal"),
            Then::Ignored(reason) => self.add("reason", &format!("{reason:?}")),
            Then::Refused(why) => self.add("refusal", refusal(why)),
        }
    }

    pub fn act(&mut self, name: &str) {
        self.add("act", name);
    }

    pub fn add(&mut self, kind: &'static str, name: &str) {
        // Most of what is seen has been seen before.
        let seen = (kind, name.to_owned());
        self.0.insert(seen);
    }

    /// What should have been reached and was not.
    pub fn missing(&self) -> Vec<(&'static str, String)> {
        for (reason, incident) in REASONS.into_iter().zip(INCIDENTS) {
            listed(reason, incident);
        }
        let acts = [
            "resubmit",
            "correct",
            "cancel",
            "retry-compensation",
            "close",
            "pause",
            "resume",
            "resolve",
        ];
        let named = |kind, names: &[&str]| -> Vec<(&'static str, String)> {
            names.iter().map(|n| (kind, (*n).to_owned())).collect()
        };
        let debug = |kind, names: Vec<String>| -> Vec<(&'static str, String)> {
            names.into_iter().map(|n| (kind, n)).collect()
        };
        [
            named("order", &ProcessState::NAMES),
            named("step", &STEP_STATES),
            debug("incident", INCIDENTS.map(|i| format!("{i:?}")).to_vec()),
            debug("reason", REASONS.map(|r| format!("{r:?}")).to_vec()),
            named("refusal", &REFUSALS),
            named("decision", &["written", "repeat", "illegal"]),
            named("act", &acts),
            named("silence", &SILENCES),
            named("reply", &["sent in time, read late"]),
        ]
        .into_iter()
        .flatten()
        .filter(|one| !self.0.contains(one))
        .collect()
    }
}
