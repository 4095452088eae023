//! How many calls a step may still make: each attempt its allowance, all of them a total.

use triad_workflow::Step;

use crate::declared::declared;
use crate::ids::Direction;
use crate::step::StepRecord;

/// Most calls of the attempt that is out, or would be made next: its own allowance, or what is
/// left of the total if that is less. Zero: the total is used up, or there is no such action.
///
/// The calls of an attempt are added to the record only when it has ended, so the figure stays
/// the same while it is out.
#[must_use]
pub fn allowance(step: &Step, record: &StepRecord, direction: Direction) -> u32 {
    declared(step, direction).map_or(0, |declared| {
        let left = declared
            .total_calls
            .saturating_sub(record.leg(direction).calls);
        declared.retry.calls.min(left)
    })
}

/// Whether the allowance is claimed in the call ledger before the first call.
#[must_use]
pub fn is_counted(step: &Step, direction: Direction) -> bool {
    declared(step, direction).is_some_and(|declared| declared.is_counted)
}
