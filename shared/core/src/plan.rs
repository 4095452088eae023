//! The Supervisor's pass over what it found: every decision in one pure step.
//!
//! The buckets are disjoint, and a pass over the same records after the plan was carried out
//! plans nothing more.

use triad_workflow::Workflow;

use crate::context::{Context, Timing};
use crate::decide::{Decision, Illegal, Reason, decide};
use crate::event::{Event, Untaken};
use crate::ids::Timestamp;
use crate::order::Order;

/// What is to be done about one overdue record.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Write this next version, then send what it says.
    Write(Box<Order>),
    /// Send what the finished record says once more, then confirm it.
    Resend,
    /// Leave it alone.
    Leave(Reason),
    /// The record does not fit its definition: for an operator.
    Unsound(Illegal),
}

/// What is to be done about everything that was found.
#[derive(Debug, Default)]
pub struct Plan {
    /// Present version and next version.
    pub writes: Vec<(Order, Order)>,
    /// Finished records whose messages may not have gone out.
    pub resend: Vec<Order>,
    /// Records that need nothing, and why.
    pub leave: Vec<(Order, Reason)>,
    /// Records that do not fit their definitions.
    pub unsound: Vec<(Order, Illegal)>,
}

/// The verdict on one record.
#[must_use]
pub fn verdict(
    order: &Order,
    untaken: Untaken,
    workflow: &Workflow,
    timing: Timing,
    now: Timestamp,
) -> Verdict {
    let ctx = Context {
        workflow,
        details: &serde_json::Value::Null,
        timing,
    };
    match decide(&ctx, order, Event::Overdue(untaken), now) {
        Ok(Decision::Transition(next)) => Verdict::Write(next),
        Ok(Decision::Repeat) => Verdict::Resend,
        Ok(Decision::Ignore(reason)) => Verdict::Leave(reason),
        Ok(Decision::Refuse(_)) => Verdict::Leave(Reason::NotDue),
        Err(illegal) => Verdict::Unsound(illegal),
    }
}

/// Plans what to do about the records that the due index named, of each of which the steps are
/// said whose attempt no agent has taken.
#[must_use]
pub fn plan<'a>(
    found: impl IntoIterator<Item = (Order, Untaken, &'a Workflow)>,
    timing: Timing,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::default();
    for (order, untaken, workflow) in found {
        match verdict(&order, untaken, workflow, timing, now) {
            Verdict::Write(next) => plan.writes.push((order, *next)),
            Verdict::Resend => plan.resend.push(order),
            Verdict::Leave(reason) => plan.leave.push((order, reason)),
            Verdict::Unsound(illegal) => plan.unsound.push((order, illegal)),
        }
    }
    plan
}
