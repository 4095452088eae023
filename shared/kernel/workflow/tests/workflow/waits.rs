//! Steps that wait, for a moment or for events: what is taken, and what is refused with which words.
#![cfg(feature = "load")]

use serde_json::json;
use triad_workflow::{Above, Limits, Millis, Otherwise, StepKind, Timer, Workflow, load};

fn workflow(step: &str, after: &str) -> Result<Workflow, Vec<String>> {
    let text = format!(
        "workflow: w\nsteps:\n  - {{id: a, agent: shop, action: go, compensation: none}}\n  - {step}\n{after}"
    );
    load::from_yaml("w.yaml", &text, &Limits::published()).map_err(|e| e.lines().collect())
}

fn sound(step: &str) -> Workflow {
    workflow(step, "").unwrap_or_else(|told| panic!("{step}: {told:#?}"))
}

/// Checks that there is exactly one problem, on the step's line, with this text in it.
#[track_caller]
fn refused(step: &str, text: &str) {
    let told = workflow(step, "").err().unwrap_or_default();
    assert_eq!(told.len(), 1, "{step}: {told:#?}");
    let place = "w.yaml:4:";
    assert!(
        told[0].starts_with(place) && told[0].contains(text),
        "{}",
        told[0]
    );
}

#[test]
fn a_timer_is_a_time_or_a_moment_of_the_orders() {
    let workflow = sound("{id: b, wait: {for: 3d}}");
    let step = &workflow.steps[1];
    assert!(matches!(
        step.kind,
        StepKind::Timer(Timer::For(Millis(259_200_000)))
    ));
    assert!(step.call().is_none() && step.compensation.is_none());
    assert_eq!((step.max_attempts(), step.calls_per_run()), (0, 0));
    let until = sound("{id: b, wait: {until: \"${details.day}T08:00\", zone: Europe/Paris}}");
    let StepKind::Timer(Timer::Until { at, zone }) = &until.steps[1].kind else {
        panic!("{:?}", until.steps[1].kind)
    };
    assert_eq!((at.expressions().len(), zone.name()), (1, "Europe/Paris"));
    assert_eq!(until.steps[1].expressions().count(), 1);
}

#[test]
fn events_are_one_the_first_or_all() {
    let single = sound(
        "{id: b, await: {event: paid, match: \"${event.amount == details.amount}\", within: 7d}}",
    );
    let StepKind::Await(wait) = &single.steps[1].kind else {
        panic!("{:?}", single.steps[1].kind)
    };
    assert_eq!(
        (wait.is_single, wait.needs_all, wait.within),
        (true, false, Millis(7 * 86_400_000))
    );
    assert_eq!(wait.otherwise, Otherwise::Compensate);
    let matches = wait.events[0].matches.as_ref().expect("a condition");
    assert_eq!(matches.source(), "event.amount == details.amount");
    let keyed = sound("{id: b, await: {event: paid, key: \"p-${details.amount}\", within: 7d}}");
    let reads: Vec<&str> = keyed.steps[1].expressions().map(|e| e.source()).collect();
    assert_eq!(
        reads,
        ["details.amount"],
        "what it reads is not amended later"
    );
    for (list, needs_all) in [("first_of", false), ("all_of", true)] {
        let several = sound(&format!(
            "{{id: b, await: {{{list}: [{{event: x}}, {{event: y}}], within: 1h, otherwise: continue}}}}"
        ));
        let StepKind::Await(wait) = &several.steps[1].kind else {
            panic!("{:?}", several.steps[1].kind)
        };
        assert_eq!(
            (wait.is_single, wait.needs_all, wait.events.len()),
            (false, needs_all, 2)
        );
        assert_eq!(wait.otherwise, Otherwise::Continue);
    }
    let fails = sound("{id: b, await: {event: x, fails_when: \"event.no\", within: 7d}}");
    assert_eq!(fails.steps[1].expressions().count(), 1);
    let stops = sound("{id: b, await: {event: paid, within: 7d, otherwise: error}}");
    assert_eq!(stops.steps[1].then, Above::Error);
}

