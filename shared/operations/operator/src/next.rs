//! The next events of an order: what happens, when, and who acts.

use serde::Serialize;
use triad_core::children::{ChildState, Children};
use triad_core::outbox::Emission;
use triad_core::{Direction, Order, ProcessState, StepRecord, StepState, Timestamp, Timing, Work};
use triad_workflow::StepId;

/// One thing that is to happen to an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NextAct {
    /// When it happens, or by when at the latest, in milliseconds since the Unix epoch. `None` if no time is
    /// set for it, as for an act of an operator.
    pub at: Option<Timestamp>,
    /// What happens, in one line for a person. The text is no contract.
    pub what: String,
    /// Commands of an operator that the order takes now, by name; empty if none is needed.
    pub acts: &'static [&'static str],
}

fn next(at: Option<Timestamp>, what: impl Into<String>) -> NextAct {
    NextAct {
        at,
        what: what.into(),
        acts: &[],
    }
}

fn for_an_operator(what: impl Into<String>, acts: &'static [&'static str]) -> NextAct {
    NextAct {
        at: None,
        what: what.into(),
        acts,
    }
}

/// What happens next to an order, soonest first and what has no time last: one thing for each step that is
/// worked on, what becomes of the order as a whole, and its deadline. A paused order, and one that is set
/// aside, has one thing. Never empty. `timing` is the installation's.
#[must_use]
pub fn of(order: &Order, timing: &Timing) -> Vec<NextAct> {
    if let Some(hold) = &order.paused {
        let what = format!("waits until it is resumed: {} has paused it", hold.act.by);
        return vec![for_an_operator(what, &["resume"])];
    }
    if order.set_aside.is_some() {
        let what = "waits until its workflow has room for one more order in flight";
        return vec![next(None, what)];
    }
    // The rest of a finished order waits for an operator.
    let worked_on = order.steps.iter().filter(|_| !order.state.is_finished());
    let of_step = |record| match of_children(record) {
        None => of_step(record, timing),
        waits => waits,
    };
    let mut all: Vec<NextAct> = worked_on.filter_map(of_step).collect();
    all.extend(of_order(order));
    let closing = all.iter_mut().find(|next| next.acts.contains(&"close"));
    if let (Some(closing), Some(parent)) = (closing, &order.parent) {
        let parent = &parent.order_id;
        let told = format!(". Closing it tells its parent order {parent} that it has no effect");
        closing.what.push_str(&told);
    }
    if let Some(deadline) = order.deadline
        && !order.state.is_finished()
        && order.late_since.is_none()
    {
        let what = "the deadline of the order: beyond it, it is compensated, or late if its point of no return may have happened";
        all.push(next(Some(deadline), what));
    }
    all.sort_by_key(|n| n.at.map_or(u64::MAX, |at| at.0));
    all
}

/// What happens to a step whose child orders are under way.
fn of_children(record: &StepRecord) -> Option<NextAct> {
    let children = record.children.as_ref()?;
    let (step, waited_for) = (&record.step, waited_for(children));
    if record.lets_go() {
        let what = format!(
            "{step} is completed and has let {waited_for} go. They are asked again then: the order does not end before they are compensated"
        );
        return Some(next(record.awaited_until(), what));
    }
    let work = record.state.work()?;
    match work {
        Work::Parked { until, .. } => {
            let what = format!(
                "{step} waits for {waited_for}, and asks for them again then. If one of them needs an operator, its own record alone says so: triad list --parent, with the id of this order, finds it"
            );
            Some(next(Some(*until), what))
        }
        Work::Due { .. } => {
            let what =
                format!("{step} goes on with {waited_for} as soon as Triad takes the order up");
            Some(next(None, what))
        }
        _ => None,
    }
}

/// `3 of its 40 child orders`.
fn waited_for(children: &Children) -> String {
    let is_out =
        |is: &ChildState| matches!(is, ChildState::Running | ChildState::Compensating { .. });
    let is_waiting = |is: &ChildState| matches!(is, ChildState::Waiting);
    let out = children.count(is_out);
    let waiting = match children.count(is_waiting) {
        0 => String::new(),
        more => format!(", with {more} yet to start"),
    };
    match (children.is_list, children.all.len()) {
        (false, _) => "its child order".to_owned(),
        (true, all) => format!("{out} of its {all} child orders{waiting}"),
    }
}

