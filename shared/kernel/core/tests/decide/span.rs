//! The time that an agent has for a request: it begins when the agent takes it, and ends at complete-by at the
//! latest.

use triad_core::agent::{Budget, Span, budget};
use triad_core::{StepRequest, Timestamp};
use triad_workflow::Millis;

use crate::support::{BEGIN, LINE, QUEUE, Story};

const SKEW: Millis = Millis(500);

/// A request of the story's beginning, with an attempt timeout of ten seconds.
fn request() -> StepRequest {
    Story::of(LINE).claimed().requests().remove(0)
}

fn at(ms: u64) -> Timestamp {
    Timestamp(BEGIN + ms)
}

#[test]
fn it_begins_when_the_request_is_taken() {
    for waited in [0, 30_000, QUEUE - 500] {
        let span = Span::of(&request(), SKEW, at(waited));
        assert_eq!(span.ends, at(waited + 10_000));
        assert_eq!(span.silent_from, at(QUEUE + 9_500));
    }
}

#[test]
fn it_never_ends_after_complete_by_minus_the_skew() {
    let span = Span::of(&request(), SKEW, at(QUEUE + 5_000));
    assert_eq!(span.ends, at(QUEUE + 9_500));
    assert_eq!(span.silent_from, at(QUEUE + 9_500));
}

#[test]
fn a_request_that_waited_for_queue_within_minus_the_skew_is_not_cut_short() {
    let request = request();
    let cut = |ms| Span::of(&request, SKEW, at(ms)).is_cut_short(&request, at(ms));
    assert!(!cut(0));
    assert!(!cut(QUEUE - 500));
    assert!(cut(QUEUE - 499));
}

#[test]
fn once_it_must_be_silent_a_request_is_not_cut_short_but_over() {
    let request = request();
    let cut = |ms| Span::of(&request, SKEW, at(ms)).is_cut_short(&request, at(ms));
    assert!(cut(QUEUE + 9_499));
    assert!(!cut(QUEUE + 9_500));
    assert!(!cut(QUEUE + 20_000));
}

#[test]
fn an_agent_whose_time_is_over_says_so_until_it_must_be_silent() {
    let span = Span::of(&request(), SKEW, at(1_000));
    assert_eq!(budget(0, 2, span, at(1_000)), Budget::Call(Millis(10_000)));
    assert_eq!(budget(0, 2, span, at(10_999)), Budget::Call(Millis(1)));
    assert_eq!(budget(0, 2, span, at(11_000)), Budget::TimedOut);
    assert_eq!(budget(0, 2, span, at(QUEUE + 9_499)), Budget::TimedOut);
    assert_eq!(budget(0, 2, span, at(QUEUE + 9_500)), Budget::OutOfTime);
}

#[test]
fn a_request_says_what_the_step_the_question_or_the_compensation_is_given() {
    let mut s = Story::of(crate::support::PROBED).claimed();
    s.succeed("a");
    assert_eq!(s.requests()[0].attempt_timeout_ms, 10_000);
    s.overdue().claim();
    assert_eq!(s.requests()[0].attempt_timeout_ms, 4_000);
    let w = LINE.replace(
        "\"compensate-a\"",
        "\"compensate-a\", \"attempt_timeout\": \"7s\"",
    );
    let mut s = Story::of(&w).claimed();
    s.succeed("a").refuse("b");
    let compensation = s.requests().remove(0);
    assert_eq!(compensation.attempt_timeout_ms, 7_000);
    assert_eq!(compensation.complete_by, at(QUEUE + 7_000));
}
