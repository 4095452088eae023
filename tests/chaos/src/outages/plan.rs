//! The outages, the orders that each holds up, and the bounds of an order's time.

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

/// The workflows, by name.
pub const WORKFLOWS: [(&str, &str); 3] = [
    ("free", include_str!("free.yaml")),
    ("paid", include_str!("paid.yaml")),
    ("refused", include_str!("refused.yaml")),
];
/// The agent that only the workflow `paid` needs.
const PAYMENT: &str = "payment";
/// The agent whose service declines everything.
const JUDGE: &str = "judge";
/// Longer than any outage.
const HANGS_MS: u64 = 600_000;

/// Longest time of an order that does not need the failed part, from its acknowledgement by the broker to its end.
/// Normally it takes well under a second. It may share one publish with a message that is not acknowledged (10 s the
/// first time that a topic is late), be announced again (3 s), and lose one attempt of a step (4 s): with a sweep of
/// half a second 18 s, and a little for a busy machine.
pub const WITHIN: Duration = Duration::from_secs(20);

/// Longest time from the end of an outage to the end of every order that it held up: a circuit breaker tries again
/// after 60 s at most, a redelivered record comes after 10 s, and the order may lose an attempt and be announced
/// again as in [`WITHIN`].
pub const AFTER: Duration = Duration::from_secs(90);

/// The failed part.
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
    /// All outages, in order.
    pub const ALL: [Self; 4] = [Self::Alerts, Self::Requests, Self::Service, Self::Store];

    /// Name for people.
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

/// Faults of the services: none, or one that hangs.
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
            workflow.steps.iter().any(|s| s.agent.as_str() == agent)
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
