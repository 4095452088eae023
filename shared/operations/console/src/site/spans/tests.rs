//! Spans of orders that are made by hand, compared by value.

use serde_json::{Value, json};
use triad_core::order::{Dropped, Incident, IncidentKind, OperatorAct};
use triad_core::{
    Applied, Attempt, Direction, Failure, FailureKind, Order, Out, ProcessState, StepState,
    Timestamp, Work,
};
use triad_workflow::{Limits, Workflow};

use super::{Kind, of_order, of_step};

/// A new order of one step, submitted at 0.
pub(in crate::site) fn order() -> Order {
    let definition = json!({"workflow": "w", "steps": [{"id": "a", "agent": "bank",
        "action": "do", "compensation": {"action": "back"}}]});
    let definition = serde_json::from_value(definition).expect("a definition");
    let workflow = Workflow::compile(definition, &Limits::published()).expect("it is sound");
    let accepted = json!({"order_id": "1", "workflow": format!("w@{}", workflow.hash),
        "submitted_at": 0, "due": 1, "details": {}});
    let accepted = serde_json::from_value(accepted).expect("an order");
    Order::new(&accepted, &workflow, Timestamp(0))
}

/// A timeline line for an attempt at the step.
pub(in crate::site) fn line(
    what: IncidentKind,
    attempt: u32,
    (from, to): (u64, u64),
    calls: Option<u32>,
) -> Incident {
    let failure = Failure::new(FailureKind::Transient, "x", "y");
    Incident {
        step: Some(order().steps[0].step.clone()),
        attempt: Some(Attempt(attempt)),
        started: Some(Timestamp(from)),
        calls,
        failure: Some(failure),
        ..Incident::new(what, Timestamp(to))
    }
}

fn completed(attempt: u32, (from, to): (u64, u64)) -> StepState {
    StepState::Completed {
        attempt: Attempt(attempt),
        started: Some(Timestamp(from)),
        finished: Timestamp(to),
        position: 0,
        output: Value::Null.into(),
    }
}

fn compensating(work: Work) -> StepState {
    let applied = Applied {
        position: Some(0),
        output: Value::Null.into(),
    };
    StepState::Compensating { work, applied }
}

fn out(direction: Direction, attempt: u32, started: u64) -> Work {
    Work::Out(Out {
        direction,
        attempt: Attempt(attempt),
        started: Timestamp(started),
        complete_by: Timestamp(9_999),
        deferred_since: None,
        unheard_since: None,
    })
}

type Shown = (Kind, u64, u64, String, Option<u32>);

/// The spans of the step at 1000.
fn shown(order: &Order) -> Vec<Shown> {
    let spans = of_step(order, &order.steps[0], Timestamp(1_000));
    let spans = spans.into_iter();
    spans
        .map(|span| (span.kind, span.from.0, span.to.0, span.say, span.calls))
        .collect()
}

fn span(kind: Kind, from: u64, to: u64, say: &str, calls: Option<u32>) -> Shown {
    (kind, from, to, say.to_owned(), calls)
}

#[test]
fn an_attempt_that_ended_well_has_the_calls_that_the_earlier_ones_leave() {
    let mut order = order();
    order.incidents = vec![line(IncidentKind::AttemptFailed, 1, (10, 100), Some(3))];
    order.steps[0].state = completed(2, (150, 200));
    order.steps[0].action.made = 5;
    let failed = span(Kind::Attempt, 10, 100, "attempt 1: transient/x: y", Some(3));
    let waited = span(Kind::Wait, 100, 150, "waited for its next attempt", None);
    let well = |calls| span(Kind::Attempt, 150, 200, "attempt 2: completed", calls);
    assert_eq!(shown(&order), [failed, waited, well(Some(2))]);
    // The calls of the first attempt are unknown, so those of the second one are, too.
    order.incidents[0].calls = None;
    assert_eq!(shown(&order)[2], well(None));
    // The first attempt's line was dropped: the span before the second one is unknown.
    order.incidents.clear();
    assert_eq!(shown(&order), [well(None)]);
}

