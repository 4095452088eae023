//! Work that a service finishes later: what is taken, and what is refused with which words.
#![cfg(feature = "load")]

use triad_workflow::{FinishesLater, Limits, Millis, Workflow, load};

fn workflow(later: &str, agents: &str) -> Result<Workflow, Vec<String>> {
    let text = format!(
        "workflow: w\nsteps:\n  - id: a\n    agent: shop\n    action: go\n    compensation: none\n    {later}\n{agents}"
    );
    load::from_yaml("w.yaml", &text, &Limits::published()).map_err(|e| e.lines().collect())
}

fn sound(later: &str) -> FinishesLater {
    let mut found = workflow(later, "").unwrap_or_else(|told| panic!("{later}: {told:#?}"));
    let triad_workflow::StepKind::Call(call) = found.steps.remove(0).kind else {
        panic!("a call");
    };
    *call.finishes_later.expect("it may be finished later")
}

#[track_caller]
fn refused(later: &str, text: &str) {
    let told = workflow(later, "").err().unwrap_or_default();
    assert!(
        told.len() == 1 && told[0].contains(text),
        "{later}: {told:#?}"
    );
}

#[test]
fn a_service_calls_back_or_is_asked_more_and_more_rarely() {
    let later = sound("finishes_later: { within: 2d }");
    assert_eq!(later.within, Millis(2 * 86_400_000));
    assert!(later.poll.is_none() && later.heartbeat.is_none() && later.fails_when.is_none());
    let later = sound("finishes_later: { within: 2d, poll: {} }");
    let poll = later.poll.expect("it is asked");
    assert_eq!(
        (poll.action.as_ref(), poll.every),
        (None, (Millis(1_000), Millis(60_000)))
    );
    let waits: Vec<u64> = (0..8)
        .map(|times| poll.wait(times, None).0 / 1_000)
        .collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(
        poll.wait(0, Some(Millis(90_000))),
        Millis(90_000),
        "the service's own wish"
    );
    assert_eq!(poll.wait(9, Some(Millis(1))), Millis(60_000));
    let later = sound(
        "finishes_later: { within: 2d, heartbeat: 5m, fails_when: event.ok == false, poll: { action: look, input: { id: \"${output.id}\" }, every: 1h } }",
    );
    let poll = later.poll.expect("it is asked");
    assert_eq!(
        poll.every,
        (Millis(3_600_000), Millis(3_600_000)),
        "never more often"
    );
    assert_eq!(poll.input.expressions().len(), 1);
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    for (later, text) in [
        ("finishes_later: { within: 0s }", "leaves no time"),
        ("finishes_later: { poll: {} }", "within"),
        (
            "finishes_later: { within: 1h, heartbeat: 1h }",
            "below `within`",
        ),
        (
            "finishes_later: { within: 1h, heartbeat: 0s }",
            "more than nothing",
        ),
        (
            "finishes_later: { within: 1h, poll: { every: 10ms } }",
            "below 100ms",
        ),
        (
            "finishes_later: { within: 1h, poll: { every: 9s, max: 3s } }",
            "below `every`",
        ),
        (
            "finishes_later: { within: 1h, poll: { input: { a: 1 } } }",
            "asks the `Location`",
        ),
        (
            "finishes_later: { within: 1h, poll: { action: \"a b\" } }",
            "action",
        ),
        (
            "finishes_later: { within: 1h, fails_when: event.ok + 1 }",
            "true or false",
        ),
        (
            "finishes_later: { within: 1h, poll: { action: look, input: { a: \"${steps.a}\" } } }",
            "this step",
        ),
        (
            "finishes_later: { within: 1h, poll: {} }\n    probe: { action: look }",
            "declare one of the two",
        ),
    ] {
        refused(later, text);
    }
}

#[test]
fn a_step_whose_service_accepts_work_has_to_say_that_it_waits() {
    let agents = "agents:\n  shop:\n    actions: { go: { answers: [ { status: 200, means: accepted } ] } }\n";
    let told = workflow("input: {}", agents).expect_err("its end is not awaited");
    assert!(
        told[0].contains("accepts go and does it later"),
        "{told:#?}"
    );
    assert!(workflow("finishes_later: { within: 1h }", agents).is_ok());
    let other = agents.replace("means: accepted", "means: accepted, direction: probe");
    assert!(workflow("input: {}", &other).is_ok());
}
