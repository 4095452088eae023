//! G2 and G10: the effects at the remote service are exactly those of the records, each once.

use std::collections::{BTreeMap, BTreeSet};

use triad_core::{Direction, IdempotencyKey, Order, ProcessState, StepState};
use triad_reference_service::book::LedgerLine;
use triad_reference_service::contract::Kind;
use triad_reference_service::{KeyStatus, KeyView};
use triad_workflow::Step;

use super::{Guarantee, Verdict};
use crate::evidence::{Evidence, compensates};

/// Service and idempotency key.
type Key<'a> = (&'a str, &'a str);

/// What the calls with one idempotency key of an action have done.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Done {
    applied: u32,
    compensated: u32,
    /// Whether an effect came after the compensation.
    is_revived: bool,
}

pub(super) fn verdicts(e: &Evidence) -> Vec<Verdict> {
    let done = done(&e.calls);
    let in_place: BTreeSet<Key<'_>> = e
        .keys
        .iter()
        .filter(|k| k.status == KeyStatus::Applied)
        .map(|k| (k.service.as_str(), k.key.as_str()))
        .collect();
    let steps = || {
        e.records.values().flat_map(|order| {
            let steps = e.workflow.steps.iter().zip(&order.steps);
            steps.map(move |(step, record)| (order, step, record))
        })
    };
    let mut of_step: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for call in e.calls.iter().filter(|c| c.kind == Kind::Applied) {
        *of_step
            .entry((&call.head.order, &call.head.step))
            .or_default() += 1;
    }
    let is_in_place = |order: &Order, step: &Step, number| {
        let key = IdempotencyKey::of(&order.id, &step.id, Direction::Forward, number);
        let agent = step.call().map(|call| call.agent.as_str());
        agent.is_some_and(|agent| in_place.contains(&(agent, key.0.as_str())))
    };
    vec![
        Verdict::each(
            Guarantee::G2,
            "a key is applied once and compensated once at most",
            &e.keys,
            |k| (k.applied > 1 || k.compensated > 1).then(|| format!("{k:?}")),
        ),
        Verdict::each(
            Guarantee::G2,
            "a step of an order has one effect at most, under whatever key",
            &of_step,
            |(step, times)| (*times > 1).then(|| format!("{step:?}: {times} times")),
        ),
        Verdict::each(
            Guarantee::G2,
            "the ledger's calls add up to the state of its keys",
            e.keys
                .iter()
                .filter(|k| k.direction == triad_reference_service::Direction::Forward),
            |k| {
                let told = done.get(&(k.service.as_str(), k.key.as_str()));
                let told = told.copied().unwrap_or_default();
                let is_same = told.applied == k.applied && told.compensated == k.compensated;
                (!is_same).then(|| format!("{k:?} and {told:?}"))
            },
        ),
        Verdict::each(
            Guarantee::G2,
            "a completed step is in place, one never tried or refused is not",
            steps(),
            |(order, step, record)| {
                let there = is_in_place(order, step, record.key);
                let wrong = match &record.state {
                    StepState::Completed { .. } => !there,
                    StepState::Refused { .. } | StepState::Skipped | StepState::Waiting => there,
                    _ => false,
                };
                wrong.then(|| format!("{}/{} is {}", order.id, step.id, record.state.name()))
            },
        ),
        Verdict::each(
            Guarantee::G2,
            "an effect is of an order that has a record",
            &e.keys,
            |k| (!e.records.contains_key(&k.order)).then(|| k.key.clone()),
        ),
        Verdict::each(
            Guarantee::G10,
            "what is compensated is not in place, and nothing of a compensated order",
            steps(),
            |(order, step, record)| {
                let step_compensated = matches!(record.state, StepState::Compensated { .. });
                let compensated = matches!(order.state, ProcessState::Compensated { .. })
                    && step.compensation.is_some();
                let left =
                    (step_compensated || compensated) && is_in_place(order, step, record.key);
                left.then(|| format!("{}/{}", order.id, step.id))
            },
        ),
        Verdict::each(
            Guarantee::G10,
            "no effect lands after its own compensation",
            &done,
            |(key, done)| done.is_revived.then(|| format!("{key:?}")),
        ),
    ]
}

/// What the calls have done, by the idempotency key of the action.
fn done(calls: &[LedgerLine]) -> BTreeMap<Key<'_>, Done> {
    let mut all: BTreeMap<Key<'_>, Done> = BTreeMap::new();
    let mut spent: BTreeSet<Key<'_>> = BTreeSet::new();
    for call in calls {
        let service = call.head.service.as_str();
        let target = match compensates(call) {
            true => call.head.compensates.as_deref().unwrap_or_default(),
            false => call.head.key.as_str(),
        };
        let key = (service, target);
        let done = all.entry(key).or_default();
        match call.kind {
            Kind::Applied => {
                done.applied += 1;
                done.is_revived |= spent.contains(&key);
            }
            Kind::Compensated => {
                done.compensated += 1;
                spent.insert(key);
            }
            Kind::Tombstoned => {
                spent.insert(key);
            }
            Kind::Replayed | Kind::Refused | Kind::Fault => {}
        }
    }
    all
}

/// Number of keys whose compensation arrived before the action.
#[must_use]
pub fn tombstones(keys: &[KeyView]) -> usize {
    let is_tombstone = |k: &&KeyView| k.status == KeyStatus::Tombstoned;
    keys.iter().filter(is_tombstone).count()
}

#[cfg(test)]
mod tests {
    use super::super::sample_history::{breached, call, sound};
    use triad_reference_service::KeyStatus;
    use triad_reference_service::contract::Kind;

    #[test]
    fn an_effect_that_happened_twice_is_seen() {
        let mut e = sound();
        e.calls.push(call("done", "notify", false, Kind::Applied));
        let key = e.keys.iter_mut().find(|k| k.key == "done/notify/forward");
        key.unwrap().applied = 2;
        assert_eq!(
            breached(&e),
            [
                "a key is applied once and compensated once at most",
                "a step of an order has one effect at most, under whatever key"
            ]
        );
    }

    #[test]
    fn a_ledger_that_does_not_add_up_is_seen() {
        let mut e = sound();
        e.calls.retain(|c| c.head.key != "done/notify/forward");
        assert!(breached(&e).contains(&"the ledger's calls add up to the state of its keys"));
    }

    #[test]
    fn a_completed_step_without_its_effect_is_seen() {
        let mut e = sound();
        let key = e.keys.iter_mut().find(|k| k.key == "done/pack/forward");
        key.unwrap().status = KeyStatus::New;
        assert_eq!(
            breached(&e),
            ["a completed step is in place, one never tried or refused is not"]
        );
    }

    #[test]
    fn an_effect_of_nobody_is_seen() {
        let mut e = sound();
        e.keys[0].order = "nobody".into();
        assert!(breached(&e).contains(&"an effect is of an order that has a record"));
    }

    #[test]
    fn an_effect_that_was_left_behind_is_seen() {
        let mut e = sound();
        let key = e
            .keys
            .iter_mut()
            .find(|k| k.key == "back/reserve-inventory/forward");
        key.unwrap().status = KeyStatus::Applied;
        assert_eq!(
            breached(&e),
            ["what is compensated is not in place, and nothing of a compensated order"]
        );
    }

    #[test]
    fn an_effect_after_its_compensation_is_seen() {
        let mut e = sound();
        e.calls
            .push(call("back", "reserve-inventory", false, Kind::Applied));
        assert!(breached(&e).contains(&"no effect lands after its own compensation"));
    }
}