fn of_step(record: &StepRecord, timing: &Timing) -> Option<NextAct> {
    let step = &record.step;
    let work = record.state.work()?;
    let attempt = match record.direction() {
        Direction::Compensate => "compensation attempt",
        Direction::Forward | Direction::Probe => "attempt",
    };
    Some(match work {
        Work::Out(out) => {
            let until = out.complete_by.plus(timing.skew);
            let attempt = match out.direction {
                Direction::Probe => "probe, attempt",
                Direction::Forward | Direction::Compensate => attempt,
            };
            let what = format!(
                "{step}: {attempt} {} is waited for; beyond this time it counts as lost",
                out.attempt
            );
            next(Some(until), what)
        }
        Work::Deferred {
            attempt: last,
            until,
            ..
        } => {
            let why = why_deferred(record);
            let what = format!(
                "{step} waits: {why}; {attempt} {} is made then",
                last.next()
            );
            next(Some(*until), what)
        }
        Work::Delayed { last, until, .. } => {
            let what = format!("{step}: {attempt} {} is made after a wait", last.next());
            next(Some(*until), what)
        }
        Work::Parked {
            until,
            ends,
            events,
            ..
        } => {
            let what = match (&record.in_progress, events.is_empty()) {
                (Some(work), _) if work.until <= *until => format!(
                    "{step}: its service has taken the work; if it has not finished by then, the step fails"
                ),
                (Some(_), _) => format!(
                    "{step}: its service has taken the work; then it is asked again, or looked after"
                ),
                (None, true) => format!("{step} waits until then"),
                (None, false) => format!(
                    "{step} waits for the event {}, at the latest until then",
                    events.join(", ")
                ),
            };
            next(Some(ends.unwrap_or(*until)), what)
        }
        Work::Failed { attempt: last, .. } => {
            let what = format!(
                "{step}: the next sweep counts the failure of {attempt} {last} and decides about another"
            );
            next(None, what)
        }
        Work::Due { last, .. } => {
            let what = format!(
                "{step}: {attempt} {} is made as soon as Triad takes the order up",
                last.next()
            );
            next(None, what)
        }
    })
}

/// Why a step is deferred, in a few words: `payment is down`, or the code of the failure.
fn why_deferred(record: &StepRecord) -> &str {
    let Some(failure) = &record.error else {
        return "deferred";
    };
    match &*failure.code {
        // The message of an open breaker begins with it; a record of an earlier version has no such message.
        "breaker-open" => match failure.message.split_once(": ") {
            Some((service, _)) if service.ends_with(" is down") => service,
            _ => &failure.code,
        },
        _ => &failure.code,
    }
}

/// Whether the order's last write sent a wake.
fn is_asked(order: &Order) -> bool {
    let mut entries = order.outbox.entries.iter();
    entries.any(|entry| matches!(entry, Emission::Wake))
}

fn of_order(order: &Order) -> Option<NextAct> {
    let in_doubt = order.steps.iter().any(triad_core::doubt::can_be_resolved);
    match &order.state {
        ProcessState::Pending { complete_by: None } => Some(next(
            None,
            "Triad starts it, as soon as what its first steps need has room",
        )),
        ProcessState::Pending {
            complete_by: Some(at),
        } if Some(*at) == order.start_at => Some(next(
            Some(*at),
            "Triad starts it: its application wants it no earlier",
        )),
        ProcessState::Pending {
            complete_by: Some(at),
        } => Some(match is_asked(order) {
            true => next(
                Some(*at),
                "Triad takes it up; if it has not by then, the next sweep sees to it",
            ),
            false => next(Some(*at), "the next sweep has Triad take it up"),
        }),
        ProcessState::Compensating {
            locked_by: None,
            complete_by,
            ..
        } => Some(next(
            Some(*complete_by),
            "Triad continues the compensation; if it has not by then, the next sweep sees to it",
        )),
        ProcessState::Processing(_) | ProcessState::Compensating { .. } => None,
        ProcessState::Processed { .. } => Some(next(None, "nothing: it is done")),
        ProcessState::Compensated { .. } if let Some(step) = left_in_doubt(order) => {
            let what = format!(
                "nothing until an operator acts. What has a compensation is compensated; {step} has none, and it is not known whether its effect happened: find out, and resolve it"
            );
            let acts: &[&str] = match &order.parent {
                None => &["resolve", "resubmit"],
                Some(_) => &["resolve"],
            };
            Some(for_an_operator(what, acts))
        }
        ProcessState::Compensated { .. } if let Some(parent) = &order.parent => {
            let what = format!(
                "nothing: its effects are compensated. To have it done again, resubmit its parent order {}",
                parent.order_id
            );
            Some(next(None, what))
        }
        ProcessState::Compensated { .. } => Some(for_an_operator(
            "nothing: its effects are compensated. It can be run again from the beginning",
            &["resubmit"],
        )),
        _ if order.closed.is_some() => Some(next(None, "nothing: an operator has closed it")),
        ProcessState::Error { .. } if in_doubt => Some(for_an_operator(
            "nothing until an operator acts. An effect is in doubt: if it may not be repeated, find out first whether it happened, and resolve it",
            &["resolve", "resubmit", "cancel", "close"],
        )),
        ProcessState::Error { .. } => Some(for_an_operator(
            "nothing until an operator resubmits, cancels or closes it",
            &["resubmit", "cancel", "close"],
        )),
        ProcessState::CompensationFailed { .. } if in_doubt => Some(for_an_operator(
            "nothing until an operator acts. An effect is in doubt: if it may not be repeated, find out first whether it happened, and resolve it",
            &["resolve", "retry-compensation", "close"],
        )),
        ProcessState::CompensationFailed { .. } => Some(for_an_operator(
            "nothing until an operator retries the compensation, or closes it",
            &["retry-compensation", "close"],
        )),
    }
}

