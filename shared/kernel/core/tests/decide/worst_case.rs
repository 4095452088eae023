//! The documented worst case of an order's duration, compared with orders that reach it, for every offset of the
//! sweeps.

use triad_core::worst_case::WorstCase;
use triad_core::{Event, Overdue, Timestamp};
use triad_workflow::Millis;

use crate::support::{LINE, Story, Then, compile, counted};

/// Time between two sweeps, in milliseconds.
const SWEEP: u64 = 10_000;
/// Distance between the tested offsets of the first sweep, in milliseconds.
const PHASE: u64 = 250;

/// Workflow of one step, with retries at once and after a delay.
const STEP: &str = r#"{"workflow": "w",
  "defaults": {"attempt_timeout": "10s", "retry": {"calls_per_attempt": 2, "calls_per_run": 100},
    "supervisor": {"failure_threshold": 2, "delay": "3s", "wait": {"delay": "1m", "attempts": 1}}},
  "steps": [{"id": "a", "agent": "x", "action": "do-a", "compensation": "none"}]}"#;

fn stated(s: &Story) -> WorstCase {
    WorstCase::of(&s.workflow, &s.timing, Millis(SWEEP))
}

/// The time of the first sweep at or after `at`, if the sweeps begin at `phase`.
fn sweep_from(at: Timestamp, phase: u64) -> Timestamp {
    let behind = (at.0 + SWEEP - phase % SWEEP) % SWEEP;
    Timestamp(if behind == 0 {
        at.0
    } else {
        at.0 + SWEEP - behind
    })
}

/// Runs sweeps until the Supervisor wakes the Scheduler, which claims at once.
fn sweeps_until_asked(s: &mut Story, phase: u64) {
    loop {
        s.now = sweep_from(s.now, phase);
        let then = s.when(Event::Overdue(Overdue::default()));
        if then == Then::Written && s.announces() {
            s.claim();
            return;
        }
        s.after(1);
    }
}

#[test]
fn a_silent_attempt_is_counted_within_the_stated_detection() {
    let mut longest = 0;
    for phase in (0..SWEEP).step_by(usize::try_from(PHASE).unwrap()) {
        let mut s = Story::of(&counted(LINE)).claimed();
        let complete_by = s.step("a").complete_by().unwrap();
        s.now = complete_by;
        while s.failures("a") == 0 {
            s.now = sweep_from(s.now, phase);
            s.when(Event::Overdue(Overdue::default()));
            s.after(1);
        }
        longest = longest.max(s.now.since(complete_by).0 - 1);
    }
    let stated = stated(&Story::of(LINE)).detection.0;
    assert_eq!(stated, 2 * (SWEEP + 500) + 5_000);
    assert!(longest <= stated, "{longest} of {stated}");
    // The documented time is at most one sweep interval too long, because the second sweep starts at the same offset
    // as the first.
    assert!(longest + SWEEP >= stated, "{longest} of {stated}");
}

#[test]
fn an_order_is_processed_within_the_stated_worst_case() {
    let mut longest = 0;
    for phase in (0..SWEEP).step_by(usize::try_from(PHASE).unwrap()) {
        let mut s = Story::of(STEP).claimed();
        let began = s.now;
        for _ in 0..3 {
            s.now = s.step("a").complete_by().unwrap();
            sweeps_until_asked(&mut s, phase);
        }
        s.now = s.step("a").complete_by().unwrap();
        s.succeed("a");
        assert_eq!(s.state(), "Processed");
        longest = longest.max(s.now.since(began).0);
    }
    let stated = stated(&Story::of(STEP)).processed.0;
    assert!(longest <= stated, "{longest} of {stated}");
    let spare = 3 * 2 * SWEEP;
    assert!(longest + spare >= stated, "{longest} of {stated}");
}

#[test]
fn steps_side_by_side_count_once_and_compensations_from_the_back() {
    let workflow = |after: &str| {
        let text = format!(
            r#"{{"workflow": "w", "defaults": {{"attempt_timeout": "10s", "supervisor": {{"failure_threshold": 0}}}},
              "steps": [
                {{"id": "a", "agent": "x", "action": "go", "compensation": {{"action": "compensate"}}}},
                {{"id": "b", "agent": "x", "action": "go", "after": [{after}], "compensation": {{"action": "compensate"}}}}]}}"#
        );
        Story::with_workflow(compile(&text), serde_json::json!({}))
    };
    // The longest time of one attempt: 60 s in the queue and 10 s at the service.
    let one = 60_000 + 10_000;
    let beside = stated(&workflow(""));
    assert_eq!((beside.processed.0, beside.compensated.0), (one, one));
    let behind = stated(&workflow(r#""a""#));
    assert_eq!(
        (behind.processed.0, behind.compensated.0),
        (2 * one, 2 * one)
    );
}

/// The work for an element takes as long as it would in an order of its own, for as many at once as may be; a step with
/// two ways takes both, and the compensation of the first.
#[test]
fn child_orders_are_in_the_worst_case() {
    let step = |more: &str| {
        format!(
            r#"{{"workflow": "w", "steps": [{{"id": "a", "agent": "x", "action": "do-a",
                "compensation": {{"action": "compensate-a"}}{more}}}]}}"#
        )
    };
    let of = |more: &str| {
        let s = Story::of(&step(more));
        let calls = s.workflow.worst_case_calls_with_parts();
        let worst = stated(&s);
        (calls, worst.processed.0, worst.compensated.0)
    };
    let (calls, processed, compensated) = of("");
    let each = of(r#", "for_each": {"in": "details.lines", "at_once": 20}"#);
    assert_eq!(each, (500 * calls, 25 * processed, 25 * compensated));
    let within = of(r#", "for_each": {"in": "details.lines", "at_once": 50, "within": "1m"}"#);
    assert_eq!(within.1, 10 * 60_000);
    let ways = of(r#", "on_failure": [{"agent": "y"}]"#);
    assert_eq!(ways, (2 * calls, 2 * processed + compensated, compensated));
    let race = of(r#", "first_of": [{"agent": "y"}, {"agent": "z"}, {"wait": {"for": "1s"}}]"#);
    assert_eq!(race, (2 * calls, processed + compensated, compensated));
    let run = compile(
        r#"{"workflow": "w", "steps": [{"id": "a", "run": {"workflow": "ship", "within": "2h"}}]}"#,
    );
    let others: Vec<&str> = run.others_run().iter().map(|name| name.as_str()).collect();
    assert_eq!(others, ["ship"]);
    let worst = WorstCase::of(&run, &Story::of(LINE).timing, Millis(SWEEP));
    assert_eq!(worst.processed, Millis(7_200_000));
}
