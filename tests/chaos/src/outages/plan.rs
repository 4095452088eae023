//! The outages, the orders that each holds up, and the time limits of orders.

use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use serde_json::json;
use triad_core::{Priority, topics};
use triad_reference_service::{FaultPlan, Faults};
use triad_workflow::AgentName;

use crate::load::{Sort, Submission};
use triad_tests::orders;
use triad_tests::topics::Raw;

/// The workflows: name and definition.
pub const WORKFLOWS: [(&str, &str); 3] = [
    ("free", include_str!("free.yaml")),
    ("paid", include_str!("paid.yaml")),
    ("refused", include_str!("refused.yaml")),
];
/// The agent that only the workflow `paid` needs.
const PAYMENT: &str = "payment";
/// The agent whose service declines every call.
const JUDGE: &str = "judge";
/// How long a hanging service holds a call, in milliseconds: longer than any outage.
const HANGS_MS: u64 = 600_000;

/// Longest time of an order that does not need the failed part, from the broker's acknowledgement to the order's end.
/// Normally it takes well under a second. It may share a publish with a message that is not acknowledged (10 s the
/// first time that a topic is late), wait for another wake (3 s), and lose one attempt of a step (4 s). With a sweep
/// every half second that is 18 s, and a reserve for a busy machine.
pub const WITHIN: Duration = Duration::from_secs(20);

/// Longest time from the end of an outage to the end of every order that it held up. A circuit breaker tries again
/// after at most 60 s, a redelivered record comes after 10 s, and the order may lose an attempt and wait for another
/// wake as in [`WITHIN`].
pub const AFTER: Duration = Duration::from_secs(90);

/// The part that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Outage {
    /// The broker refuses produce requests to `alerts`.
    Alerts,
    /// The broker refuses produce requests to the topic of one agent.
    Requests,
    /// One service accepts calls and does not answer.
    Service,
    /// The store denies access to everything.
    Store,
}

impl Outage {
    /// All outages, in the order in which they are carried out.
    pub const ALL: [Self; 4] = [Self::Alerts, Self::Requests, Self::Service, Self::Store];

    /// Name of the outage in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Alerts => "the topic alerts refuses",
            Self::Requests => "one agent's topic refuses",
            Self::Service => "one service hangs",
            Self::Store => "the store denies access",
        }
    }

    /// The refused topic, if any.
    #[must_use]
    pub fn topic(self) -> Option<String> {
        match self {
            Self::Alerts => Some(topics::ALERTS.to_owned()),
            Self::Requests => AgentName::new(PAYMENT)
                .ok()
                .map(|payment| topics::agent(&payment, Priority::Normal)),
            Self::Service | Self::Store => None,
        }
    }

    /// The workflow of the orders that need the failed part.
    #[must_use]
    pub fn needed_by(self) -> &'static str {
        match self {
            Self::Alerts => "refused",
            Self::Requests | Self::Service | Self::Store => "paid",
        }
    }

    /// The workflow of the orders that do not need it, if there is one.
    #[must_use]
    pub fn not_needed_by(self) -> Option<&'static str> {
        match self {
            Self::Alerts | Self::Requests | Self::Service => Some("free"),
            Self::Store => None,
        }
    }
}

/// The faults of the services during an outage: one service hangs, or none.
#[must_use]
pub fn faults(outage: Option<Outage>) -> Faults {
    let usual = FaultPlan {
        latency_ms: 5,
        jitter_ms: 10,
        ..FaultPlan::default()
    };
    let declines = FaultPlan {
        permanent: 1.0,
        ..usual.clone()
    };
    let hangs = FaultPlan {
        stall: 1.0,
        stall_ms: HANGS_MS,
        ..usual.clone()
    };
    let mut services = vec![(JUDGE.to_owned(), declines)];
    if outage == Some(Outage::Service) {
        services.push((PAYMENT.to_owned(), hangs));
    }
    Faults {
        default: usual,
        services: services.into_iter().collect(),
        ..Faults::default()
    }
}

/// The `number`th order of a workflow during an outage.
#[must_use]
pub fn order(outage: Outage, workflow: &str, number: usize) -> Submission {
    let id = format!("{workflow}-{outage:?}-{number}");
    let mut value = orders::order(&id, number);
    value["workflow"] = json!(workflow);
    Submission {
        sort: Sort::Order,
        order: Some(id.clone()),
        raw: Raw {
            topic: topics::ORDERS.to_owned(),
            key: Some(id.into_bytes()),
            value: Some(value.to_string().into_bytes()),
            headers: Vec::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use triad_workflow::{Limits, load};

    #[test]
    fn the_workflows_are_sound_and_need_what_they_are_said_to() {
        let needs = |name: &str, agent: &str| {
            let found = WORKFLOWS.iter().find(|(known, _)| *known == name);
            let (_, yaml) = found.expect("a workflow");
            let workflow = load::from_yaml(name, yaml, &Limits::published()).expect("sound");
            assert_eq!(workflow.name.as_str(), name);
            workflow
                .steps
                .iter()
                .any(|s| s.call().expect("a call").agent.as_str() == agent)
        };
        assert!(needs("paid", PAYMENT));
        assert!(!needs("free", PAYMENT));
        assert!(needs("refused", JUDGE));
        for outage in Outage::ALL {
            for name in [Some(outage.needed_by()), outage.not_needed_by()] {
                assert!(WORKFLOWS.iter().any(|(n, _)| name.is_none_or(|w| w == *n)));
            }
        }
    }
}
