//! G9: the bound on the time that everything in flight takes once the faults have stopped.
//!
//! The bound depends on the world: its orders, their steps and policies, the times in [`TIMING`], the caps and limits
//! of its setup, and what its faults leave behind. Once they have stopped, a call fails only if its service refuses
//! it for good. So each order may lose only the attempts that are under way when the faults stop. Every later attempt
//! succeeds at once, or is refused each time.

use std::sync::Arc;

use triad_core::downstream::HELD_RECHECK;
use triad_core::pass::CONFIRM_AT_MOST;
use triad_workflow::{Started, Step, Workflow};

use crate::definitions::{self, TIMING};
use crate::setup::{ASKED_WITHIN_MS, ASKS_LATE_AFTER_MS, ROUND_MS, SWEEP_MS};
use crate::world::State;

/// Time from one process to the next, in milliseconds: a few calls of ports, one call of a service, and the pause
/// before the next batch.
pub(super) const HOP_MS: u64 = 2_500;
/// Largest clock error in a world of wild clocks, in milliseconds.
const WILD_MS: u64 = 90_000;
/// Two intervals between sweeps, because one sweep may just have missed a row.
const LOOK_MS: u64 = 2 * SWEEP_MS;

/// Time until a sweep has found an order and a Scheduler has claimed it, in milliseconds.
const NOTICED_MS: u64 = LOOK_MS + 2 * TIMING.skew.0 + HOP_MS;

/// The bound of a world whose faults stop now, in milliseconds.
pub(crate) fn bound_ms(state: &State) -> u64 {
    let kernel = &state.kernel;
    let until = kernel.instances.iter().map(|i| i.frozen_until);
    // All Supervisors may be frozen until then.
    let wakes = until.max().unwrap_or(0).saturating_sub(kernel.now);
    let (wild, asks) = match state.setup.wild_clocks {
        true => (WILD_MS, ASKS_LATE_AFTER_MS),
        false => (0, ASKED_WITHIN_MS),
    };
    let compensations_fail = kernel.faults.decline_compensation > 0;
    let clean = |w: &Workflow| clean_ms(w, compensations_fail);
    let one = |w: &Arc<Workflow>| {
        // After an operator has resolved an effect that may not be repeated, the order begins a new run.
        let may_need_one = w.steps.iter().any(|s| !s.is_safe_to_repeat());
        let resolved = asks + ROUND_MS + NOTICED_MS + clean(w);
        lost_ms(w) + clean(w) + u64::from(may_need_one) * resolved
    };
    let open = open(state);
    // An operator that was frozen within an act may start an order once more.
    let all = state.store.orders().map(|o| &o.workflow);
    let all: Vec<_> = all.filter_map(definitions::compiled).collect();
    let longest = all.iter().chain(&open).map(one).max().unwrap_or(0);
    let turns = in_turns_ms(state, &open, clean);
    // A refused order is deferred before its end is sent again.
    let confirmed = TIMING.confirm_within.max(CONFIRM_AT_MOST).0 + LOOK_MS;
    // An order whose wake was lost may wait until those of all other orders were repeated.
    let rests = state.setup.announce_apart().0 * open.len() as u64;
    let asked = asked_again_ms(state);
    wakes + wild + longest + turns + limited_ms(state, &open) + rests + confirmed + asked
}

/// If a message to or from a child order was lost, its parent asks again at the end of its wait. A child order may be a
/// parent, too.
fn asked_again_ms(state: &State) -> u64 {
    let steps = state.store.orders().flat_map(|o| &o.steps);
    let parents = steps.filter(|s| s.children.is_some());
    let until = parents.filter_map(|s| s.state.parked_until());
    let longest = until.map(|at| at.0.saturating_sub(state.kernel.now)).max();
    2 * longest.unwrap_or(0)
}

/// Time for the child orders of a step: each wave of them is started, runs, and tells its parent; and the same again to
/// compensate them.
fn children_ms(step: &Step, compensations_fail: bool) -> u64 {
    let Some(run) = step.run() else {
        return 0;
    };
    let known: Vec<_> = definitions::versions()
        .flat_map(|w| w.with_parts())
        .collect();
    let longest = |way: &Started| {
        let orders = known.iter().filter(|w| w.name == way.workflow);
        let one = orders.map(|w| lost_ms(w) + clean_ms(w, compensations_fail));
        one.max().unwrap_or(0) + 4 * HOP_MS
    };
    let ways: u64 = run.ways().map(longest).sum();
    // Lists have four elements at most.
    let waves = run
        .each
        .as_ref()
        .map_or(1, |each| 4_u64.div_ceil(each.at_once.into()));
    2 * waves * ways
}

