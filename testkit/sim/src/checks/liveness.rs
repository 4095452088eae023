//! What G9 promises: how long everything that is in flight may take once the faults have stopped.
//!
//! The bound is of the one world: of its orders, their steps and policies, the spans of [`TIMING`], the caps
//! and limits of its setup, and what its faults have left behind. From then on nothing fails but what is
//! declined for good. So of each order one attempt may be lost, that of the steps that are out when the
//! faults stop; everything else is done at the first try, or is refused at each.

use std::sync::Arc;

use triad_core::downstream::HELD_RECHECK;
use triad_core::pass::CONFIRM_AT_MOST;
use triad_workflow::Workflow;

use crate::definitions::{self, TIMING};
use crate::setup::{ASKED_WITHIN_MS, ASKS_LATE_AFTER_MS, ROUND_MS, SWEEP_MS};
use crate::world::State;

/// From one process to the next: a few calls of ports, one of a service, and the pause before a batch is
/// taken up again, in milliseconds.
pub(super) const HOP_MS: u64 = 2_500;
/// Furthest that a clock of a world of wild clocks is off, in milliseconds.
const WILD_MS: u64 = 90_000;
/// Sweeps of a Supervisor are this far apart, and one may just have missed a row.
const LOOK_MS: u64 = 2 * SWEEP_MS;

/// Until a sweep has met something, and the Scheduler it announces it to has taken it up.
const NOTICED_MS: u64 = LOOK_MS + 2 * TIMING.skew.0 + HOP_MS;

/// The bound of a world whose faults stop now, in milliseconds.
pub(crate) fn bound_ms(state: &State) -> u64 {
    let kernel = &state.kernel;
    let until = kernel.instances.iter().map(|i| i.frozen_until);
    // The only Supervisor may be one that is frozen.
    let wakes = until.max().unwrap_or(0).saturating_sub(kernel.now);
    let (wild, asks) = match state.setup.wild_clocks {
        true => (WILD_MS, ASKS_LATE_AFTER_MS),
        false => (0, ASKED_WITHIN_MS),
    };
    let compensations_fail = kernel.faults.decline_compensation > 0;
    let clean = |w: &Workflow| clean_ms(w, compensations_fail);
    let one = |w: &Arc<Workflow>| {
        // What is in doubt and may not be repeated is resolved by an operator, and the order begins anew.
        let may_need_one = w.steps.iter().any(|s| !s.repeat.is_safe());
        let resolved = asks + ROUND_MS + NOTICED_MS + clean(w);
        lost_ms(w) + clean(w) + u64::from(may_need_one) * resolved
    };
    let open = open(state);
    // What is at rest may be set going once more, by who was frozen in the middle of doing so.
    let all = state.store.orders().map(|o| &o.workflow);
    let all: Vec<_> = all.filter_map(definitions::compiled).collect();
    let longest = all.iter().chain(&open).map(one).max().unwrap_or(0);
    let turns = in_turns_ms(state, &open, clean);
    // Who has been refused is deferred before the end is told again.
    let confirmed = TIMING.confirm_within.max(CONFIRM_AT_MOST).0 + LOOK_MS;
    // An order whose announcement was lost rests until those of all others were made again.
    let rests = state.setup.announce_apart().0 * open.len() as u64;
    wakes + wild + longest + turns + limited_ms(state, &open) + rests + confirmed
}

/// The workflows of the orders that are not at rest. One that is not stored yet may have any.
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

/// The attempt of a step, or of its compensation, that is out when the faults stop: its time passes, a
/// sweep meets it, listens for a reply that is on its way, and meets it again; then it is tried once more
/// after its longest delay. Or it is held back, and looked at again.
fn lost_ms(workflow: &Workflow) -> u64 {
    let attempt = |within: u64, delay: u64| {
        let met = TIMING.queue_within.0 + within + TIMING.hear_within.0 + 2 * NOTICED_MS;
        met.max(HELD_RECHECK.0 + LOOK_MS) + delay + NOTICED_MS
    };
    let steps = workflow.steps.iter().map(|s| {
        let delays = (1..=s.policy.max_attempts()).filter_map(|n| s.policy.retry_after(n));
        let forward = attempt(s.attempt_timeout.0, delays.max().unwrap_or_default().0);
        let compensation = s.compensation.as_ref().map_or(0, |c| {
            let delays = (1..=c.policy.failure_threshold).filter_map(|n| c.policy.retry_after(n));
            attempt(c.attempt_timeout.0, delays.max().unwrap_or_default().0)
        });
        forward.max(compensation)
    });
    steps.max().unwrap_or(0)
}

/// An order of which nothing is lost: from process to process for each step, and as far back if a step is
/// declined; and where compensations are declined, one of them until it is given up.
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
    (3 + 2 * 2 * steps) * HOP_MS + refused
}

/// Where orders in flight are capped, in all or of a workflow, they go in turns; each turn is let in by a
/// sweep.
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

/// Where calls to a service are limited in a second, each may have to wait for all others, and is deferred
/// until a sweep takes it up.
fn limited_ms(state: &State, workflows: &[Arc<Workflow>]) -> u64 {
    let calls: u64 = workflows.iter().map(|w| 2 * w.steps.len() as u64).sum();
    let limits = definitions::AGENTS.map(|a| state.setup.limits(a).rate_per_second);
    let Some(least) = limits.into_iter().flatten().min() else {
        return 0;
    };
    1_000 * calls / u64::from(least) + LOOK_MS
}
