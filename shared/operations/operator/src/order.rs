//! The view of one order for operators.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use triad_core::order::{Dropped, Hold, Incident};
use triad_core::{
    ClaimId, Failure, Order, OrderId, Priority, Timestamp, Timing, Version, WorkflowRef,
};
use triad_core::{StepRecord, TraceContext};
use triad_workflow::StepId;

use crate::children::ChildrenView;
use crate::messages::{self, MessageView};
use crate::next::{self, NextAct};
use crate::timeline::{TimelineEntry, gaps, timeline};

/// The trace that an order belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TraceView {
    /// The trace's id, 32 hexadecimal digits.
    pub trace_id: String,
    /// Whether the trace is sampled, as its first service decided. If true, an installation that sends traces sends
    /// all of the order's spans; if false, only the spans of failures.
    pub sampled: bool,
}

impl TraceView {
    /// The trace of an order; `None` if its submitter gave none and the installation made no traces when it
    /// was submitted.
    #[must_use]
    pub fn of(order: &Order) -> Option<Self> {
        let context = TraceContext::parse(order.traceparent.as_deref()?)?;
        Some(Self {
            trace_id: format!("{:032x}", context.trace_id()),
            sampled: context.is_sampled(),
        })
    }
}

/// Whose child an order is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ParentView<'a> {
    /// The parent order.
    #[schemars(with = "String")]
    pub order_id: &'a OrderId,
    /// Its step that has started the order.
    #[schemars(with = "String")]
    pub step: &'a StepId,
    /// Which of the step's child orders the order is, from 0.
    pub number: u32,
}

/// A step's record, with its child orders counted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepView<'a> {
    /// The record, without its child orders.
    #[serde(flatten)]
    pub record: Cow<'a, StepRecord>,
    /// Its child orders; left out if the step has started none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub children: Option<ChildrenView>,
}

impl<'a> StepView<'a> {
    fn of(order: &Order, record: &'a StepRecord) -> Self {
        let children = ChildrenView::of(order, record);
        let record = match children {
            None => Cow::Borrowed(record),
            Some(_) => Cow::Owned(StepRecord {
                children: None,
                ..record.clone()
            }),
        };
        Self { record, children }
    }
}

/// An order's whole record, in the names that people use for its parts. Later versions may add fields.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OrderView<'a> {
    /// The order's id.
    #[schemars(with = "String")]
    pub order_id: &'a OrderId,
    /// The name of the order's process state, such as `Processing`.
    pub state: &'static str,
    /// The definition that the order is pinned to: name and hash.
    #[schemars(with = "String")]
    pub workflow: &'a WorkflowRef,
    /// The order's lane: normal or high.
    #[schemars(with = "String")]
    pub priority: Priority,
    /// The order's search keys: values by name. Left out if it has none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub search: BTreeMap<&'a str, &'a str>,
    /// When Submission accepted the order.
    #[schemars(with = "crate::schema::Moment")]
    pub submitted_at: Timestamp,
    /// When the order finished; `None` if it has not.
    #[schemars(with = "Option<crate::schema::Moment>")]
    pub finished_at: Option<Timestamp>,
    /// When the Supervisor looks at the order if its record has not changed by then. `None` for a new order and for a
    /// finished one.
    #[schemars(with = "Option<crate::schema::Moment>")]
    pub complete_by: Option<Timestamp>,
    /// The id of the live claim; `None` if no Scheduler has claimed the order.
    #[schemars(with = "Option<String>")]
    pub locked_by: Option<&'a ClaimId>,
    /// Before when no step starts, as the application has asked; left out of an order that started at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<crate::schema::Moment>")]
    pub start_at: Option<Timestamp>,
    /// The moment by which the order must have finished; `None` if it has no deadline.
    #[schemars(with = "Option<crate::schema::Moment>")]
    pub deadline: Option<Timestamp>,
    /// Since when the order is known to be late; `None` if it is not.
    #[schemars(with = "Option<crate::schema::Moment>")]
    pub late_since: Option<Timestamp>,
    /// The largest number of failures that any one step has in this run, in the present direction (forward
    /// or compensating); 0 if no step has failed.
    pub failure_count: u32,
    /// How many attempts were made for the order in all runs, at actions, probes and compensations; those
    /// whose end is not known yet are included.
    pub attempts: u32,
    /// The fingerprint of why the order failed, or is or was compensated. Orders are grouped and chosen by
    /// it. `None` if the order has no cause.
    pub cause: Option<String>,
    /// The failure that `cause` is the fingerprint of, as a whole: class, step, code and message. `None` if
    /// the order has no cause.
    #[schemars(with = "Option<crate::schema::Object>")]
    pub failure: Option<&'a Failure>,
    /// The record's version: every write raises it by one.
    #[schemars(with = "u64")]
    pub version: Version,
    /// Sequence number of the last status message; they are counted from 1 without gaps.
    pub status_sequence: u32,
    /// How often an operator has started a new run of the finished order; 0 at first.
    pub run: u32,
    /// The operator who paused the order, when and why; `None` if it is not paused.
    #[schemars(with = "Option<crate::schema::Object>")]
    pub paused: Option<&'a Hold>,
    /// The operator who closed the order by hand, when and why; `None` if it is not closed.
    #[schemars(with = "Option<crate::schema::Object>")]
    pub closed: Option<&'a Hold>,
    /// The trace that the order belongs to; left out if the order belongs to none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceView>,
    /// Whose child the order is; left out if another order's step has not started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentView<'a>>,
    /// The records of the order's steps, in the workflow's order. A step that has started child orders has `children`:
    /// `all`, their number; `states`, how many are `processed`, `failed`, `under_way`, `not_started`, `compensating`,
    /// `compensated` and `not_compensated` (they cannot be); and `orders`, the ids of those that are `failed`,
    /// `under_way`, `compensating` or `not_compensated`, at most 10 of each.
    #[schemars(with = "Vec<crate::schema::Object>")]
    pub steps: Vec<StepView<'a>>,
    /// Recoveries, failures and operators' acts that the record still keeps, oldest first.
    #[schemars(with = "Vec<crate::schema::Object>")]
    pub incidents: &'a [Incident],
    /// How many lines were dropped from `incidents` because there were too many, and when the latest of them
    /// happened; `None` if none was dropped.
    #[schemars(with = "Option<crate::schema::Object>")]
    pub dropped: Option<Dropped>,
    /// The history in lines for people, oldest first.
    #[schemars(with = "Vec<crate::schema::Object>")]
    pub timeline: Vec<TimelineEntry>,
    /// The attempts whose timeline lines were dropped, as texts; empty if there are none, as for most orders.
    pub gaps: Vec<String>,
    /// The messages of the outbox that are not noted as acknowledged.
    #[schemars(with = "Vec<crate::schema::Object>")]
    pub messages: Vec<MessageView<'a>>,
    /// What will happen to the order next, soonest first; never empty.
    #[schemars(with = "Vec<crate::schema::Object>")]
    pub next: Vec<NextAct>,
}