/// The workflows of the unfinished orders. An order that is not stored yet may have any.
fn open(state: &State) -> Vec<Arc<Workflow>> {
    let open = state.sent.orders.iter();
    let open: Vec<_> = open.filter(|id| !super::is_at_rest(state, id)).collect();
    let known = open.iter().filter_map(|id| state.store.order(id));
    let mut all: Vec<_> = known
        .filter_map(|o| definitions::compiled(&o.workflow))
        .collect();
    let unknown = open.len() + state.sent.open - all.len();
    let longest = definitions::versions().max_by_key(|w| clean_ms(w, true));
    all.extend(longest.into_iter().cycle().take(unknown).cloned());
    all
}

/// Time that is lost with an attempt that is under way when the faults stop: the attempt times out, a sweep finds it,
/// waits for an unread reply and finds it again, and another attempt follows after the longest delay. Or the attempt
/// is deferred until it is due again.
fn lost_ms(workflow: &Workflow) -> u64 {
    let attempt = |within: u64, delay: u64| {
        let met = TIMING.queue_within.0 + within + TIMING.hear_within.0 + 2 * NOTICED_MS;
        met.max(HELD_RECHECK.0 + LOOK_MS) + delay + NOTICED_MS
    };
    let steps = workflow.steps.iter().map(|s| {
        let forward = s.call().map_or(s.longest_try().0 + 2 * NOTICED_MS, |call| {
            let delays = s.policies().flat_map(|policy| {
                (1..=policy.max_attempts()).filter_map(|n| policy.retry_after(n))
            });
            attempt(call.attempt_timeout.0, delays.max().unwrap_or_default().0)
        });
        let compensation = s.compensation.as_ref().map_or(0, |c| {
            let delays = (1..=c.policy.failure_threshold).filter_map(|n| c.policy.retry_after(n));
            attempt(c.attempt_timeout.0, delays.max().unwrap_or_default().0)
        });
        forward.max(compensation)
    });
    steps.max().unwrap_or(0)
}

/// Time of an order that loses no attempt: from process to process for each step, and the same again for
/// compensations if a step is refused. If compensations are refused, also the time until one of them is given up.
fn clean_ms(workflow: &Workflow, compensations_fail: bool) -> u64 {
    let steps = workflow.steps.len() as u64;
    let refused = workflow
        .steps
        .iter()
        .filter_map(|s| s.compensation.as_ref());
    let refused = refused
        .map(|c| {
            let delays = (1..=c.policy.failure_threshold).filter_map(|n| c.policy.retry_after(n));
            delays.map(|d| d.0 + NOTICED_MS + 2 * HOP_MS).sum::<u64>()
        })
        .max();
    let refused = refused.filter(|_| compensations_fail).unwrap_or(0);
    let waits = workflow.steps.iter().filter(|s| s.call().is_none());
    let waits: u64 = waits.map(|s| s.longest_try().0 + NOTICED_MS).sum();
    let children = workflow.steps.iter();
    let children: u64 = children.map(|s| children_ms(s, compensations_fail)).sum();
    (3 + 2 * 2 * steps) * HOP_MS + refused + waits + children
}

/// If the orders in flight are capped, in total or for a workflow, they run in several groups, and a sweep admits
/// each group.
fn in_turns_ms(state: &State, all: &[Arc<Workflow>], clean: impl Fn(&Workflow) -> u64) -> u64 {
    let admission = &state.setup.admission;
    let turns = |cap: u32, all: &mut dyn Iterator<Item = &Arc<Workflow>>| {
        let sum: u64 = all.map(|w| clean(w) + LOOK_MS).sum();
        sum / u64::from(cap) + LOOK_MS
    };
    let of_all = admission.in_flight.map(|cap| turns(cap, &mut all.iter()));
    let of_one = admission.per_workflow.iter();
    let of_one = of_one.map(|(name, cap)| turns(*cap, &mut all.iter().filter(|w| w.name == *name)));
    of_one.chain(of_all).max().unwrap_or(0)
}

/// If calls to a service are limited per second, each may have to wait for all others, and is deferred until a sweep
/// finds it.
fn limited_ms(state: &State, workflows: &[Arc<Workflow>]) -> u64 {
    let calls: u64 = workflows.iter().map(|w| 2 * w.steps.len() as u64).sum();
    let limits = definitions::AGENTS.map(|a| state.setup.limits(a).rate_per_second);
    let Some(least) = limits.into_iter().flatten().min() else {
        return 0;
    };
    1_000 * calls / u64::from(least) + LOOK_MS
}
