//! Work that a service takes and finishes later: asked for, called back about, given up.

use serde_json::{Value, json};
use triad_core::doubt::{Happened, happened};
use triad_core::message::Taking;
use triad_core::order::IncidentKind;
use triad_core::{
    Action, Callback, Direction, Event, Failure, FailureKind, OperatorAct, Overdue, Reason,
    ReplyOutcome, Says, Timestamp, migrate,
};
use triad_workflow::Millis;

use crate::support::{LATER, Story, Then, compile, done, refused};

const HOUR: u64 = 3_600_000;
const CALLS_BACK: &str = r#""within": "1h", "heartbeat": "1m""#;

/// [`LATER`] without questions: the service has to call back, and to give a sign of life each minute.
fn calls_back() -> String {
    let (before, rest) = LATER.split_once(r#""within": "1h""#).expect("it is there");
    let (_, after) = rest.split_once("}}},").expect("its end");
    format!("{before}{CALLS_BACK}}}}},{after}")
}

fn taken() -> ReplyOutcome {
    ReplyOutcome::InProgress(Taking {
        output: json!({"job": "j-1"}),
        ..Taking::default()
    })
}

fn still() -> ReplyOutcome {
    ReplyOutcome::InProgress(Taking::default())
}

/// The answer to a question: the work is done.
fn found(output: &Value) -> ReplyOutcome {
    let output = json!({"applied": true, "output": output});
    ReplyOutcome::Succeeded { output }
}

/// An order whose step `b` has been taken by its service.
fn waiting(workflow: &str) -> Story {
    let mut s = Story::of(workflow).claimed();
    s.succeed("a").answer("b", taken());
    assert_eq!(s.step("b").name(), "parked");
    assert_eq!(s.asks(), [], "nothing is asked for");
    s
}

/// The Supervisor finds that the moment has come, and a Scheduler goes on.
#[track_caller]
fn goes_on(s: &mut Story) {
    s.overdue_now();
    assert_eq!(s.state(), "Pending");
    s.claim();
}

fn ended(data: Value) -> Says {
    Says::Ended(data)
}

fn doubt(s: &Story) -> Happened {
    let index = s.workflow.step_index("b").expect("a step");
    happened(&s.order.steps[index], &s.workflow.steps[index])
}

#[test]
fn a_service_is_asked_more_and_more_rarely_and_nothing_of_it_counts() {
    let mut s = waiting(LATER);
    assert_eq!(doubt(&s), Happened::Maybe);
    for wait in [10, 20, 40, 40] {
        let due = s.now.0 + wait * 1_000;
        assert_eq!(s.ripe().minus(s.timing.skew), Timestamp(due), "{wait} s");
        goes_on(&mut s);
        let asked = s.requests();
        assert_eq!(
            (asked[0].action.as_str(), asked[0].direction),
            ("look", Direction::Probe)
        );
        assert_eq!(
            asked[0].input,
            json!({"job": "j-1"}),
            "what the service answered"
        );
        assert_eq!(
            asked[0].callback,
            s.record("b").callback,
            "it may call back"
        );
        assert!(!asked[0].counted);
        s.answer("b", still());
    }
    goes_on(&mut s);
    s.answer("b", found(&json!({"parcel": "p-1"})));
    assert_eq!(s.step("b").name(), "completed");
    assert_eq!(s.requests()[0].input, json!({"booked": {"parcel": "p-1"}}));
    assert_eq!((s.failures("b"), s.calls("b")), (0, 1), "its own call");
    s.succeed("c");
    let asked = vec![IncidentKind::InProgress; 2];
    let told = (s.state(), s.timeline());
    assert_eq!(told, ("Processed", asked), "one line for all questions");
}

#[test]
fn a_service_that_asks_for_a_longer_wait_is_left_alone_for_it() {
    let mut s = Story::of(LATER).claimed();
    let taking = Taking {
        ask_after: Some(Millis(25_000)),
        ..Taking::default()
    };
    s.succeed("a").answer("b", ReplyOutcome::InProgress(taking));
    assert_eq!(s.ripe().minus(s.timing.skew), Timestamp(s.now.0 + 25_000));
}

#[test]
fn a_question_goes_to_the_place_that_the_service_has_named() {
    let at_location = LATER.replace(
        r#""action": "look", "input": {"job": "${output.job}"}, "#,
        "",
    );
    let mut s = Story::of(&at_location).claimed();
    let taking = |location: Option<&str>| {
        ReplyOutcome::InProgress(Taking {
            location: location.map(str::to_owned),
            ..Taking::default()
        })
    };
    s.succeed("a").answer("b", taking(Some("/jobs/1?k=v")));
    goes_on(&mut s);
    assert_eq!(s.requests()[0].location.as_deref(), Some("/jobs/1?k=v"));
    s.answer("b", taking(Some("/jobs/2")));
    goes_on(&mut s);
    assert_eq!(s.requests()[0].location.as_deref(), Some("/jobs/2"));
    s.answer("b", taking(None));
    goes_on(&mut s);
    assert_eq!(s.requests()[0].location.as_deref(), Some("/jobs/2"));
    // A service that names no place is not asked.
    let mut s = Story::of(&at_location).claimed();
    s.succeed("a").answer("b", taking(None));
    assert_eq!(s.ripe().minus(s.timing.skew), Timestamp(s.now.0 + HOUR));
}

#[test]
fn a_callback_completes_the_step_and_starts_the_next_one_in_one_write() {
    let mut s = waiting(&calls_back());
    let version = s.order.version;
    let result = json!({"parcel": "p-1"});
    assert_eq!(
        s.called_back("b", "1", ended(result.clone())),
        Then::Written
    );
    assert_eq!(s.order.version, version.next());
    assert_eq!(s.requests()[0].input, json!({"booked": result}));
    let again = s.called_back("b", "1", ended(result.clone()));
    assert_eq!(again, Then::Repeat, "its messages may be unsent");
    s.succeed("c");
    let again = s.called_back("b", "1", ended(result));
    assert_eq!(again, Then::Ignored(Reason::Repeated));
    let taken = vec![IncidentKind::InProgress];
    assert_eq!((s.state(), s.timeline()), ("Processed", taken));
}

#[test]
fn a_callback_may_come_before_the_answer_to_the_call_or_after_it_was_lost() {
    let mut s = Story::of(LATER).claimed();
    s.succeed("a");
    let late = s.reply("b", taken());
    assert_eq!(s.called_back("b", "1", ended(json!(7))), Then::Written);
    assert_eq!(s.step("b").name(), "completed");
    assert_eq!(
        s.when(Event::Reply(late)),
        Then::Ignored(Reason::NotAwaited)
    );
    let mut s = Story::of(LATER).claimed();
    s.succeed("a").overdue();
    assert_eq!(s.called_back("b", "1", ended(json!(7))), Then::Written);
    assert_eq!((s.step("b").name(), s.failures("b")), ("completed", 1));
    // While a question is out.
    let mut s = waiting(LATER);
    goes_on(&mut s);
    assert_eq!(s.called_back("b", "1", ended(json!(7))), Then::Written);
    assert_eq!(s.step("b").name(), "completed");
}

#[test]
fn a_callback_with_a_token_of_something_else_changes_nothing() {
    let s = waiting(LATER);
    let Event::CalledBack(own) = s.callback("b", "1", ended(Value::Null)) else {
        panic!("a callback");
    };
    let wrong = [
        Callback {
            token: String::new(),
            ..(*own).clone()
        },
        Callback {
            token: "0".repeat(32),
            ..(*own).clone()
        },
        Callback {
            step: "a".into(),
            ..(*own).clone()
        },
        Callback {
            step: "none".into(),
            ..(*own).clone()
        },
    ];
    for callback in wrong {
        let mut s = waiting(LATER);
        let then = s.when(Event::CalledBack(Box::new(callback.clone())));
        assert_eq!(then, Then::Ignored(Reason::WrongToken), "{callback:?}");
    }
}

#[test]
fn a_callback_that_says_that_the_work_failed_ends_the_step_without_an_effect() {
    let mut s = waiting(LATER);
    let failed = json!({"state": "failed"});
    assert_eq!(s.called_back("b", "1", ended(failed)), Then::Written);
    assert_eq!((s.state(), s.step("b").name()), ("Compensating", "refused"));
    assert_eq!(doubt(&s), Happened::No);
    let cause = s.order.state.cause().expect("a cause").to_string();
    assert!(cause.starts_with("permanent/b/callback-fails"), "{cause}");
    let asks = s.asks();
    assert_eq!(asks, [("a".to_owned(), Direction::Compensate, 1)]);
    s.succeed("a");
    assert_eq!(s.state(), "Compensated");
    let late = s.called_back("b", "2", ended(Value::Null));
    assert_eq!(late, Then::Ignored(Reason::TooLate));
}

#[test]
fn a_question_that_is_refused_ends_the_step_and_one_that_fails_is_asked_again() {
    let mut s = waiting(LATER);
    goes_on(&mut s);
    s.answer("b", refused(false));
    assert_eq!(
        (s.state(), s.step("b").name(), doubt(&s)),
        ("Compensating", "refused", Happened::No)
    );
    let mut s = waiting(LATER);
    goes_on(&mut s);
    let away = Failure::new(FailureKind::Transient, "http-503", "away");
    let away = || ReplyOutcome::Failed {
        failure: away.clone(),
        maybe_applied: false,
    };
    // However often it fails, that says nothing about the work.
    for _ in 0..9 {
        s.answer("b", away());
        assert_eq!((s.state(), s.step("b").name()), ("Processing", "parked"));
        goes_on(&mut s);
        assert_eq!(s.requests()[0].action, "look", "it is not done again");
    }
    assert_eq!(s.failures("b"), 0);
    s.answer("b", found(&json!({"parcel": "p-1"})));
    assert_eq!(s.step("b").name(), "completed");
}

#[test]
fn an_answer_that_names_nothing_to_ask_for_stops_the_order_and_compensates_nothing() {
    let mut s = Story::of(LATER).claimed();
    s.succeed("a").answer("b", still());
    goes_on(&mut s);
    assert_eq!((s.state(), s.alerts()), ("Error", true));
    assert_eq!(s.step("a").name(), "completed");
}

#[test]
fn work_that_is_never_finished_is_compensated_with_what_the_service_answered() {
    let mut s = waiting(&calls_back().replace(r#", "heartbeat": "1m""#, ""));
    assert_eq!(s.ripe().minus(s.timing.skew), Timestamp(s.now.0 + HOUR));
    goes_on(&mut s);
    let cause = s.order.state.cause().expect("a cause").to_string();
    assert!(cause.starts_with("timed-out/b/not-finished"), "{cause}");
    let cancel = &s.requests()[0];
    assert_eq!(cancel.direction, Direction::Compensate);
    assert_eq!(cancel.input, json!({"of": {"job": "j-1"}}));
    assert_eq!(cancel.callback, None);
    let late = s.called_back("b", "1", ended(Value::Null));
    assert_eq!(late, Then::Ignored(Reason::TooLate), "it is compensated");
    s.succeed("b").succeed("a");
    assert_eq!(s.state(), "Compensated");
}

#[test]
fn work_that_may_not_be_repeated_stops_for_an_operator_when_it_is_never_finished() {
    let once = LATER.replace(
        r#""action": "book", "#,
        r#""action": "book", "at_most_once": true, "#,
    );
    let mut s = waiting(&once);
    for _ in 0..3 {
        goes_on(&mut s);
        s.answer("b", still());
    }
    s.after(HOUR);
    goes_on(&mut s);
    assert_eq!((s.state(), s.alerts()), ("Error", true));
    let output = Some(json!({"parcel": "p-1"}));
    assert_eq!(s.resolve("b", output), Then::Written);
    assert_eq!(s.step("b").name(), "completed");
    assert_eq!(s.record("b").in_progress, None);
}

#[test]
fn a_service_without_a_sign_of_life_is_asked_for_it_again() {
    let mut s = waiting(&calls_back());
    s.after(59_000);
    assert_eq!(s.called_back("b", "h-1", Says::Alive), Then::Written);
    assert_eq!(s.ripe().minus(s.timing.skew), Timestamp(s.now.0 + 60_000));
    goes_on(&mut s);
    assert_eq!(s.step("b").name(), "failed");
    s.overdue_now().claim();
    let again = &s.requests()[0];
    assert_eq!((again.action.as_str(), again.attempt.0), ("book", 2));
    assert_eq!(s.failures("b"), 1);
    s.answer("b", taken());
    assert_eq!(s.called_back("b", "1", ended(json!(1))), Then::Written);
    assert_eq!(s.step("b").name(), "completed");
}

#[test]
fn a_cancelled_order_compensates_work_that_goes_on() {
    let mut s = waiting(LATER);
    s.acts(Action::Cancel).claim();
    assert_eq!(s.asks(), [("b".to_owned(), Direction::Compensate, 1)]);
    let late = s.called_back("b", "1", ended(Value::Null));
    assert_eq!(late, Then::Ignored(Reason::TooLate));
}

#[test]
fn another_effect_has_another_token() {
    let mut s = waiting(LATER);
    let first = s.record("b").callback.clone().expect("a token");
    let failed = json!({"state": "failed"});
    assert_eq!(s.called_back("b", "1", ended(failed)), Then::Written);
    s.succeed("a");
    s.resubmit();
    let other = triad_core::CallbackSecret([3, 4]);
    let id = triad_core::ClaimId("another".into());
    assert_eq!(s.when(Event::Claim(id, other)), Then::Written);
    s.succeed("a").answer("b", taken());
    assert_ne!(s.record("b").callback.as_ref(), Some(&first));
    let old = Callback {
        order_id: s.order.id.clone(),
        step: "b".into(),
        token: first.as_str().into(),
        id: "2".into(),
        says: ended(Value::Null),
    };
    let then = s.when(Event::CalledBack(Box::new(old)));
    assert_eq!(then, Then::Ignored(Reason::WrongToken));
}

#[test]
fn a_version_in_which_the_service_has_to_finish_at_once_asks_it_again() {
    let mut s = waiting(LATER);
    let (before, rest) = LATER
        .split_once("\n     \"finishes_later\"")
        .expect("it is there");
    let (_, after) = rest.split_once("}}},").expect("its end");
    let plain = compile(&format!("{}}},{after}", before.trim_end_matches(',')));
    let act = OperatorAct::new("ann", "because");
    let moved = migrate::migrate(&s.order, &s.workflow, &plain, &act, s.timing, s.now);
    s.order = moved.expect("it can be moved").0.next;
    s.workflow = plain;
    goes_on(&mut s);
    assert_eq!(s.requests()[0].action, "book");
}

#[test]
fn a_step_whose_service_has_to_finish_at_once_is_asked_again() {
    let mut s = Story::of(LATER).claimed();
    s.answer("a", taken());
    assert_eq!((s.step("a").name(), s.failures("a")), ("deferred", 0));
    assert_eq!(s.record("a").callback, None);
    s.overdue_now().claim();
    assert_eq!(s.requests()[0].action, "do-a");
    s.answer("a", done());
    assert_eq!(s.step("a").name(), "completed");
    let _ = s.when(Event::Overdue(Overdue::default()));
}

#[test]
fn work_that_goes_on_is_in_doubt_for_a_step_whose_calls_are_counted_too() {
    let total = r#""action": "book", "retry": {"calls_per_attempt": 2, "calls_per_run": 9}, "#;
    let counted = LATER.replace(r#""action": "book", "#, total);
    let mut s = waiting(&counted);
    assert_eq!(doubt(&s), Happened::Maybe);
    s.acts(Action::Cancel).claim();
    assert_eq!(s.asks(), [("b".to_owned(), Direction::Compensate, 1)]);
}
