//! What is wrong with the downstreams: since when, why, and how many orders wait for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use triad_core::Timestamp;
use triad_core::breaker::Breaker;
use triad_core::downstream::ForcedTo;
use triad_core::order::Hold;
use triad_workflow::AgentName;

use crate::downstreams::{Deferred, DownstreamView, StepType, Waiting, Why};

/// What is wrong with one downstream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outage {
    /// The downstream's name.
    #[schemars(with = "String")]
    pub downstream: AgentName,
    /// What is wrong.
    pub kind: OutageKind,
    /// Since when; `None` if that is not known.
    #[schemars(with = "Option<crate::schema::Moment>")]
    pub since: Option<Timestamp>,
    /// How many orders wait for it: those that have not begun, and those with a step that is deferred.
    pub waiting: u64,
    /// Whether more orders may wait, because not all were looked at.
    pub more: bool,
    /// When the oldest of those that have not begun was submitted.
    #[schemars(with = "Option<crate::schema::Moment>")]
    pub oldest: Option<Timestamp>,
}

/// What is wrong with a downstream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum OutageKind {
    /// Its calls failed, and no call is made but to see whether it is back.
    Down {
        /// Why it counts as down, for a person; empty if that is not known.
        why: String,
        /// When it is tried again.
        #[schemars(with = "crate::schema::Moment")]
        tried_again: Timestamp,
    },
    /// An operator has paused it.
    Paused {
        /// The name of the operator.
        by: String,
        /// The operator's reason.
        why: String,
    },
    /// An operator has paused one step of all orders of a workflow.
    StepPaused {
        /// The step, as WORKFLOW/STEP.
        step: String,
        /// The name of the operator.
        by: String,
        /// The operator's reason.
        why: String,
    },
    /// As many orders are under way to it as it answers in time, and others wait.
    Busy {
        /// How many are under way.
        under_way: u32,
    },
}

/// What is wrong with these downstreams, the one for which most orders wait first. `waiting` and `deferred` say which
/// orders wait.
#[must_use]
pub fn outages(all: &[DownstreamView], waiting: &[Waiting], deferred: &Deferred) -> Vec<Outage> {
    let mut found: Vec<Outage> = all
        .iter()
        .flat_map(|one| of_one(one, waiting, deferred))
        .collect();
    found.sort_by_key(|one| std::cmp::Reverse(one.waiting));
    found
}

