//! Child orders: started in waves, joined, asked for again, and compensated in reverse.

use serde_json::{Value, json};
use triad_core::children::{ChildEnd, ChildState, Parent};
use triad_core::order::IncidentKind;
use triad_core::outbox::Emission;
use triad_core::{Accepted, Action, Decision, Event, Failure, FailureKind, Order, Overdue, Reason};

use crate::support::{BEGIN, LINE, LINES, Story, Then};

fn lines(count: usize) -> Story {
    let lines: Vec<String> = (0..count).map(|n| format!("S-{n}")).collect();
    Story::with_details(LINES, json!({"amount": 7, "lines": lines}))
}

/// An order of `count` lines whose child orders have been asked for.
fn running(count: usize) -> Story {
    let mut s = lines(count).claimed();
    s.succeed("a");
    s
}

fn processed(output: Value) -> ChildEnd {
    ChildEnd::Processed { output }
}

fn no_effect() -> ChildEnd {
    ChildEnd::NoEffect {
        cause: Failure::new(FailureKind::Permanent, "out-of-stock", "none left"),
    }
}

fn asked(ids: &[&str], compensates: bool) -> Vec<(String, bool)> {
    ids.iter()
        .map(|id| ((*id).to_owned(), compensates))
        .collect()
}

/// Where the child orders are, in the letters of the stored form.
fn children(s: &Story) -> String {
    let children = serde_json::to_value(&s.record("b").children).expect("JSON");
    children["all"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn child_orders_are_started_in_waves_and_joined_in_the_order_of_the_list() {
    let mut s = running(3);
    assert_eq!(s.children_asked(), asked(&["o-1:b:0", "o-1:b:1"], false));
    let sent = s.messages().pop().expect("a message");
    let order: Value = serde_json::from_slice(&sent.value).expect("JSON");
    assert_eq!(order["details"], json!({"sku": "S-1", "n": 1, "of": 1}));
    assert_eq!(s.step("b").name(), "parked");
    s.child_ends("b", 1, processed(json!({"booking": "B-1"})));
    assert_eq!(s.children_asked(), asked(&["o-1:b:2"], false));
    let large = json!("x".repeat(5_000));
    s.child_ends("b", 2, processed(large.clone()));
    assert_eq!(s.children_asked(), []);
    s.child_ends("b", 0, processed(json!({"booking": "B-0"})));
    let joined = json!([{"booking": "B-0"}, {"booking": "B-1"}, large]);
    assert_eq!(s.step("b").output().and_then(|o| o.value()), Some(&joined));
    assert_eq!(s.requests()[0].input, joined);
    assert_eq!(s.failures("b"), 0);
    s.succeed("c");
    assert_eq!(s.state(), "Processed");
}

#[test]
fn a_new_run_begins_child_orders_anew_that_were_not_compensated() {
    let kept = LINES.replacen(
        "\"for_each\"",
        "\"compensation\": \"none\", \"for_each\"",
        1,
    );
    let details = json!({"amount": 7, "lines": ["S-0"]});
    let mut s = Story::with_details(&kept, details).claimed();
    s.succeed("a")
        .child_ends("b", 0, processed(json!({"booking": "B-0"})));
    s.refuse("c").succeed("a");
    assert_eq!((s.state(), children(&s).as_str()), ("Compensated", "p"));
    s.resubmit().claim().succeed("a");
    assert_eq!(s.children_asked(), asked(&["o-1:b:0~1"], false));
    s.child_ends("b", 0, processed(json!({"booking": "B-1"})));
    assert_eq!(s.requests()[0].input, json!([{"booking": "B-1"}]));
}

#[test]
fn an_empty_list_goes_on_and_what_is_no_list_or_too_long_does_not() {
    let mut s = running(0);
    assert_eq!(s.requests()[0].input, json!([]));
    s.succeed("c");
    for wrong in [json!(null), json!("S-1"), json!(vec![0; 501])] {
        let mut s = Story::with_details(LINES, json!({"lines": wrong})).claimed();
        s.succeed("a");
        assert_eq!(s.state(), "Compensating", "{wrong}");
        assert_eq!(s.children_asked(), []);
    }
}

#[test]
fn one_that_fails_has_the_others_compensated_in_reverse_and_no_more_started() {
    let mut s = running(4);
    s.child_ends("b", 0, processed(json!(0)));
    s.child_ends("b", 1, processed(json!(1)));
    assert_eq!(children(&s), "pprr");
    s.child_ends("b", 2, no_effect());
    assert_eq!(s.state(), "Compensating");
    let failure = s.order.state.cause().expect("a cause").clone();
    assert_eq!(failure.code, "out-of-stock");
    assert!(failure.message.contains("o-1:b:2"), "{}", failure.message);
    // The one that runs and the last that is Processed come first.
    assert_eq!(s.children_asked(), asked(&["o-1:b:3", "o-1:b:1"], true));
    s.child_ends("b", 3, no_effect());
    assert_eq!(s.children_asked(), asked(&["o-1:b:0"], true));
    s.child_ends("b", 0, no_effect())
        .child_ends("b", 1, no_effect());
    assert_eq!(s.asks().len(), 1, "then what came before");
    s.succeed("a");
    assert_eq!((s.state(), children(&s).as_str()), ("Compensated", "uufu"));
}

#[test]
fn as_many_may_fail_as_the_author_says() {
    let tolerant = LINES.replace("\"at_once\": 2", "\"at_once\": 2, \"tolerate\": 1");
    let details = json!({"lines": ["x", "y", "z"]});
    let mut s = Story::with_details(&tolerant, details).claimed();
    s.succeed("a").child_ends("b", 0, no_effect());
    s.child_ends("b", 1, processed(json!(1)));
    s.child_ends("b", 2, processed(json!(2)));
    assert_eq!(s.requests()[0].input, json!([null, 1, 2]));
    // Asking again for the others does not start the one that has failed anew.
    let details = json!({"lines": ["x", "y"]});
    let mut s = Story::with_details(&tolerant, details).claimed();
    s.succeed("a").child_ends("b", 0, no_effect());
    s.overdue_now().claim();
    assert_eq!(s.children_asked(), asked(&["o-1:b:1"], false));
    assert_eq!(children(&s), "fr");
}

#[test]
fn a_step_whose_child_orders_end_with_the_claim_that_fails_the_next_one_has_its_line() {
    let broken = LINES.replace(
        "\"${steps.b}\"",
        "{\"of\": \"${steps.b}\", \"n\": \"${details.amount + 1}\"}",
    );
    let details = json!({"amount": 7, "lines": ["x", "y"]});
    let mut s = Story::with_details(&broken, details).claimed();
    s.succeed("a").overdue_now();
    s.child_ends("b", 0, processed(json!(0)));
    s.child_ends("b", 1, processed(json!(1)));
    s.details["amount"] = json!("seven");
    s.claim();
    assert_eq!(s.children_asked(), asked(&["o-1:b:1", "o-1:b:0"], true));
    let done = |kind: &&IncidentKind| **kind == IncidentKind::Completed;
    assert_eq!(s.timeline().iter().filter(done).count(), 2);
}

#[test]
fn what_is_told_twice_late_or_of_another_changes_nothing() {
    let mut s = running(2);
    let end = s.child_end("b", 0, processed(json!(0)));
    assert_eq!(s.when(end.clone()), Then::Written);
    assert_eq!(s.when(end.clone()), Then::Repeat);
    s.child_ends("b", 1, processed(json!(1)));
    assert_eq!(s.when(end), Then::Ignored(Reason::Repeated));
    let mut s = running(2);
    let Event::ChildEnded(mut stray) = s.child_end("b", 0, processed(json!(0))) else {
        panic!("an end")
    };
    stray.parent.attempt = 3;
    assert_eq!(
        s.when(Event::ChildEnded(stray.clone())),
        Then::Ignored(Reason::NotAwaited)
    );
    stray.parent.number = 7;
    assert_eq!(
        s.when(Event::ChildEnded(stray)),
        Then::Ignored(Reason::NotAwaited)
    );
}

#[test]
fn ends_that_do_not_come_are_asked_for_more_and_more_rarely() {
    let mut s = running(2);
    let mut waits = Vec::new();
    for _ in 0..4 {
        let until = s.step("b").parked_until().expect("it is parked");
        waits.push(until.since(s.now).0 / 1000);
        s.overdue_now().claim();
        assert_eq!(s.children_asked(), asked(&["o-1:b:0", "o-1:b:1"], false));
        assert_eq!(s.record("b").state.attempt().map(|a| a.0), Some(1));
    }
    assert!(waits.windows(2).all(|w| w[1] >= w[0]), "{waits:?}");
    assert_eq!((waits[0], s.failures("b")), (60, 0));
    s.child_ends("b", 0, processed(json!(0)));
    s.child_ends("b", 1, processed(json!(1)));
    assert_eq!(s.state(), "Processing");
}

#[test]
fn details_that_have_no_value_when_they_are_made_again_end_the_step() {
    let summed = LINES.replace(
        "\"n\": \"${index}\"",
        "\"n\": \"${index + details.amount}\"",
    );
    let details = json!({"amount": 7, "lines": ["x", "y"]});
    let mut s = Story::with_details(&summed, details).claimed();
    s.succeed("a");
    s.overdue_now();
    s.details["amount"] = json!("seven");
    s.claim();
    assert_eq!((s.state(), children(&s).as_str()), ("Compensating", "cc"));
}

#[test]
fn an_end_that_comes_while_the_order_waits_for_a_claim_is_taken() {
    let mut s = running(3);
    s.overdue_now();
    assert_eq!((s.state(), s.step("b").name()), ("Pending", "retry-due"));
    s.child_ends("b", 0, processed(json!(0)));
    s.child_ends("b", 1, processed(json!(1)));
    assert_eq!(children(&s), "ppw");
    s.claim();
    assert_eq!(s.children_asked(), asked(&["o-1:b:2"], false));
    s.overdue_now();
    s.child_ends("b", 2, processed(json!(2)));
    s.claim();
    assert_eq!(s.requests()[0].input, json!([0, 1, 2]));
}

#[test]
fn a_paused_order_starts_no_child_order() {
    let mut s = running(3);
    s.acts(Action::Pause)
        .child_ends("b", 0, processed(json!(0)));
    assert_eq!((s.children_asked(), children(&s)), (vec![], "prw".into()));
    s.acts(Action::Resume).claim();
    assert_eq!(s.children_asked(), asked(&["o-1:b:1", "o-1:b:2"], false));
}

#[test]
fn a_cancel_goes_down_and_one_that_cannot_be_compensated_needs_an_operator() {
    let mut s = running(2);
    s.child_ends("b", 1, processed(json!(1)));
    s.acts(Action::Cancel).claim();
    assert_eq!(s.children_asked(), asked(&["o-1:b:1", "o-1:b:0"], true));
    // It had ended before the message reached it: that is not the answer.
    let end = s.child_end("b", 0, processed(json!(0)));
    assert_eq!(s.when(end), Then::Ignored(Reason::Repeated));
    let kept = ChildEnd::Kept {
        cause: Failure::new(
            FailureKind::Permanent,
            "past-point-of-no-return",
            "too late",
        ),
    };
    s.child_ends("b", 0, kept).child_ends("b", 1, no_effect());
    assert_eq!(s.state(), "CompensationFailed");
    assert_eq!(s.step("b").name(), "not-compensated");
    s.acts(Action::RetryCompensation).claim();
    assert_eq!(s.children_asked(), asked(&["o-1:b:0"], true));
    s.child_ends("b", 0, no_effect()).succeed("a");
    assert_eq!(s.state(), "Compensated");
}

#[test]
fn a_new_run_starts_other_orders_in_the_place_of_those_that_failed() {
    let mut s = Story::with_details(
        &LINES.replace("\"run\"", "\"supervisor\": {\"then\": \"error\"}, \"run\""),
        json!({"lines": ["x", "y"]}),
    )
    .claimed();
    s.succeed("a").child_ends("b", 0, no_effect());
    assert_eq!(s.state(), "Error");
    s.resubmit().claim();
    assert_eq!(s.children_asked(), asked(&["o-1:b:0~1", "o-1:b:1"], false));
    s.child_ends("b", 0, processed(json!(0)));
    s.child_ends("b", 1, processed(json!(1))).succeed("c");
    assert_eq!(s.state(), "Processed");
    let mut s = running(1);
    s.child_ends("b", 0, no_effect()).succeed("a");
    assert_eq!(s.state(), "Compensated");
    s.resubmit().claim().succeed("a");
    assert_eq!(s.children_asked(), asked(&["o-1:b:0~1"], false));
}

/// An order of [`LINE`] that another order has started.
fn child() -> Story {
    child_of(LINE)
}

fn child_of(workflow: &str) -> Story {
    let mut s = Story::of(workflow);
    let accepted: Accepted = serde_json::from_value(json!({
        "order_id": "o-0:ship:3", "workflow": s.order.workflow.to_string(),
        "submitted_at": BEGIN, "due": BEGIN + 10_000, "details": s.details,
        "parent": {"order_id": "o-0", "step": "ship", "number": 3, "depth": 1},
    }))
    .expect("accepted");
    s.order = Order::new(&accepted, &s.workflow, accepted.due);
    s
}

fn parent(s: &Story) -> Parent {
    *s.order.parent.clone().expect("it has one")
}

/// What the outbox tells the parent.
fn told(s: &Story) -> Option<ChildEnd> {
    s.order.outbox.entries.iter().find_map(|entry| match entry {
        Emission::Ended { end } => Some(end.clone()),
        _ => None,
    })
}

fn parent_compensated(s: &mut Story) -> Then {
    let parent = parent(s);
    s.when(Event::ParentCompensated(Box::new(parent)))
}

#[test]
fn a_child_order_tells_its_parent_alone_how_it_has_ended() {
    let mut s = child().claimed();
    s.succeed("a").succeed("b").succeed("c");
    assert_eq!(told(&s), Some(processed(json!({"ref": 1}))));
    assert_eq!(s.statuses(), []);
    let sent = s.messages().pop().expect("a message");
    assert_eq!(
        (sent.topic.as_str(), sent.key.as_deref()),
        ("scheduler", Some(b"o-0".as_slice()))
    );
    let mut s = child().claimed();
    s.refuse("a");
    assert!(matches!(told(&s), Some(ChildEnd::NoEffect { cause }) if cause.code == "out-of-stock"));
    // Asked again, it tells it again.
    s.when(Event::Confirmed);
    assert_eq!(told(&s), None);
    for _ in 0..2 {
        s.claim();
        assert!(matches!(told(&s), Some(ChildEnd::NoEffect { .. })));
        s.sent();
    }
    assert_eq!(
        s.tries(Action::Resubmit { input: None }),
        Then::Refused(triad_core::OperationRefusal::Already(
            "told to its parent order as without an effect (resubmit the parent)",
        ))
    );
}

#[test]
fn a_child_order_is_compensated_for_its_parent_wherever_it_is() {
    let mut s = child().claimed();
    s.succeed("a").succeed("b").succeed("c");
    let mut stranger = parent(&s);
    stranger.number = 4;
    let then = s.when(Event::ParentCompensated(Box::new(stranger)));
    assert_eq!(then, Then::Ignored(Reason::NotAwaited));
    assert_eq!(parent_compensated(&mut s), Then::Written);
    assert_eq!(parent_compensated(&mut s), Then::Ignored(Reason::Repeated));
    s.claim().succeed("c").succeed("b").succeed("a");
    assert!(matches!(told(&s), Some(ChildEnd::NoEffect { .. })));
    let mut s = child();
    assert_eq!(parent_compensated(&mut s), Then::Written);
    s.claim();
    assert_eq!(s.state(), "Compensated");
    let mut s = child().claimed();
    s.succeed("a").acts(Action::Pause);
    assert_eq!(parent_compensated(&mut s), Then::Written);
}

#[test]
fn an_order_whose_child_order_has_expired_before_its_end_was_known_stops() {
    let mut s = running(2);
    let cause = Failure::new(FailureKind::Permanent, "expired", "its record has expired");
    s.child_ends("b", 1, ChildEnd::Kept { cause });
    assert_eq!((s.state(), children(&s).as_str()), ("Error", "rr"));
}

#[test]
fn a_child_order_past_its_point_of_no_return_says_so_and_goes_on() {
    let pivot = LINE
        .replace("\"action\": \"do-a\", \"compensation\": {\"action\": \"compensate-a\", \"input\": {\"of\": \"${output}\"}}", "\"action\": \"do-a\", \"point_of_no_return\": true")
        .replace(", \"compensation\": {\"action\": \"compensate-b\"}", "")
        .replace(", \"compensation\": {\"action\": \"compensate-c\"}", "");
    let mut s = child_of(&pivot);
    s.claim().succeed("a");
    assert_eq!(parent_compensated(&mut s), Then::Written);
    assert!(matches!(told(&s), Some(ChildEnd::Kept { .. })));
    s.succeed("b").succeed("c");
    assert_eq!(s.state(), "Processed");
}

#[test]
fn a_child_order_that_is_closed_by_hand_ends_for_its_parent() {
    let stops = "\"failure_threshold\": 1, \"then\": \"error\"";
    let mut s = child_of(&LINE.replace("\"failure_threshold\": 1", stops));
    s.claim().refuse("a");
    assert_eq!((s.state(), told(&s)), ("Error", None));
    s.acts(Action::Close);
    let resubmitted = s.tries(Action::Resubmit { input: None });
    assert!(matches!(resubmitted, Then::Refused(_)));
    assert!(matches!(told(&s), Some(ChildEnd::NoEffect { .. })));
}

#[test]
fn an_order_that_is_compensated_before_it_is_stored_never_begins() {
    let s = child();
    let accepted: Accepted = serde_json::from_value(json!({
        "order_id": s.order.id, "workflow": s.order.workflow.to_string(), "submitted_at": BEGIN,
        "due": BEGIN, "details": {}, "parent": parent(&s),
    }))
    .expect("accepted");
    let cause = Failure::new(
        FailureKind::Operator,
        "cancelled",
        "its parent is compensated",
    );
    let mut never = Story::of(LINE);
    never.order = Order::never_begun(&accepted, &never.workflow, cause);
    assert!(matches!(told(&never), Some(ChildEnd::NoEffect { .. })));
    assert_eq!(
        triad_core::invariants::of_record(&never.order, &never.workflow),
        []
    );
    // Until it is known to have told that, a sweep has it told again.
    assert!(matches!(
        never.asked(Event::Overdue(Overdue::default())),
        Ok(Decision::Repeat)
    ));
    never.claim();
    assert_eq!(never.state(), "Compensated");
}

#[test]
fn orders_are_nested_to_a_bound() {
    let mut s = lines(1);
    let mut above = parent(&child());
    above.depth = 4;
    s.order.parent = Some(Box::new(above));
    s.claim().succeed("a");
    assert_eq!(
        s.order.state.cause().map(|c| c.code.as_str()),
        Some("too-deep")
    );
    assert!(
        s.record("b")
            .children
            .as_ref()
            .is_none_or(|c| c.count(|is| *is != ChildState::Waiting) == 0)
    );
}