#[test]
fn what_an_event_brought_can_be_compensated_by_an_agent_that_is_named() {
    let refund = "compensation: {agent: bank, action: refund, input: {id: \"${output.id}\"}}";
    let workflow = sound(&format!(
        "{{id: b, await: {{event: paid, within: 7d}}, {refund}}}"
    ));
    let compensation = workflow.steps[1].compensation.as_ref().expect("one");
    assert_eq!(compensation.agent.as_str(), "bank");
    assert!(
        workflow.warnings().is_empty(),
        "an event that came has an output"
    );
    let unnamed = "{id: b, await: {event: paid, within: 7d}, compensation: {action: refund}}";
    refused(
        unnamed,
        "`agent` is missing: a step that waits has none of its own",
    );
}

#[test]
fn after_the_point_of_no_return_an_event_that_does_not_come_is_an_error() {
    let pivot = "{id: b, agent: shop, action: go, point_of_no_return: true}";
    let after = |more: &str| format!("  - {{id: c, await: {{event: paid, within: 7d{more}}}}}");
    let workflow = super::waits::workflow(pivot, &after("")).expect("it is sound");
    let StepKind::Await(wait) = &workflow.steps[2].kind else {
        panic!("{:?}", workflow.steps[2].kind)
    };
    assert_eq!(wait.otherwise, Otherwise::Error);
    let told = super::waits::workflow(pivot, &after(", otherwise: compensate"));
    let told = told.expect_err("it cannot be compensated");
    assert!(
        told[0].contains("use otherwise: error or continue"),
        "{told:?}"
    );
}

#[test]
fn the_time_of_a_wait_counts_for_the_time_of_the_order() {
    assert_eq!(
        sound("{id: b, wait: {for: 3d}}").one_attempt_each(),
        Millis(3 * 86_400_000 + 30_000)
    );
    assert_eq!(
        sound("{id: b, await: {event: x, within: 1h}}").one_attempt_each(),
        Millis(3_630_000)
    );
}

#[test]
fn a_step_does_one_thing() {
    refused(
        "{id: b, compensation: none, agent: shop}",
        "`action` is missing",
    );
    refused(
        "{id: b, wait: {for: 3d}, agent: shop, action: go}",
        "a step that waits cannot have `",
    );
    refused(
        "{id: b, wait: {for: 3d}, retry: {calls_per_attempt: 2}}",
        "a step that waits cannot have `",
    );
    refused(
        "{id: b, wait: {for: 3d}, point_of_no_return: true}",
        "a step that waits cannot have `",
    );
    refused(
        "{id: b, wait: {for: 3d}, compensation: {agent: shop, action: back}}",
        "a wait has no effect",
    );
}

#[test]
fn a_timer_that_is_none_is_refused() {
    refused("{id: b, wait: {}}", "`for` or `until` is missing");
    refused("{id: b, wait: 3d}", "wait: ");
    refused(
        "{id: b, wait: {for: 1h, until: 2026-12-24}}",
        "has to have either `for` or `until`",
    );
    refused("{id: b, wait: {for: 0s}}", "no time is no wait");
    refused(
        "{id: b, wait: {for: 1h, zone: UTC}}",
        "says something of `until` alone",
    );
    refused(
        "{id: b, wait: {until: 24.12.2026}}",
        "is no moment: write it as",
    );
    refused(
        "{id: b, wait: {until: 2026-12-24, zone: Paris}}",
        "there is no time zone \"Paris\"",
    );
    refused(
        "{id: b, wait: {until: \"${steps.c.at}\"}}",
        "there is no such step",
    );
    refused("{id: b, wait: {for: 400d}}", "is longer than 366 days");
}

