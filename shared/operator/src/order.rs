//! One order, as operators see it.

use serde::Serialize;
use triad_core::StepRecord;
use triad_core::order::{Hold, Incident};
use triad_core::{ClaimId, Failure, Order, OrderId, Priority, Timestamp, Version, WorkflowRef};

/// An order's whole record, in the names that people use for its parts. Times are milliseconds
/// since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OrderView<'a> {
    /// Its id.
    pub order_id: &'a OrderId,
    /// The name of its state.
    pub process_state: &'static str,
    /// The definition that it is pinned to.
    pub workflow: &'a WorkflowRef,
    /// Its lane.
    pub priority: Priority,
    /// When its submission was accepted.
    pub submitted_at: Timestamp,
    /// When it finished.
    pub finished_at: Option<Timestamp>,
    /// When somebody must have finished or looked.
    pub complete_by: Option<Timestamp>,
    /// The live claim.
    pub locked_by: Option<&'a ClaimId>,
    /// Most failures of one step in the present direction.
    pub failure_count: u32,
    /// Why it failed or is being compensated.
    pub cause: Option<&'a Failure>,
    /// The record's version.
    pub version: Version,
    /// Sequence of the last status.
    pub status_sequence: u32,
    /// How often an operator has set it going again after it had finished.
    pub round: u32,
    /// Who holds it, since when and why.
    pub paused: Option<&'a Hold>,
    /// Who has closed it, when and why.
    pub closed: Option<&'a Hold>,
    /// Its steps, in the workflow's order.
    pub steps: &'a [StepRecord],
    /// Recoveries, failures and operators' acts, oldest first.
    pub incidents: &'a [Incident],
}

impl<'a> OrderView<'a> {
    /// The view of a record.
    #[must_use]
    pub fn of(order: &'a Order) -> Self {
        Self {
            order_id: &order.id,
            process_state: order.state.name(),
            workflow: &order.workflow,
            priority: order.priority,
            submitted_at: order.submitted_at,
            finished_at: order.state.finished_at(),
            complete_by: order.complete_by(),
            locked_by: order.state.locked_by(),
            failure_count: order.failure_count(),
            cause: order.state.cause(),
            version: order.version,
            status_sequence: order.sequence,
            round: order.round,
            paused: order.paused.as_ref(),
            closed: order.closed.as_ref(),
            steps: &order.steps,
            incidents: &order.incidents,
        }
    }
}
