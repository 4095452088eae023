//! A sweep's plan for the orders of one page: made in one pass, without ports, before anything is done.

use std::sync::Arc;

use triad_core::invariants::Breach;
use triad_core::pass::{Pass, PassEnd, Snapshot, Source, Task, WriterOrder};
use triad_core::{Event, Order, Overdue, Timestamp, Timing, Untaken};
use triad_workflow::Millis;

use super::unconfirmed::Refusing;
use crate::ports::StoreError;
use crate::unreadable::Subject;

/// An order that the due index named, as its record was read. The index is only a hint.
#[derive(Debug, Clone)]
pub(super) enum Candidate {
    /// There is no record: the row was stale.
    Gone,
    /// The order's record or its definition could not be read.
    Unread(Subject, StoreError),
    /// The record, and those of its attempts without a reply that are revoked, if the call ledger could be read.
    Read(Snapshot, Result<Untaken, StoreError>),
}

/// Inputs of a sweep's decisions besides the records.
pub(super) struct Policy<'a, R> {
    pub(super) timing: Timing,
    pub(super) refusing: &'a Refusing,
    /// Intervals until the next announcement of orders that wait for a Scheduler, one after the other.
    pub(super) rests: R,
}

/// The plan for the orders of one page. Each candidate is in exactly one of the first four fields.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Number of orders for which nothing is done: the record is gone, or it is not due.
    pub(super) left: usize,
    /// Logged, and left for a later sweep. Operators get an alert about a record or definition that can never be
    /// read, if it is named here.
    pub(super) unread: Vec<(Option<Subject>, StoreError)>,
    /// Moved in the due index: finished orders whose topic refuses their messages.
    pub(super) deferred: Vec<Arc<Order>>,
    /// Written, sent and confirmed as decided; if the record does not fit its definition, operators get an alert.
    pub(super) carry_out: Vec<Due>,
    /// Since when the most overdue of the records that were read had been due.
    pub(super) oldest_due: Option<Timestamp>,
}

/// An order with a decision.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) read: Snapshot,
    pub(super) pass: Pass,
    /// Interval until its next announcement, if it is announced again.
    pub(super) rest: Millis,
    /// Invariants that the decision breaks.
    pub(super) breaches: Vec<Breach>,
}