fn of_one(one: &DownstreamView, waiting: &[Waiting], deferred: &Deferred) -> Vec<Outage> {
    let name = &one.downstream;
    // Orders that wait for another downstream as well are that one's.
    let held = waiting
        .iter()
        .filter(|w| w.pressure.agent.as_ref() == Some(name) && w.why != Why::NeedsOthers);
    let held: Vec<&Waiting> = held.collect();
    let not_begun: u64 = held.iter().map(|w| w.pressure.waiting as u64).sum();
    let outage = |kind, since| Outage {
        downstream: name.clone(),
        kind,
        since,
        waiting: not_begun + deferred.orders.get(name).copied().unwrap_or(0),
        more: deferred.more,
        oldest: held.iter().filter_map(|w| w.pressure.oldest).min(),
    };
    let paused = |hold: &Hold| (hold.act.by.clone(), hold.act.why.clone());
    let mut found = Vec::new();
    match (&one.record.forced, one.record.breaker) {
        (Some(forced), _) if forced.to == ForcedTo::Open => {
            let (by, why) = paused(&forced.hold);
            found.push(outage(OutageKind::Paused { by, why }, Some(forced.hold.at)));
        }
        (None, Breaker::Open { until, .. } | Breaker::HalfOpen { until, .. }) => {
            let opened = one.record.outage();
            let what = opened.map_or("", |change| &change.what);
            let down = OutageKind::Down {
                why: what.strip_prefix("is down: ").unwrap_or(what).to_owned(),
                tried_again: until,
            };
            found.push(outage(down, opened.map(|change| change.at)));
        }
        _ => {}
    }
    for step in &one.record.paused {
        let (by, why) = paused(&step.hold);
        let step_type = StepType {
            workflow: step.workflow.clone(),
            step: step.step.clone(),
        };
        let step_paused = OutageKind::StepPaused {
            step: step_type.to_string(),
            by,
            why,
        };
        found.push(outage(step_paused, Some(step.hold.at)));
    }
    let full = held.iter().filter(|w| w.why == Why::Full);
    let under_way: u32 = full.map(|w| w.pressure.under_way).sum();
    if found.is_empty() && under_way > 0 {
        found.push(outage(OutageKind::Busy { under_way }, None));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use triad_core::downstream::{Downstream, DownstreamAction};
    use triad_core::{OperatorAct, Priority};
    use triad_runtime::pressure::Pressure;
    use triad_workflow::{Millis, StepId, WorkflowName};

    use super::*;

    fn named(name: &str, record: Downstream) -> DownstreamView {
        DownstreamView {
            downstream: AgentName::new(name).unwrap(),
            record,
        }
    }

    fn waits(name: &str, waiting: usize, why: Why) -> Waiting {
        Waiting {
            waiting_for: name.to_owned(),
            pressure: Pressure {
                agent: Some(AgentName::new(name).unwrap()),
                lane: Priority::Normal,
                under_way: 3,
                bound: 3,
                waited: Millis(0),
                shut_until: Timestamp(0),
                waiting,
                oldest: Some(Timestamp(50)),
            },
            why,
        }
    }

    fn down() -> Downstream {
        let open = Breaker::Open {
            opens: 1,
            until: Timestamp(200),
        };
        let down = Downstream::default().with_breaker(open, "no answer", Timestamp(100));
        let half = Breaker::HalfOpen {
            opens: 1,
            until: Timestamp(230),
            out: 1,
            good: 0,
        };
        down.with_breaker(half, "a probe is sent", Timestamp(200))
    }

    #[test]
    fn orders_that_need_several_downstreams_wait_for_the_one_that_is_down() {
        let all = [
            named("inventory", Downstream::default()),
            named("payment", down()),
        ];
        let waiting = [
            waits("payment", 1_593, Why::NotToBeCalled),
            waits("inventory", 1_593, Why::NeedsOthers),
        ];
        let orders = BTreeMap::from([(AgentName::new("payment").unwrap(), 400)]);
        let deferred = Deferred {
            orders,
            more: false,
        };
        let [one] = &outages(&all, &waiting, &deferred)[..] else {
            panic!("one is down");
        };
        assert_eq!((one.downstream.as_str(), one.waiting), ("payment", 1_993));
        assert_eq!(one.since, Some(Timestamp(100)), "not since the last try");
        assert_eq!(one.oldest, Some(Timestamp(50)));
        let kind = OutageKind::Down {
            why: "no answer".into(),
            tried_again: Timestamp(230),
        };
        assert_eq!(one.kind, kind);
    }

    #[test]
    fn what_operators_paused_and_what_is_busy_is_told_too() {
        let act = OperatorAct::new("ann", "refunds first");
        let step = DownstreamAction::PauseStep(
            WorkflowName::new("order").unwrap(),
            StepId::new("pay").unwrap(),
        );
        let paused = down().operated(&step, &act, Timestamp(300)).unwrap();
        let forced = DownstreamAction::Force(ForcedTo::Open);
        let forced = Downstream::default().operated(&forced, &act, Timestamp(5));
        let all = [
            named("payment", paused),
            named("carrier", forced.unwrap()),
            named("stock", Downstream::default()),
            named("mail", Downstream::default()),
        ];
        let waiting = [waits("stock", 2, Why::Full)];
        let found = outages(&all, &waiting, &Deferred::default());
        let told: Vec<_> = found
            .iter()
            .map(|one| (one.downstream.as_str(), one.since.map(|at| at.0)))
            .collect();
        let expected = [
            ("stock", None),
            ("payment", Some(100)),
            ("payment", Some(300)),
            ("carrier", Some(5)),
        ];
        assert_eq!(told, expected, "an operator's act does not hide since when");
        assert_eq!(found[0].kind, OutageKind::Busy { under_way: 3 });
    }
}
