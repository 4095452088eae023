//! The compiled form of a step: declared, inherited and default values.

use serde_json::{Value, json};
use triad_workflow::{Call, Limits, Millis, Repeat, Step, Workflow};

/// A workflow of one step with these fields, and with these defaults.
fn workflow(fields: &Value, defaults: &Value) -> Workflow {
    let mut step = json!({"id": "a", "agent": "x", "action": "go",
        "compensation": {"action": "compensate"}});
    for (field, value) in fields.as_object().unwrap() {
        step[field] = value.clone();
    }
    let definition = json!({"workflow": "w", "defaults": defaults, "steps": [step]});
    let definition = serde_json::from_value(definition).unwrap();
    Workflow::compile(definition, &Limits::published()).expect("a sound definition")
}

fn step(fields: &Value) -> Step {
    workflow(fields, &json!({})).steps.remove(0)
}

fn call(step: &Step) -> &Call {
    step.call().expect("a step that calls")
}

#[test]
fn a_step_is_safe_to_repeat_unless_it_says_otherwise() {
    let step = step(&json!({}));
    assert_eq!(call(&step).repeat, Repeat::Safe);
    assert_eq!(
        (call(&step).retry.calls_per_attempt, call(&step).is_counted),
        (3, false)
    );
}

#[test]
fn an_attempt_that_may_not_be_repeated_is_one_counted_call() {
    for (rule, value) in [
        ("at_most_once", json!(true)),
        ("probe", json!({"action": "ask"})),
    ] {
        let workflow = workflow(
            &json!({rule: value}),
            &json!({"retry": {"calls_per_attempt": 5}}),
        );
        let step = &workflow.steps[0];
        assert!(!call(step).repeat.is_safe());
        assert_eq!(
            (call(step).retry.calls_per_attempt, call(step).is_counted),
            (1, true)
        );
        let compensation = step.compensation.as_ref().unwrap();
        assert_eq!(
            (
                compensation.retry.calls_per_attempt,
                compensation.is_counted
            ),
            (5, false),
            "a compensation may"
        );
    }
}

#[test]
fn a_probe_has_its_own_deadline_or_the_steps() {
    let within = |probe: Value| {
        let step = step(&json!({"probe": probe, "attempt_timeout": "20s"}));
        let Repeat::Probe(probe) = &call(&step).repeat else {
            panic!("{:?}", call(&step).repeat)
        };
        assert_eq!(probe.retry.calls_per_attempt, 3);
        probe.attempt_timeout
    };
    assert_eq!(within(json!({"action": "ask"})), Millis(20_000));
    let own = json!({"action": "ask", "attempt_timeout": "5s"});
    assert_eq!(within(own), Millis(5_000));
}

#[test]
fn without_a_declared_total_it_is_what_the_attempts_add_up_to() {
    let supervisor = json!({"failure_threshold": 2, "wait": {"delay": "1h", "attempts": 4}});
    let total = |fields: Value| {
        let mut fields = fields;
        fields["supervisor"] = supervisor.clone();
        step(&fields).calls_per_run()
    };
    assert_eq!(total(json!({"retry": {"calls_per_attempt": 2}})), 2 * 7);
    assert_eq!(total(json!({"at_most_once": true})), 7);
    assert_eq!(
        total(json!({"probe": {"action": "ask"}})),
        (1 + 3) * 7,
        "questions too"
    );
}

#[test]
fn a_declared_total_is_kept_and_counted() {
    let step = step(&json!({"retry": {"calls_per_attempt": 2, "calls_per_run": 5}}));
    assert_eq!((step.calls_per_run(), call(&step).is_counted), (5, true));
}

#[test]
fn a_compensation_inherits_the_steps_retry_and_declares_its_own() {
    let retry = json!({"calls_per_attempt": 2, "calls_per_run": 5});
    let inherited = step(&json!({"retry": retry})).compensation.unwrap();
    assert_eq!((inherited.calls_per_run, inherited.is_counted), (5, true));
    let own =
        json!({"action": "compensate", "failure_threshold": 4, "retry": {"calls_per_attempt": 3}});
    let own = step(&json!({"retry": retry, "compensation": own}));
    let own = own.compensation.unwrap();
    assert_eq!((own.calls_per_run, own.is_counted), (3 * 5, false));
}

#[test]
fn a_total_in_the_defaults_is_each_steps() {
    let defaults = json!({"retry": {"calls_per_attempt": 1, "calls_per_run": 6}});
    let workflow = workflow(&json!({}), &defaults);
    assert_eq!(workflow.steps[0].calls_per_run(), 6);
    assert_eq!(workflow.worst_case_calls(), 12, "forward and compensation");
}

#[test]
fn work_may_be_deferred_for_a_day_or_as_long_as_is_said_forward_and_back() {
    let day = Millis(24 * 3_600_000);
    let defer_for = |supervisor: Option<Value>| {
        let fields = supervisor.map_or(json!({}), |s| json!({"supervisor": s}));
        let step = step(&fields);
        (
            call(&step).policy.defer_for,
            step.compensation.unwrap().policy.defer_for,
        )
    };
    assert_eq!(defer_for(None), (day, day));
    assert_eq!(defer_for(Some(json!({"failure_threshold": 1}))), (day, day));
    let said = json!({"failure_threshold": 1, "defer_for": "10m"});
    assert_eq!(defer_for(Some(said)), (Millis(600_000), Millis(600_000)));
}

#[test]
fn what_is_not_said_is_not_in_the_hash() {
    let hash = |fields: &Value| workflow(fields, &json!({})).hash;
    let plain = hash(&json!({}));
    assert_eq!(hash(&json!({"at_most_once": false})), plain);
    assert_eq!(hash(&json!({"probe": null})), plain);
    assert_ne!(hash(&json!({"at_most_once": true})), plain);
}
