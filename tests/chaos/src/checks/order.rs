//! G3: a step takes effect after its predecessors have, and is compensated before them.

use std::collections::{BTreeMap, BTreeSet};

use triad_reference_service::book::LedgerLine;
use triad_reference_service::contract::Kind;
use triad_workflow::{StepIndex, Workflow};

use super::{Guarantee, Verdict};
use crate::evidence::Evidence;

/// For each order, the steps whose effects are in place at this point of the history.
type InPlace<'a> = BTreeMap<&'a str, BTreeSet<StepIndex>>;

pub(super) fn verdicts(e: &Evidence) -> Vec<Verdict> {
    let of_kind = |kinds: &'static [Kind]| move |c: &&LedgerLine| kinds.contains(&c.kind);
    let (mut forward, mut back) = (Vec::new(), Vec::new());
    let mut in_place = InPlace::new();
    for call in &e.calls {
        let order = call.head.order.as_str();
        let Some(step) = e.workflow.step_index(&call.head.step) else {
            forward.push(format!("{order}: {} is no step", call.head.step));
            continue;
        };
        let there = in_place.entry(order).or_default();
        match call.kind {
            Kind::Applied => {
                forward
                    .extend(too_early(&e.workflow, there, step).map(|w| format!("{order}: {w}")));
                there.insert(step);
            }
            Kind::Compensated | Kind::Tombstoned => {
                back.extend(too_soon(&e.workflow, there, step).map(|w| format!("{order}: {w}")));
                there.remove(&step);
            }
            Kind::Replayed | Kind::Refused | Kind::Fault => {}
        }
    }
    vec![
        Verdict {
            guarantee: Guarantee::G3,
            what: "a step takes effect after the steps that it comes after",
            checked: e.calls.iter().filter(of_kind(&[Kind::Applied])).count(),
            breaches: forward,
        },
        Verdict {
            guarantee: Guarantee::G3,
            what: "a step is compensated after everything that came after it",
            checked: e
                .calls
                .iter()
                .filter(of_kind(&[Kind::Compensated, Kind::Tombstoned]))
                .count(),
            breaches: back,
        },
    ]
}

fn too_early(workflow: &Workflow, there: &BTreeSet<StepIndex>, step: StepIndex) -> Option<String> {
    let missing = workflow.steps[step]
        .after
        .iter()
        .find(|a| !there.contains(a));
    missing.map(|&a| {
        format!(
            "{} before {}",
            workflow.steps[step].id, workflow.steps[a].id
        )
    })
}

fn too_soon(workflow: &Workflow, there: &BTreeSet<StepIndex>, step: StepIndex) -> Option<String> {
    let later = there.iter().find(|&&later| {
        workflow.steps[later].compensation.is_some() && workflow.is_after(later, step)
    });
    later.map(|&l| {
        format!(
            "{} before {}",
            workflow.steps[step].id, workflow.steps[l].id
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::sample_history::{breached, sound};

    #[test]
    fn a_step_before_its_turn_is_seen() {
        let mut e = sound();
        let of = |key: &str| e.calls.iter().position(|c| c.head.key == key).unwrap();
        let (charge, pack) = (of("done/charge-payment/forward"), of("done/pack/forward"));
        e.calls.swap(charge, pack);
        assert_eq!(
            breached(&e),
            ["a step takes effect after the steps that it comes after"]
        );
    }

    #[test]
    fn a_compensation_before_its_turn_is_seen() {
        let mut e = sound();
        let of = |key: &str| e.calls.iter().position(|c| c.head.key == key).unwrap();
        let (reserve, charge) = (
            of("back/reserve-inventory/compensate"),
            of("back/charge-payment/compensate"),
        );
        e.calls.swap(reserve, charge);
        assert_eq!(
            breached(&e),
            ["a step is compensated after everything that came after it"]
        );
    }
}