impl<'a> OrderView<'a> {
    /// The view of a process record in an installation with this timing. Lists and texts are borrowed
    /// from the record.
    #[must_use]
    pub fn of(order: &'a Order, timing: &Timing) -> Self {
        Self {
            order_id: &order.id,
            state: order.state.name(),
            workflow: &order.workflow,
            priority: order.priority,
            search: order
                .search
                .iter()
                .map(|key| (key.name().as_str(), key.value()))
                .collect(),
            submitted_at: order.submitted_at,
            finished_at: order.state.finished_at(),
            complete_by: order.complete_by(),
            locked_by: order.state.locked_by(),
            start_at: order.start_at,
            deadline: order.deadline,
            late_since: order.late_since,
            failure_count: order.failure_count(),
            attempts: order.attempts(),
            cause: order.state.cause().map(Failure::fingerprint),
            failure: order.state.cause(),
            version: order.version,
            status_sequence: order.sequence,
            run: order.run,
            paused: order.paused.as_ref(),
            closed: order.closed.as_ref(),
            trace: TraceView::of(order),
            parent: order.parent.as_ref().map(|parent| ParentView {
                order_id: &parent.order_id,
                step: &parent.step,
                number: parent.number,
            }),
            steps: order
                .steps
                .iter()
                .map(|record| StepView::of(order, record))
                .collect(),
            incidents: &order.incidents,
            dropped: order.dropped,
            messages: messages::of(order),
            timeline: timeline(order),
            gaps: gaps(order),
            next: next::of(order, timing),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::children::tests::{adopt, parent_of};

    #[test]
    fn the_view_of_an_order_counts_its_child_orders_and_names_its_parent() {
        let mut order = parent_of("pf");
        let view = |order: &Order| {
            let view = OrderView::of(order, &triad_core::Timing::default());
            crate::json::line("order", &view).unwrap()
        };
        let shown = view(&order);
        assert_eq!(
            shown["steps"][0]["children"],
            json!({"all": 2, "states": {"processed": 1, "failed": 1}, "orders": {"failed": ["o:ship:1"]}})
        );
        assert_eq!(
            (&shown["steps"][0]["step"], shown.get("parent")),
            (&json!("ship"), None)
        );
        adopt(&mut order);
        assert_eq!(
            view(&order)["parent"],
            json!({"order_id": "p", "step": "ship", "number": 17})
        );
    }
}
