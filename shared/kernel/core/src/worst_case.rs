//! Longest time that an order may take, and that a failure may stay undetected.
//!
//! Waits that no definition bounds are not in it: room under a cap, an operator's pause, attempts
//! that are deferred because their service is paused or its breaker open, and child orders of other workflows.

use triad_workflow::check::MAX_INSTANCES;
use triad_workflow::{Millis, Policy, Run, Started, Step, Workflow};

use crate::context::Timing;
use crate::declared::declared;
use crate::ids::Direction;

/// How long an order of one workflow, and the discovery of a failure, may take at worst in an installation;
/// each in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorstCase {
    /// From the complete-by of an attempt that got no reply until its failure is counted: twice the skew and
    /// the time between two sweeps, because one sweep finds the attempt and a later one counts the failure,
    /// and [`Timing::hear_within`] between them. A failure that an agent reports is counted within one such
    /// time and the skew.
    pub detection: Millis,
    /// From the first request until the order is Processed, if each step uses all of its attempts, no attempt
    /// but the last is answered, and steps wait for those before them.
    pub processed: Millis,
    /// From the beginning of the compensation until the order is Compensated, if every step that can be
    /// compensated was completed, and each compensation uses all of its attempts.
    pub compensated: Millis,
}

impl WorstCase {
    /// The worst case of a workflow where a sweep of the Supervisor begins every `sweep_every`
    /// milliseconds and reads all that is due.
    #[must_use]
    pub fn of(workflow: &Workflow, timing: &Timing, sweep_every: Millis) -> Self {
        let noticed = sweep_every.0.saturating_add(timing.skew.0);
        let detection = noticed
            .saturating_mul(2)
            .saturating_add(timing.hear_within.0);
        let leg = |step: &Step, direction| match step.run() {
            Some(run) => of_run(workflow, run, direction, timing, sweep_every),
            None => leg(step, direction, timing, Millis(detection), Millis(noticed)),
        };
        let steps = &workflow.steps;
        // The longest chain of steps, from the first; of compensations, from the last.
        let mut until = vec![0_u64; steps.len()];
        for (at, step) in steps.iter().enumerate() {
            let before = step.after.iter().map(|&a| until[a]).max().unwrap_or(0);
            until[at] = before.saturating_add(leg(step, Direction::Forward));
        }
        let mut back = vec![0_u64; steps.len()];
        for at in (0..steps.len()).rev() {
            let later = (at + 1..steps.len()).filter(|&l| workflow.is_after(l, at));
            let before = later.map(|l| back[l]).max().unwrap_or(0);
            back[at] = before.saturating_add(leg(&steps[at], Direction::Compensate));
        }
        let longest = |chain: Vec<u64>| Millis(chain.into_iter().max().unwrap_or(0));
        Self {
            detection: Millis(detection),
            processed: longest(until),
            compensated: longest(back),
        }
    }
}

/// Longest time of the child orders of a step, of which as many are under way as may be at once: forward, each is
/// Processed at worst, and each way but the last is compensated before; of ways at once, those that are let go are
/// compensated after the first is Processed. Zero for those of another workflow without a
/// bound.
fn of_run(
    workflow: &Workflow,
    run: &Run,
    direction: Direction,
    timing: &Timing,
    sweep_every: Millis,
) -> u64 {
    let waves = run.each.as_ref().map_or(1, |each| {
        (MAX_INSTANCES as u64).div_ceil(u64::from(each.at_once).max(1))
    });
    let worst = |way: &Started| {
        let part = workflow.part(&way.workflow);
        part.map(|part| WorstCase::of(part, timing, sweep_every))
    };
    let forward = |way: &Started| match (worst(way), run.within) {
        (Some(worst), within) => worst.processed.min(within.unwrap_or(worst.processed)),
        (None, within) => within.unwrap_or_default(),
    };
    let compensated = |way: &Started| worst(way).map_or(Millis(0), |worst| worst.compensated);
    let once = match direction {
        Direction::Forward | Direction::Probe if run.is_race => {
            let longest = |of: &dyn Fn(&Started) -> Millis| run.ways().map(|way| of(way).0).max();
            let (first, let_go) = (longest(&forward), longest(&compensated));
            first.unwrap_or(0).saturating_add(let_go.unwrap_or(0))
        }
        Direction::Forward | Direction::Probe => {
            let ways: Vec<&Started> = run.ways().collect();
            let earlier = ways.split_last().map_or(&[][..], |(_, earlier)| earlier);
            let all = ways.iter().map(|way| forward(way).0);
            all.chain(earlier.iter().map(|way| compensated(way).0))
                .fold(0, u64::saturating_add)
        }
        Direction::Compensate if !run.is_compensated => 0,
        Direction::Compensate => run.ways().map(|way| compensated(way).0).max().unwrap_or(0),
    };
    once.saturating_mul(waves)
}

/// Longest time of one leg of a step: every attempt but the last gets no reply.
fn leg(
    step: &Step,
    direction: Direction,
    timing: &Timing,
    detection: Millis,
    noticed: Millis,
) -> u64 {
    let Some(declared) = declared(step, direction) else {
        let waits = direction == Direction::Forward;
        return if waits {
            step.longest_try().0.saturating_add(noticed.0)
        } else {
            0
        };
    };
    let attempt = timing
        .queue_within
        .0
        .saturating_add(declared.attempt_timeout.0);
    let mut all = attempt;
    let policies: Vec<&Policy> = match direction {
        Direction::Compensate => vec![declared.policy],
        Direction::Forward | Direction::Probe => step.policies().collect(),
    };
    for policy in policies {
        // Bounded by the thresholds, each of which is at most MAX_THRESHOLD.
        for failures in 1.. {
            let Some(wait) = policy.retry_after(failures) else {
                break;
            };
            let resumed = if wait == Millis(0) {
                0
            } else {
                wait.0.saturating_add(noticed.0)
            };
            all = all
                .saturating_add(detection.0)
                .saturating_add(resumed)
                .saturating_add(attempt);
        }
    }
    all
}
