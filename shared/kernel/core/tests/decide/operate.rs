//! Operators' acts: cancel, retry a compensation, close; and which acts each state refuses.

use triad_core::order::IncidentKind;
use triad_core::outbox::Writer;
use triad_core::status::Status;
use triad_core::{
    Action, CampaignId, Direction, Event, FailureKind, Operation, OperationRefusal, OperatorAct,
    Overdue, Reason,
};

use crate::support::{
    FORK, LINE, ONCE, Story, Then, counted, done, failed, failed_cleanly, refused,
};

/// Three steps; the second, `pivot`, is the point of no return.
const PIVOT: &str = r#"{"workflow": "pivot", "defaults": {"attempt_timeout": "10s", "supervisor": {"failure_threshold": 1}}, "steps": [
    {"id": "a", "agent": "x", "action": "go", "compensation": {"action": "compensate"}},
    {"id": "pivot", "agent": "x", "action": "go", "point_of_no_return": true},
    {"id": "z", "agent": "x", "action": "go"}]}"#;

/// An order in CompensationFailed: the compensation of `a` has failed.
fn half_compensated() -> Story {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").refuse("b").overdue().claim();
    s.answer("a", failed()).overdue();
    assert_eq!(s.state(), "CompensationFailed");
    s
}

fn stopped() -> Story {
    let w = LINE.replace(
        "\"failure_threshold\": 1",
        "\"failure_threshold\": 1, \"then\": \"error\"",
    );
    let mut s = Story::of(&w).claimed();
    s.succeed("a").refuse("b");
    s
}

#[test]
fn a_cancelled_order_is_compensated() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").sent().acts(Action::Cancel);
    assert_eq!(
        (s.state(), s.order.state.locked_by()),
        ("Compensating", None)
    );
    assert_eq!(s.asks(), [], "an operator starts nothing");
    assert!(s.announces());
    assert_eq!(s.statuses(), [(3, Status::Compensating)]);
    s.claim().succeed("b").succeed("a");
    assert_eq!(s.state(), "Compensated");
}

#[test]
fn its_cause_is_the_operators_and_the_timeline_says_who_and_why() {
    let mut s = Story::of(LINE).claimed();
    s.acts(Action::Cancel);
    let cause = s.order.state.cause().unwrap();
    assert_eq!(
        (cause.kind, cause.code.as_str()),
        (FailureKind::Operator, "cancelled")
    );
    assert_eq!(cause.message, "because");
    assert_eq!(
        s.timeline(),
        [
            IncidentKind::Cancelled,
            IncidentKind::Abandoned,
            IncidentKind::CompensationBegan
        ]
    );
    assert_eq!(
        s.order.incidents[0].act,
        Some(OperatorAct::new("ann", "because"))
    );
}

#[test]
fn an_order_that_nobody_has_taken_up_can_be_cancelled() {
    let mut s = Story::of(LINE);
    s.acts(Action::Cancel);
    assert_eq!(
        s.statuses(),
        [(1, Status::Received), (2, Status::Compensating)]
    );
    s.claim();
    assert_eq!(s.state(), "Compensated");
    assert_eq!(s.statuses().last(), Some(&(3, Status::Compensated)));
}

#[test]
fn what_runs_when_the_order_is_cancelled_is_compensated_and_its_reply_changes_nothing() {
    let mut s = Story::of(&counted(FORK)).claimed();
    let reply = s.reply("p", done());
    s.deferred("q", 60_000).acts(Action::Cancel);
    assert_eq!(
        s.steps()[..2],
        [("p", "compensation-due"), ("q", "refused")]
    );
    let then = s.when(Event::Reply(reply));
    assert_eq!(then, Then::Ignored(Reason::NotAwaited));
}

#[test]
fn a_failure_that_waits_to_be_retried_is_compensated_only_in_doubt() {
    for (outcome, state) in [
        (failed(), "compensation-due"),
        (failed_cleanly(), "refused"),
    ] {
        let mut s = Story::of(&counted(FORK)).claimed();
        s.answer("p", outcome).overdue().acts(Action::Cancel);
        assert_eq!(s.steps()[0], ("p", state));
    }
}

#[test]
fn where_calls_are_not_counted_one_deliverys_word_is_no_proof_that_nothing_happened() {
    let mut s = Story::of(FORK).claimed();
    s.answer("p", failed_cleanly()).deferred("q", 60_000);
    s.overdue().acts(Action::Cancel);
    assert_eq!(
        s.steps()[..2],
        [("p", "compensation-due"), ("q", "compensation-due")]
    );
    let mut s = Story::of(PIVOT).claimed();
    s.succeed("a").answer("pivot", failed_cleanly());
    let pivot = OperationRefusal::PastPivot("pivot".to_owned().try_into().unwrap());
    assert_eq!(s.tries(Action::Cancel), Then::Refused(pivot));
}