/// The first step of a compensated order that has no compensation and whose effect is in doubt.
fn left_in_doubt(order: &Order) -> Option<&StepId> {
    let ambiguous =
        |s: &&StepRecord| s.in_doubt.is_some() && matches!(s.state, StepState::Ambiguous { .. });
    order.steps.iter().find(ambiguous).map(|s| &s.step)
}

/// Marks to show beside the process state: `begun` if a Pending order has made attempts before and waits to go on,
/// `in doubt` if a Compensated one has an effect that may be in place, and `paused`, `closed` and `late`.
#[must_use]
pub fn marks(order: &Order) -> Vec<&'static str> {
    let is_pending = matches!(order.state, ProcessState::Pending { .. });
    let is_compensated = matches!(order.state, ProcessState::Compensated { .. });
    let marks = [
        ("begun", is_pending && order.attempts() > 0),
        ("in doubt", is_compensated && left_in_doubt(order).is_some()),
        ("paused", order.paused.is_some()),
        ("closed", order.closed.is_some()),
        ("late", order.late_since.is_some()),
    ];
    marks.into_iter().filter(|m| m.1).map(|m| m.0).collect()
}

/// Why an order that has not finished does not go on at once, in a few words for people, such as
/// `charge-payment: payment is down`; `None` if it waits for nothing but an answer, or has
/// finished.
#[must_use]
pub fn waits_for(order: &Order) -> Option<String> {
    if order.state.is_finished() {
        return None;
    }
    if let Some(hold) = &order.paused {
        return Some(format!("paused by {}", hold.act.by));
    }
    if order.set_aside.is_some() {
        return Some("room under its workflow's cap".to_owned());
    }
    let mut steps = order.steps.iter();
    if let Some(record) = steps.find(|s| s.state.deferred_since().is_some()) {
        return Some(format!("{}: {}", record.step, why_deferred(record)));
    }
    let failed = order.steps.iter().find(|s| s.state.is_failed());
    if let Some(record) = failed {
        return Some(format!("{} failed, to be counted", record.step));
    }
    let due = |s: &&StepRecord| {
        matches!(
            s.state,
            StepState::Acting(Work::Due { .. } | Work::Delayed { .. })
        ) && s.children.is_none()
    };
    if let Some(record) = order.steps.iter().find(due) {
        return Some(format!("{} to be tried again", record.step));
    }
    let parked = order
        .steps
        .iter()
        .find_map(|record| match record.state.work() {
            Some(Work::Parked {
                events,
                until,
                ends,
                ..
            }) => Some((record, events, ends.as_ref().unwrap_or(until))),
            _ => None,
        });
    let parked = parked.map(|(record, events, until)| {
        let step = &record.step;
        match (&record.in_progress, events.is_empty()) {
            _ if let Some(children) = &record.children => match children.is_list {
                true => format!("{step}: its child orders"),
                false => format!("{step}: its child order"),
            },
            (Some(_), _) => format!("{step}: its service, which finishes the work later"),
            (None, true) => format!("{step}: its time, {}", crate::json::moment(*until)),
            (None, false) => format!("{step}: the event {}", events.join(", ")),
        }
    });
    let is_done = order.steps.iter().all(|record| record.state.is_done());
    let let_go = order
        .steps
        .iter()
        .find(|record| is_done && record.lets_go());
    let let_go = let_go.map(|record| format!("{}: the ways that it has let go", record.step));
    match (parked.or(let_go), &order.state) {
        (Some(parked), _) => Some(parked),
        (None, ProcessState::Pending { complete_by }) => match complete_by {
            None => Some("its first claim".to_owned()),
            Some(at) if Some(*at) == order.start_at => {
                Some(format!("its start, {}", crate::json::moment(*at)))
            }
            Some(_) => None,
        },
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use triad_core::{
        Accepted, Attempt, Doubt, Failure, FailureKind, OrderId, Priority, WorkflowRef,
    };
    use triad_workflow::{Limits, Workflow};

    use super::*;
    use crate::children::tests::{adopt, parent_of};

    fn order() -> Order {
        let definition = json!({"workflow": "w", "steps": [
            {"id": "tell", "agent": "x", "action": "go", "compensation": "none"}]});
        let definition = serde_json::from_value(definition).unwrap();
        let workflow = Workflow::compile(definition, &Limits::published()).unwrap();
        let accepted = Accepted {
            order_id: OrderId::new("o").unwrap(),
            workflow: WorkflowRef {
                name: workflow.name.clone(),
                hash: workflow.hash.clone(),
            },
            priority: Priority::Normal,
            reply_topic: None,
            traceparent: None,
            submitted_at: Timestamp(1),
            due: Timestamp(5_000),
            start_at: None,
            deadline: None,
            search: Vec::new(),
            parent: None,
            details: json!({}),
        };
        Order::new(&accepted, &workflow, accepted.due)
    }

    #[test]
    fn an_order_that_has_made_attempts_and_waits_is_marked() {
        let mut order = order();
        assert_eq!(marks(&order), [""; 0]);
        order.steps[0].state = StepState::Acting(Work::due(Attempt(1)));
        assert_eq!(marks(&order), ["begun"]);
    }

    #[test]
    fn a_compensated_order_with_an_effect_in_doubt_is_not_said_to_need_nothing() {
        let mut order = order();
        order.state = ProcessState::Compensated {
            at: Timestamp(9),
            cause: Failure::new(FailureKind::Permanent, "no", "no"),
        };
        let said = |order: &Order| of(order, &Timing::default())[0].clone();
        assert!(said(&order).what.contains("effects are compensated"));
        order.steps[0].state = StepState::Ambiguous {
            attempt: Attempt(1),
        };
        order.steps[0].in_doubt = Some(Doubt::default());
        assert_eq!(marks(&order), ["in doubt"]);
        let said = said(&order);
        assert!(said.what.contains("tell has none"), "{said:?}");
        assert_eq!(said.acts, ["resolve", "resubmit"]);
    }

    #[test]
    fn a_parent_says_for_how_many_child_orders_it_waits_and_how_to_find_them() {
        let order = parent_of("pprrww");
        let said = &of(&order, &Timing::default())[0];
        assert_eq!(said.at, Some(Timestamp(9)));
        for text in [
            "2 of its 6 child orders",
            "2 yet to start",
            "triad list --parent",
        ] {
            assert!(said.what.contains(text), "{said:?}");
        }
        assert_eq!(waits_for(&order).as_deref(), Some("ship: its child orders"));
        // Completed, with ways that are not known to be compensated.
        let mut order = parent_of("cpc");
        order.steps[0].state = StepState::Completed {
            attempt: Attempt(1),
            started: None,
            finished: Timestamp(8),
            position: 0,
            output: json!(1).into(),
        };
        let said = &of(&order, &Timing::default())[0];
        assert!(said.what.contains("has let 2 of its 3 child orders go"));
        let waits = waits_for(&order);
        assert_eq!(waits.as_deref(), Some("ship: the ways that it has let go"));
    }

    #[test]
    fn a_child_order_is_acted_on_with_its_parent_in_mind() {
        let mut order = order();
        adopt(&mut order);
        let cause = Failure::new(FailureKind::Permanent, "no", "no");
        let at = Timestamp(9);
        let said = |order: &Order| of(order, &Timing::default())[0].clone();
        order.state = ProcessState::Compensated {
            at,
            cause: cause.clone(),
        };
        assert!(said(&order).what.contains("resubmit its parent order p"));
        assert!(said(&order).acts.is_empty());
        order.state = ProcessState::Error { at, cause };
        assert!(said(&order).acts.contains(&"close"));
        assert!(
            said(&order)
                .what
                .contains("tells its parent order p that it has no effect")
        );
    }
}