#[test]
fn a_decision_says_who_may_make_it_with_what_and_when_it_is_asked_for_again() {
    let workflow = sound(
        "{id: b, await: {event: x, within: 10d, decision: {by: [ann], remind: 2d, escalate: {after: 3d, to: [bob]}, form: {required: [ok]}}}}",
    );
    let StepKind::Await(wait) = &workflow.steps[1].kind else {
        panic!("it waits");
    };
    let decision = wait.decision.as_ref().expect("a decision");
    let day = |n: u64| Millis(n * 24 * 3_600_000);
    let ok = json!({"ok": true});
    let refusals = [
        (Some("ann"), &ok, 0),
        (Some("bob"), &ok, 0),
        (Some("bob"), &ok, 3),
        (None, &ok, 5),
        (Some("ann"), &json!({}), 0),
    ]
    .map(|(name, data, waited)| {
        decision
            .refusal(name, data, day(waited))
            .unwrap_or_default()
    });
    assert_eq!(
        refusals,
        [
            "",
            "bob may not decide; ann may",
            "",
            "nobody may not decide; ann, bob may",
            "data has no field \"ok\"",
        ]
    );
    let mut waited = day(0);
    let mut asked = Vec::new();
    while waited < day(10) {
        waited = decision.asked_again(waited, wait.within);
        asked.push(waited.0 / day(1).0);
    }
    assert_eq!(asked, [2, 3, 4, 6, 8, 10]);
}

#[test]
fn decisions_that_cannot_be_are_refused() {
    for (decision, part) in [
        ("{bi: [ann]}", "unknown key"),
        ("{by: ann}", "has to be a list"),
        ("{by: [\"\"]}", "has to have at most 16 names"),
        ("{remind: 1m}", "is more than 100 times in"),
        (
            "{by: [ann], escalate: {after: 10d, to: [bob]}}",
            "is not before the end",
        ),
        ("{by: [ann], escalate: {to: [bob]}}", "`after` is missing"),
        ("{escalate: {after: 1d, to: [bob]}}", "adds nobody"),
        ("{form: {type: nothing}}", "decision.form"),
        (
            "{form: {properties: {a: {$ref: \"#/b\"}}}}",
            "decision.form",
        ),
    ] {
        refused(
            &format!("{{id: b, await: {{event: x, within: 10d, decision: {decision}}}}}"),
            part,
        );
    }
    refused(
        "{id: b, await: {first_of: [{event: x}], within: 1h, decision: {by: [ann]}}}",
        "is about one event",
    );
}

#[test]
fn events_that_are_none_are_refused() {
    let one_of = "has to have one of `event`, `first_of` and `all_of`";
    refused("{id: b, await: {within: 1h}}", one_of);
    refused(
        "{id: b, await: {event: x, first_of: [{event: y}], within: 1h}}",
        one_of,
    );
    refused("{id: b, await: {event: x}}", "`within` is missing");
    refused(
        "{id: b, await: {event: paid!, within: 1h}}",
        "is not a valid name",
    );
    refused(
        "{id: b, await: {event: x, within: 0s}}",
        "no time is no wait",
    );
    refused(
        "{id: b, await: {event: x, within: 1h, otherwise: retry}}",
        "there are `compensate` and `error` and `continue`",
    );
    refused(
        "{id: b, await: {first_of: [{event: x}, {event: x}], within: 1h}}",
        "x is there already",
    );
    refused(
        "{id: b, await: {event: x, match: \"output.a\", within: 1h}}",
        "unknown variable `output`",
    );
    refused(
        "{id: b, await: {event: x, match: \"'yes'\", within: 1h}}",
        "has to be true or false",
    );
    refused(
        "{id: b, await: {first_of: [{event: x}], match: \"true\", within: 1h}}",
        "belongs to an event",
    );
    refused(
        "{id: b, await: {event: x, key: always, within: 1h}}",
        "is the same for every order",
    );
    refused(
        "{id: b, await: {first_of: [{event: x}], key: \"${details.a}\", within: 1h}}",
        "belongs to an event",
    );
    refused(
        "{id: b, await: {event: x, key: \"${event.a}\", within: 1h}}",
        "unknown variable `event`",
    );
    let many: Vec<String> = (0..9).map(|n| format!("{{event: e{n}}}")).collect();
    refused(
        &format!(
            "{{id: b, await: {{all_of: [{}], within: 1h}}}}",
            many.join(", ")
        ),
        "9 events; 8 are allowed",
    );
}
