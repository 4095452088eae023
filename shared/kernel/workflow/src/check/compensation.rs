//! Checks of what is compensated, and of the point of no return.

use std::collections::BTreeSet;

use super::kinds;
use crate::model::{CompensationDefinition, Definition, OtherwiseDefinition, ThenDefinition};
use crate::problem::{Path, Problem, Problems};

/// Checks the rules about compensation; returns for each step whether it can ever be compensated.
pub(super) fn check(
    definition: &Definition,
    ancestors: &[BTreeSet<usize>],
    problems: &mut Problems,
) -> Vec<bool> {
    let steps = &definition.steps;
    let pivots: Vec<usize> = (0..steps.len())
        .filter(|&s| steps[s].point_of_no_return)
        .collect();
    if let [first, second, ..] = pivots.as_slice() {
        let reason = format!(
            "step {} is the point of no return already",
            steps[*first].id
        );
        problems.push(
            Problem::new(Path::step(*second).key("point_of_no_return"), reason)
                .hint("keep one of them"),
        );
    }
    let pivot = pivots.first().copied();
    (0..steps.len())
        .map(|s| {
            let step = &steps[s];
            let at = Path::step(s);
            let past_pivot = pivot.is_some_and(|p| s == p || ancestors[s].contains(&p));
            if let Some(p) = pivot
                && !past_pivot
                && !ancestors[p].contains(&s)
            {
                problems.add(
                    at.clone(),
                    format!(
                        "runs beside the point of no return {}: put it before or after it",
                        steps[p].id
                    ),
                );
            }
            if past_pivot {
                let policy = step.supervisor.iter();
                let own = policy.clone().map(|p| (at.keys("supervisor.then"), p.then));
                let of_codes = policy.flat_map(|p| &p.by_code);
                let of_codes = of_codes.map(|(code, after)| {
                    (at.keys("supervisor.by_code").key(code).key("then"), after.then)
                });
                for (at, then) in own.chain(of_codes) {
                    if then == Some(ThenDefinition::Compensate) {
                        problems.add(at, "cannot compensate from the point of no return on: use then: error");
                    }
                }
                let acts = matches!(step.compensation, Some(CompensationDefinition::Action(_)));
                if acts && !step.runs_orders() {
                    problems.add(at.key("compensation"), "a compensation from the point of no return on would never run: remove it");
                }
                let otherwise = step.awaits.as_ref().and_then(|wait| wait.otherwise);
                if otherwise == Some(OtherwiseDefinition::Compensate) {
                    problems.add(at.keys("await.otherwise"), "cannot compensate from the point of no return on: use otherwise: error or continue");
                }
            } else if step.compensation.is_none() && !kinds::waits(step) && !step.runs_orders() {
                problems.push(Problem::new(at.key("compensation"), "has no compensation").missing().hint(
                    "say how its effect is compensated, `compensation: { action: … }`, or write `compensation: none` if there is nothing to compensate",
                ));
            }
            !past_pivot
        })
        .collect()
}