impl Plan {
    /// Decides about each candidate separately. Once the plan is executed, another plan over the same orders decides
    /// nothing more.
    pub(super) fn new(
        candidates: Vec<Candidate>,
        mut policy: Policy<'_, impl Iterator<Item = Millis>>,
        now: Timestamp,
    ) -> Self {
        let mut plan = Self::default();
        for candidate in candidates {
            let (read, untaken) = match candidate {
                Candidate::Gone => {
                    plan.left += 1;
                    continue;
                }
                Candidate::Unread(subject, why) => {
                    plan.unread.push((Some(subject), why));
                    continue;
                }
                Candidate::Read(read, untaken) => (read, untaken),
            };
            let oldest = [plan.oldest_due, read.order.due];
            plan.oldest_due = oldest.into_iter().flatten().min();
            if policy.refusing.concerns(&read.order) {
                plan.deferred.push(read.order);
                continue;
            }
            let untaken = match untaken {
                Ok(untaken) => untaken,
                Err(why) => {
                    plan.unread.push((None, why));
                    continue;
                }
            };
            let waits = read.order.state.locked_by().is_none();
            let rest = waits.then(|| policy.rests.next()).flatten();
            let rest = rest.unwrap_or_default();
            // No retry after a lost race: the process that won handles the order.
            let mut pass = Pass::new(WriterOrder::Beside, 0);
            let event = Event::Overdue(Overdue { untaken, rest });
            let breaches = pass.decide(read.clone(), Source::Record, event, policy.timing, now);
            match pass.task() {
                Task::Ended(PassEnd::Ignored(_) | PassEnd::Refused(_)) => plan.left += 1,
                _ => plan.carry_out.push(Due {
                    read,
                    pass,
                    rest,
                    breaches,
                }),
            }
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use triad_core::outbox::Emission;
    use triad_core::status::Status;
    use triad_core::{Accepted, Failure, FailureKind, OrderId, ProcessState};
    use triad_workflow::{Limits, Workflow};

    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);
    const REFUSED: &str = "reply.shop";

    /// An unclaimed order, submitted at this moment.
    fn order(id: &str, submitted_at: u64) -> Snapshot {
        let definition = json!({"workflow": "w", "steps": [
            {"id": "pay", "agent": "bank", "action": "take", "compensation": "none"}]});
        let definition = serde_json::from_value(definition).expect("a definition");
        let workflow = Workflow::compile(definition, &Limits::published()).expect("it is sound");
        let due = submitted_at + Timing::default().announce_within.0;
        let accepted: Accepted = serde_json::from_value(json!({
            "order_id": id, "workflow": format!("w@{}", workflow.hash),
            "submitted_at": submitted_at, "due": due, "details": {}}))
        .expect("it is accepted");
        let order = Order::new(&accepted, &workflow, Timestamp(due));
        Snapshot {
            order: Arc::new(order),
            workflow: Arc::new(workflow),
            details: None,
        }
    }

    fn read(read: Snapshot) -> Candidate {
        Candidate::Read(read, Ok(Untaken::new()))
    }

    /// An order that has stopped, and whose last status goes to a topic that refuses it.
    fn refused() -> Candidate {
        let mut stopped = order("refused", 1_000);
        let cause = Failure::new(FailureKind::Permanent, "refused", "");
        let next = Arc::make_mut(&mut stopped.order);
        next.reply_topic = Some(REFUSED.to_owned());
        next.state = ProcessState::Error {
            at: Timestamp(2_000),
            cause: cause.clone(),
        };
        next.outbox.entries = vec![Emission::Status {
            sequence: 2,
            status: Status::Failed,
            step: None,
            at: Timestamp(2_000),
            cause: Some(cause),
        }];
        read(stopped)
    }

    fn plan(candidates: Vec<Candidate>) -> Plan {
        let refusing = Refusing([REFUSED.to_owned()].into());
        let policy = Policy {
            timing: Timing::default(),
            refusing: &refusing,
            rests: std::iter::repeat(Millis(60_000)),
        };
        Plan::new(candidates, policy, NOW)
    }

    /// Numbers of left, unread, deferred and executed candidates.
    fn sizes(plan: &Plan) -> [usize; 4] {
        let (unread, deferred) = (plan.unread.len(), plan.deferred.len());
        [plan.left, unread, deferred, plan.carry_out.len()]
    }

    #[test]
    fn each_candidate_is_in_exactly_one_bucket() {
        let down = || StoreError::Transient("down".into());
        let id = OrderId::new("unread").expect("an id");
        let each = [
            (Candidate::Gone, [1, 0, 0, 0]),
            (read(order("new", NOW.0)), [1, 0, 0, 0]),
            (Candidate::Unread(Subject::Order(id), down()), [0, 1, 0, 0]),
            (
                Candidate::Read(order("unasked", 1_000), Err(down())),
                [0, 1, 0, 0],
            ),
            (refused(), [0, 0, 1, 0]),
            (read(order("overdue", 1_000)), [0, 0, 0, 1]),
        ];
        for (candidate, bucket) in &each {
            assert_eq!(
                sizes(&plan(vec![candidate.clone()])),
                *bucket,
                "{candidate:?}"
            );
        }
        let all = each.into_iter().map(|(candidate, _)| candidate);
        let all = plan(all.collect());
        assert_eq!(sizes(&all), [2, 2, 1, 1], "none hides another");
        assert_eq!(all.carry_out[0].read.order.id.to_string(), "overdue");
    }

    #[test]
    fn what_was_carried_out_is_left_by_the_next_plan() {
        let overdue = ["a", "b", "c"].map(|id| read(order(id, 1_000)));
        let first = plan(overdue.into());
        let written = first.carry_out.iter().map(|due| match due.pass.task() {
            Task::Write { next, .. } => read(Snapshot {
                order: next.clone(),
                ..due.read.clone()
            }),
            other => panic!("{other:?}"),
        });
        let second = plan(written.collect());
        assert_eq!(sizes(&second), [3, 0, 0, 0]);
    }
}
