//! How many calls a step may still make: each attempt its allowance, all of them a total.

use triad_workflow::{Repeat, Step};

use crate::ids::Direction;
use crate::order::StepRecord;

/// Most calls of the attempt that is out, or would be made next: its own allowance, or what is
/// left of the total if that is less. Zero: the total is used up.
///
/// The calls of an attempt are added to the record only when it has ended, so the figure stays
/// the same while it is out.
#[must_use]
pub fn allowance(step: &Step, record: &StepRecord, direction: Direction) -> u32 {
    let forward = step.total_calls.saturating_sub(record.calls);
    match direction {
        Direction::Forward => step.retry.calls.min(forward),
        Direction::Probe => match &step.repeat {
            Repeat::Probe(probe) => probe.retry.calls.min(forward),
            Repeat::Safe | Repeat::Never => 0,
        },
        Direction::Undo => step.compensation.as_ref().map_or(0, |c| {
            c.retry
                .calls
                .min(c.total_calls.saturating_sub(record.undo_calls))
        }),
    }
}

/// Whether the allowance is claimed in the call ledger before the first call.
#[must_use]
pub fn is_counted(step: &Step, direction: Direction) -> bool {
    match direction {
        Direction::Forward | Direction::Probe => step.is_counted,
        Direction::Undo => step.compensation.as_ref().is_some_and(|c| c.is_counted),
    }
}