#[test]
fn a_step_was_deferred_from_the_attempt_that_said_so_to_the_next_one() {
    let mut order = order();
    let mut deferred = line(IncidentKind::Deferred, 1, (10, 20), None);
    deferred.through = Some(Attempt(4));
    order.incidents = vec![deferred];
    order.steps[0].state = StepState::Acting(out(Direction::Forward, 5, 300));
    let say = "attempt 1 deferred: transient/x: y";
    let attempt = span(Kind::Attempt, 10, 20, say, None);
    let wait = |to| {
        span(
            Kind::Deferred,
            20,
            to,
            "deferred after attempts 1 to 4",
            None,
        )
    };
    let next = span(Kind::Attempt, 300, 1_000, "attempt 5: waited for", None);
    assert_eq!(shown(&order), [attempt.clone(), wait(300), next]);
    order.steps[0].state = StepState::Acting(Work::Deferred {
        attempt: Attempt(4),
        until: Timestamp(2_000),
        deferred_since: Timestamp(300),
    });
    assert_eq!(shown(&order), [attempt, wait(1_000)]);
}

#[test]
fn a_wait_that_was_counted_as_failed_is_no_attempt() {
    let mut order = order();
    order.incidents = vec![
        line(IncidentKind::Deferred, 1, (10, 20), None),
        line(IncidentKind::AttemptFailed, 1, (20, 500), None),
    ];
    order.steps[0].state = StepState::Acting(Work::due(Attempt(1)));
    let first = "attempt 1 deferred: transient/x: y";
    let say = "attempt 1: deferred for too long: transient/x: y";
    let expected = [
        span(Kind::Attempt, 10, 20, first, None),
        span(Kind::Deferred, 20, 500, say, None),
        span(Kind::Wait, 500, 1_000, "waits for its next attempt", None),
    ];
    assert_eq!(shown(&order), expected);
}

#[test]
fn a_step_waits_for_its_compensation_from_when_that_of_the_order_began() {
    let mut order = order();
    order.incidents = vec![
        line(IncidentKind::Completed, 1, (10, 20), None),
        Incident::new(IncidentKind::CompensationBegan, Timestamp(300)),
    ];
    order.incidents[0].failure = None;
    order.steps[0].state = compensating(Work::due(Attempt(0)));
    let done = span(Kind::Attempt, 10, 20, "attempt 1: completed", None);
    let waits = span(Kind::Wait, 300, 1_000, "waits for its compensation", None);
    assert_eq!(shown(&order), [done.clone(), waits]);
    order.steps[0].state = compensating(out(Direction::Compensate, 1, 700));
    let waited = span(Kind::Wait, 300, 700, "waited for its compensation", None);
    let say = "compensation attempt 1: waited for";
    let asked = span(Kind::Attempt, 700, 1_000, say, None);
    assert_eq!(shown(&order), [done, waited, asked]);
}

#[test]
fn until_an_operator_has_it_done_again_a_step_of_a_stopped_order_waits_for_nothing() {
    let mut order = order();
    order.incidents = vec![
        line(IncidentKind::AttemptFailed, 1, (10, 20), Some(1)),
        Incident {
            act: Some(OperatorAct::new("ann", "w")),
            ..Incident::new(IncidentKind::Resubmitted, Timestamp(800))
        },
    ];
    order.steps[0].state = StepState::Acting(out(Direction::Forward, 2, 850));
    let waited = span(Kind::Wait, 800, 850, "waited for its next attempt", None);
    assert_eq!(shown(&order)[1], waited);
    order.incidents.pop();
    order.steps[0].state = StepState::Acting(Work::due(Attempt(1)));
    order.state = ProcessState::Error {
        at: Timestamp(20),
        cause: Failure::new(FailureKind::Permanent, "x", "y"),
    };
    assert_eq!(shown(&order).len(), 1);
}

#[test]
fn an_order_has_waited_from_its_submission_to_its_first_attempt() {
    let waits = |order: &Order| {
        let spans = of_order(order, "none", Timestamp(1_000));
        let waits = spans.into_iter().filter(|span| span.kind == Kind::Wait);
        waits
            .map(|span| (span.from.0, span.to.0))
            .collect::<Vec<_>>()
    };
    let mut order = order();
    assert_eq!(waits(&order), [(0, 1_000)]);
    order.steps[0].state = completed(1, (150, 200));
    assert_eq!(waits(&order), [(0, 150)]);
    order.dropped = Some(Dropped {
        lines: 1,
        latest: Timestamp(100),
    });
    assert_eq!(waits(&order), []);
}
