//! Child orders: which the Scheduler stores, and what their parents get as an answer.

use serde_json::{Value, json};
use triad_core::ProcessState;
use triad_runtime::scheduler::Scheduler;
use triad_runtime::settings::Settings;
use triad_runtime::{Handled, InputRecord};
use triad_workflow::Workflow;
use triad_workflow::hash::canonical_json;

use crate::support::{World, compiled_from, order_id};

/// The child order of the step `ship` of the order `o`.
const CHILD: &str = "o:ship";

fn publish(world: &World, schema: Value) -> Workflow {
    let workflow = compiled_from(json!({"workflow": "w", "details_schema": schema, "steps": [
        {"id": "pay", "agent": "bank", "action": "take", "compensation": "none"}]}));
    world.publish(&workflow, canonical_json(&workflow.definition));
    workflow
}

/// A parent's message, with these fields beside those that all have.
fn message(more: Value) -> InputRecord {
    let mut message = json!({"type": "child", "order_id": CHILD, "workflow": "w", "details": {"n": 1},
        "parent": {"order_id": "o", "step": "ship", "number": 0, "depth": 1}});
    for (name, value) in more.as_object().into_iter().flatten() {
        message[name] = value.clone();
    }
    InputRecord {
        topic: "scheduler".into(),
        timestamp_ms: -1,
        value: Some(message.to_string().into_bytes()),
        ..InputRecord::default()
    }
}

/// A newly started Scheduler handles a message. Returns the ends that parents have got since.
fn handled(world: &World, record: InputRecord) -> Vec<Value> {
    let w = || world.clone();
    let scheduler = Scheduler::new(w(), w(), w(), w(), Settings::default());
    assert_eq!(world.run(scheduler.handle(&[record])), [Handled::Done]);
    let sent = world.sent("scheduler").into_iter();
    sent.filter(|m| m["type"] == "child-ended")
        .map(|m| m["end"].clone())
        .collect()
}

fn is_stored(world: &World) -> bool {
    world.inner().orders.contains_key(&order_id(CHILD))
}

#[test]
fn one_that_is_stored_goes_on_whatever_its_workflow_says_now() {
    let world = World::new();
    publish(&world, json!({"required": ["n"]}));
    assert_eq!(handled(&world, message(json!({}))), [json!(null); 0]);
    publish(&world, json!({"required": ["more"]}));
    // The parent asks again: the child order runs, and has no end yet.
    assert_eq!(handled(&world, message(json!({}))), [json!(null); 0]);
    assert_eq!(
        handled(&world, message(json!({"workflow": "gone"}))),
        [json!(null); 0]
    );
    let order = world.inner().orders[&order_id(CHILD)].clone();
    assert!(matches!(order.state, ProcessState::Processing(_)));
}

#[test]
fn one_that_cannot_be_accepted_ends_without_an_effect_as_often_as_its_parent_asks() {
    let world = World::new();
    publish(&world, json!({"required": ["more"]}));
    for _ in 0..2 {
        let ends = handled(&world, message(json!({})));
        assert_eq!(ends[0]["result"], "no-effect");
        assert_eq!(ends[0]["cause"]["code"], "details-do-not-fit");
    }
    assert!(is_stored(&world), "a start of a later version finds it");
    let world = World::new();
    let ends = handled(&world, message(json!({})));
    assert_eq!(ends[0]["cause"]["code"], "unknown-workflow");
    assert!(!is_stored(&world));
}

#[test]
fn one_that_is_compensated_before_it_is_started_never_begins() {
    let world = World::new();
    publish(&world, json!({}));
    let compensate = json!({"details": {}, "compensate": {"was_processed": false}});
    assert_eq!(
        handled(&world, message(compensate))[0]["result"],
        "no-effect"
    );
    assert_eq!(
        handled(&world, message(json!({})))[0]["result"],
        "no-effect"
    );
    assert_eq!(world.sent("agent.bank"), [json!(null); 0]);
}

#[test]
fn one_that_was_processed_and_has_expired_is_not_taken_for_one_without_an_effect() {
    let world = World::new();
    publish(&world, json!({}));
    let compensate = json!({"details": {}, "compensate": {"was_processed": true}});
    assert_eq!(handled(&world, message(compensate))[0]["result"], "kept");
    assert!(!is_stored(&world));
}

#[test]
fn one_whose_definition_cannot_be_read_holds_up_no_message() {
    let world = World::new();
    let workflow = publish(&world, json!({}));
    world.of_a_newer_version(&workflow);
    let compensate = json!({"details": {}, "compensate": {"was_processed": false}});
    assert_eq!(handled(&world, message(compensate)), [json!(null); 0]);
    assert!(!is_stored(&world));
}