#[test]
fn a_stopped_order_can_be_cancelled_and_keeps_its_alert() {
    let mut s = stopped();
    s.acts(Action::Cancel);
    assert!(s.alerts(), "it may not have gone out");
    assert_eq!(
        s.statuses(),
        [
            (2, Status::Started),
            (3, Status::Failed),
            (4, Status::Compensating)
        ]
    );
    s.claim();
    assert_eq!(s.asks(), [("a".into(), Direction::Compensate, 1)]);
}

#[test]
fn from_the_point_of_no_return_on_an_order_cannot_be_cancelled() {
    let pivot = || OperationRefusal::PastPivot("pivot".to_owned().try_into().unwrap());
    let mut s = Story::of(PIVOT).claimed();
    s.succeed("a");
    assert_eq!(s.tries(Action::Cancel), Then::Refused(pivot()), "it runs");
    s.answer("pivot", failed()).overdue();
    assert_eq!(s.tries(Action::Cancel), Then::Refused(pivot()), "in doubt");
    s.claim().succeed("pivot");
    assert_eq!(s.tries(Action::Cancel), Then::Refused(pivot()), "done");
    s.refuse("z");
    assert_eq!(s.state(), "Error");
    assert_eq!(s.tries(Action::Cancel), Then::Refused(pivot()));
}

#[test]
fn an_order_whose_point_of_no_return_has_had_no_effect_can_be_cancelled() {
    let mut s = Story::of(&counted(PIVOT)).claimed();
    s.acts(Action::Cancel);
    for outcome in [refused(false), failed_cleanly()] {
        let mut s = Story::of(&counted(PIVOT)).claimed();
        s.succeed("a").answer("pivot", outcome);
        s.acts(Action::Cancel).claim();
        assert_eq!(s.asks(), [("a".into(), Direction::Compensate, 1)]);
    }
    let mut s = Story::of(&counted(PIVOT)).claimed();
    s.succeed("a")
        .deferred("pivot", 60_000)
        .acts(Action::Cancel);
    assert_eq!(s.steps()[1], ("pivot", "refused"));
}

#[test]
fn a_point_of_no_return_that_was_skipped_is_passed() {
    let w = PIVOT.replace(
        "\"point_of_no_return\"",
        "\"when\": \"false\", \"point_of_no_return\"",
    );
    let mut s = Story::of(&w).claimed();
    s.succeed("a");
    assert_eq!(s.steps()[1..], [("pivot", "skipped"), ("z", "running")]);
    let then = s.tries(Action::Cancel);
    assert!(
        matches!(then, Then::Refused(OperationRefusal::PastPivot(_))),
        "{then:?}"
    );
}

#[test]
fn cancelled_with_an_effect_in_doubt_that_may_not_be_repeated_it_is_half_compensated() {
    let mut s = Story::of(ONCE).claimed();
    s.succeed("a").acts(Action::Cancel).claim();
    assert_eq!(s.state(), "CompensationFailed");
    assert!(s.alerts());
    let cause = s.order.state.cause().unwrap();
    assert_eq!(cause.fingerprint(), "ambiguous/once/in-doubt");
}

#[test]
fn a_failed_compensation_is_tried_again_with_its_failures_counted_from_zero() {
    let mut s = half_compensated();
    s.when(Event::Confirmed);
    s.acts(Action::RetryCompensation);
    assert_eq!((s.state(), s.order.run), ("Compensating", 1));
    assert_eq!(
        (
            s.record("a").compensation.failures,
            s.compensation_calls("a")
        ),
        (0, 0)
    );
    assert!(s.announces());
    assert_eq!(s.statuses(), [(5, Status::Compensating)]);
    s.claim();
    let request = &s.requests()[0];
    assert_eq!(
        (request.attempt.0, request.idempotency_key.0.as_str()),
        (3, "o-1/a/compensate")
    );
    s.succeed("a");
    assert_eq!(s.state(), "Compensated");
}

#[test]
fn its_cause_is_again_why_it_is_compensated() {
    let mut s = half_compensated();
    assert_eq!(s.order.state.cause().unwrap().code, "http-503");
    s.acts(Action::RetryCompensation);
    assert_eq!(s.order.state.cause().unwrap().code, "out-of-stock");
}

#[test]
fn an_alert_of_a_failed_compensation_is_carried_when_it_is_tried_again() {
    let mut s = half_compensated();
    s.acts(Action::RetryCompensation);
    assert!(s.alerts());
    s.sent().claim();
    assert!(!s.alerts());
}

#[test]
fn retried_and_failing_again_it_is_half_compensated_again_with_an_alert() {
    let mut s = half_compensated();
    s.acts(Action::RetryCompensation)
        .sent()
        .claim()
        .overdue()
        .claim()
        .overdue();
    assert_eq!(s.state(), "CompensationFailed");
    assert!(s.alerts());
}

