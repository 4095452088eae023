//! Longest time that an order may take, and that a failure may stay undetected.
//!
//! Waits that no definition bounds are not in it: room under a cap, an operator's pause, and attempts
//! that are deferred because their service is paused or its breaker open.

use triad_workflow::{Millis, Policy, Step, Workflow};

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
        let leg = |step: &Step, direction| {
            leg(step, direction, timing, Millis(detection), Millis(noticed))
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
