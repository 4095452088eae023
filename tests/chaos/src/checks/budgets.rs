//! G5: failures stay within their threshold, and calls within their limits.

use std::collections::{BTreeMap, BTreeSet};

use triad_workflow::{Step, Workflow};

use super::{Guarantee, Verdict};
use crate::evidence::{AttemptId, Evidence, ReplyContent, attempt_of};

fn step<'a>(workflow: &'a Workflow, id: &AttemptId) -> Option<&'a Step> {
    let index = workflow.step_index(&id.step)?;
    workflow.steps.get(index)
}

/// The most calls of a leg in all attempts, if calls are counted across redeliveries.
fn total(workflow: &Workflow, id: &AttemptId) -> Option<u32> {
    let step = step(workflow, id)?;
    match (id.is_compensation, &step.compensation) {
        (false, _) => step
            .call()
            .filter(|c| c.is_counted)
            .map(|c| c.calls_per_run),
        (true, Some(c)) => c.is_counted.then_some(c.calls_per_run),
        (true, None) => None,
    }
}

/// Most attempts at a step or its compensation.
fn most_attempts(workflow: &Workflow, id: &AttemptId) -> u32 {
    let step = step(workflow, id);
    step.map_or(0, |step| match (id.is_compensation, &step.compensation) {
        (false, _) => step.max_attempts(),
        (true, compensation) => compensation.as_ref().map_or(0, |c| c.policy.max_attempts()),
    })
}

pub(super) fn verdicts(e: &Evidence) -> Vec<Verdict> {
    // Deferred attempts are repeated without counting.
    let deferred: BTreeSet<&str> = e
        .replies
        .iter()
        .filter(|r| r.said == ReplyContent::Deferred)
        .map(|r| r.id.order.as_str())
        .collect();
    let mut allowances: BTreeMap<&AttemptId, u32> = BTreeMap::new();
    for asked in &e.requests {
        allowances.insert(&asked.id, asked.allowance);
    }
    let mut calls: BTreeMap<AttemptId, u32> = BTreeMap::new();
    let mut of_step: BTreeMap<AttemptId, u32> = BTreeMap::new();
    for call in &e.calls {
        let id = attempt_of(call);
        *calls.entry(id.clone()).or_default() += 1;
        *of_step.entry(AttemptId { attempt: 0, ..id }).or_default() += 1;
    }
    let counted = |id: &AttemptId| total(&e.workflow, id).is_some();
    let steps = e.records.values().flat_map(|o| {
        let steps = e.workflow.steps.iter().zip(&o.steps);
        steps.map(move |(step, record)| (o, step, record))
    });
    vec![
        Verdict::each(
            Guarantee::G5,
            "a failure count is at most one above its threshold",
            steps,
            |(order, step, record)| {
                let compensation = step.compensation.as_ref();
                let compensation = compensation.map_or(0, |c| c.policy.max_attempts());
                let above = record.action.failures > step.max_attempts()
                    || record.compensation.failures > compensation;
                above.then(|| format!("{}/{}: {record:?}", order.id, step.id))
            },
        ),
        Verdict::each(
            Guarantee::G5,
            "no attempt beyond the threshold, where nothing was deferred",
            allowances
                .keys()
                .filter(|id| !deferred.contains(id.order.as_str())),
            |id| (id.attempt > most_attempts(&e.workflow, id)).then(|| format!("{id:?}")),
        ),
        Verdict::each(
            Guarantee::G5,
            "a call belongs to an attempt that was asked for",
            calls.keys(),
            |id| (!allowances.contains_key(id)).then(|| format!("{id:?}")),
        ),
        Verdict::each(
            Guarantee::G5,
            "a counted attempt makes no more calls than its allowance, delivered however often",
            calls.iter().filter(|(id, _)| counted(id)),
            |(id, calls)| {
                let allowed = allowances.get(id).copied().unwrap_or(0);
                (*calls > allowed).then(|| format!("{id:?}: {calls} of {allowed}"))
            },
        ),
        Verdict::each(
            Guarantee::G5,
            "a step with a declared total makes no more calls in all",
            of_step.iter().filter(|(id, _)| counted(id)),
            |(id, calls)| {
                let most = total(&e.workflow, id).unwrap_or(0);
                (*calls > most).then(|| format!("{id:?}: {calls} of {most}"))
            },
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::sample_history::{asked, breached, call, sound};
    use triad_reference_service::contract::Kind;

    #[test]
    fn too_many_failures_are_seen() {
        let mut e = sound();
        e.records.get_mut("done").unwrap().steps[0].action.failures = 7;
        assert_eq!(
            breached(&e),
            ["a failure count is at most one above its threshold"]
        );
    }

    #[test]
    fn too_many_attempts_are_seen() {
        let mut e = sound();
        e.requests.push(asked("done", "pack", false, 7));
        assert_eq!(
            breached(&e),
            ["no attempt beyond the threshold, where nothing was deferred"]
        );
    }

    #[test]
    fn a_call_that_nobody_asked_for_is_seen() {
        let mut e = sound();
        let mut surplus = call("done", "pack", false, Kind::Replayed);
        surplus.head.attempt = 2;
        e.calls.push(surplus);
        assert_eq!(
            breached(&e),
            ["a call belongs to an attempt that was asked for"]
        );
    }

    #[test]
    fn an_allowance_that_was_used_twice_is_seen() {
        let mut e = sound();
        for _ in 0..3 {
            e.calls
                .push(call("done", "charge-payment", false, Kind::Replayed));
        }
        assert_eq!(
            breached(&e),
            ["a counted attempt makes no more calls than its allowance, delivered however often"]
        );
    }

    #[test]
    fn a_total_that_was_passed_is_seen() {
        let mut e = sound();
        for attempt in 2..6 {
            e.requests
                .push(asked("done", "charge-payment", false, attempt));
            for _ in 0..3 {
                let mut call = call("done", "charge-payment", false, Kind::Replayed);
                call.head.attempt = attempt;
                e.calls.push(call);
            }
        }
        assert_eq!(
            breached(&e),
            ["a step with a declared total makes no more calls in all"]
        );
    }
}