#[test]
fn of_two_failed_compensations_both_are_tried_again() {
    let w = FORK.replace(
        "\"failure_threshold\": 3, \"delay\": \"4s\", \"max_delay\": \"10s\"",
        "\"failure_threshold\": 0",
    );
    let mut s = Story::of(&w).claimed();
    s.succeed("p").succeed("q").refuse("join");
    s.answer("p", failed()).overdue();
    assert_eq!(s.state(), "Compensating", "q is still out");
    assert_eq!(
        s.steps()[..2],
        [("p", "not-compensated"), ("q", "compensating")]
    );
    assert!(s.order.state.locked_by().is_some());
    s.answer("q", failed()).overdue();
    assert_eq!(s.state(), "CompensationFailed");
    s.acts(Action::RetryCompensation).claim();
    assert_eq!(s.asks().len(), 2);
}

#[test]
fn the_supervisor_gives_up_one_compensation_and_the_one_beside_it_ends_the_order() {
    let w = FORK.replace(
        "\"failure_threshold\": 3, \"delay\": \"4s\", \"max_delay\": \"10s\"",
        "\"failure_threshold\": 0",
    );
    let mut s = Story::of(&w).claimed();
    s.succeed("p").succeed("q").refuse("join");
    s.answer("p", failed()).overdue().succeed("q");
    assert_eq!(s.state(), "CompensationFailed");
    assert_eq!(
        s.steps()[..2],
        [("p", "not-compensated"), ("q", "compensated")]
    );
    assert_eq!(
        s.order.state.cause().unwrap().fingerprint(),
        "transient/p/http-503"
    );
    s.acts(Action::RetryCompensation).claim();
    assert_eq!(s.asks(), [("p".into(), Direction::Compensate, 2)]);
}

#[test]
fn a_closed_order_stays_what_it_is_and_says_who_and_why() {
    for mut s in [stopped(), half_compensated()] {
        let before = s.order.clone();
        s.after(9).acts(Action::Close);
        let closed = s.order.closed.as_ref().unwrap();
        assert_eq!((closed.at, closed.act.why.as_str()), (s.now, "because"));
        assert_eq!(s.timeline().last(), Some(&IncidentKind::Closed));
        assert_eq!((&s.order.state, s.order.due), (&before.state, before.due));
        assert_eq!(s.order.sequence, before.sequence);
        let then = s.tries(Action::Close);
        assert_eq!(then, Then::Refused(OperationRefusal::Already("closed")));
    }
}

#[test]
fn closing_loses_no_alert() {
    let mut s = stopped();
    s.acts(Action::Close);
    assert!(s.alerts());
    assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Repeat);
    assert_eq!(s.when(Event::Confirmed), Then::Written);
    let mut s = stopped();
    s.when(Event::Confirmed);
    s.acts(Action::Close);
    assert_eq!(
        (s.alerts(), s.order.due),
        (false, None),
        "nothing more to say"
    );
}

#[test]
fn what_was_closed_can_be_taken_up_again() {
    let mut s = stopped();
    s.acts(Action::Close).resubmit();
    assert_eq!(s.order.closed, None);
    let mut s = stopped();
    s.acts(Action::Close).acts(Action::Cancel);
    assert_eq!(s.order.closed, None);
    let mut s = half_compensated();
    s.acts(Action::Close).acts(Action::RetryCompensation);
    assert_eq!(s.order.closed, None);
}

#[test]
fn every_write_of_an_operator_is_by_an_operator() {
    let mut s = Story::of(LINE).claimed();
    s.acts(Action::Pause);
    assert_eq!(s.order.outbox.writer, Writer::Operator);
    assert_eq!(s.order.outbox.dedup_key, None);
}

#[test]
fn an_input_met_again_after_an_operators_act_finds_its_work_done() {
    let mut s = Story::of(LINE).claimed();
    let reply = s.reply("a", done());
    s.succeed("a").acts(Action::Pause);
    let then = s.when(Event::Reply(reply));
    assert_eq!(then, Then::Ignored(Reason::NotAwaited));
    assert!(s.step("b").is_running());
}

#[test]
fn a_campaign_acts_once_on_an_order() {
    let act = |campaign| OperatorAct::new("ann", "it is mended").within(CampaignId::new(campaign));
    let resubmit = |campaign| {
        Event::Operate(Operation {
            action: Action::Resubmit { input: None },
            act: act(campaign),
        })
    };
    let mut s = stopped();
    assert_eq!(s.when(resubmit(7)), Then::Written);
    assert_eq!(s.order.campaign, Some(CampaignId::new(7)));
    let refusal = OperationRefusal::ActedOn(CampaignId::new(7));
    assert_eq!(s.when(resubmit(7)), Then::Refused(refusal));
    // The order has been acted on by one campaign. Another campaign may act on it, and so may an operator alone.
    let then = s.when(Event::Operate(Operation {
        action: Action::Cancel,
        act: act(8),
    }));
    assert_eq!(
        (then, s.order.campaign.clone()),
        (Then::Written, Some(CampaignId::new(8)))
    );
    // The first campaign, stopped and resumed, may not act on the order a second time.
    let refusal = OperationRefusal::ActedOn(CampaignId::new(7));
    assert_eq!(s.when(resubmit(7)), Then::Refused(refusal));
}
