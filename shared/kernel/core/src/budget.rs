//! Number of calls that a step may still make: an allowance per attempt, and a total per run.

use triad_workflow::Step;

use crate::declared::declared;
use crate::ids::Direction;
use crate::step::StepRecord;

/// How many calls to the remote service the attempt that is out may make, or the next attempt if
/// none is out: the declared calls of one attempt, or what is left of the step's total if that is
/// less.
///
/// 0 if the total is used up, or the step declares nothing for this direction. The calls of an
/// attempt are added to the record only when it has ended, so the figure stays the same while it is
/// out.
#[must_use]
pub fn allowance(step: &Step, record: &StepRecord, direction: Direction) -> u32 {
    declared(step, direction).map_or(0, |declared| {
        let left = declared
            .calls_per_run
            .saturating_sub(record.leg(direction).calls);
        declared.retry.calls_per_attempt.min(left)
    })
}

/// Whether an agent must claim the allowance of an attempt in the call ledger ([`crate::ledger`]) before its
/// first call. False if the step declares nothing for this direction.
#[must_use]
pub fn is_counted(step: &Step, direction: Direction) -> bool {
    declared(step, direction).is_some_and(|declared| declared.is_counted)
}
