//! Acts of applications on the topic `events`: what is done, and with which statuses the applications are answered.

use serde_json::{Value, json};
use triad_core::topics::DEAD_LETTER;
use triad_runtime::scheduler::Scheduler;
use triad_runtime::settings::Settings;
use triad_runtime::{Handled, InputRecord};
use triad_workflow::hash::canonical_json;

use crate::support::{World, compiled_from, order_id};

/// An order whose first step has read `n`, and whose second reads `note`; `sell` is the point of no return.
fn started(world: &World, pivot: bool) -> Scheduler<World, World, World, World> {
    let none = if pivot { Value::Null } else { json!("none") };
    let workflow = compiled_from(json!({"workflow": "w", "steps": [
        {"id": "sell", "agent": "bank", "action": "take", "input": "${details.n}", "point_of_no_return": pivot,
         "compensation": none},
        {"id": "send", "agent": "mail", "action": "send", "input": "${details.note}",
         "compensation": none}]}));
    world.publish(&workflow, canonical_json(&workflow.definition));
    let details = json!({"n": 1, "note": "a"});
    let record = world.announced(&workflow, "o", details);
    let w = || world.clone();
    let scheduler = Scheduler::new(w(), w(), w(), w(), Settings::default());
    assert_eq!(world.run(scheduler.handle(&[record])), [Handled::Done]);
    scheduler
}

fn act(value: Value) -> InputRecord {
    InputRecord {
        topic: "events".into(),
        key: Some(b"o".to_vec()),
        timestamp_ms: -1,
        value: Some(value.to_string().into_bytes()),
        ..InputRecord::default()
    }
}

/// The statuses after `started` that were sent since the last time.
fn told(world: &World) -> Vec<Value> {
    let sent = world.sent("status").into_iter();
    sent.filter(|m| m["status"] != "started" && m["status"] != "received")
        .collect()
}

/// The names of statuses, and the codes of their causes.
fn named(told: &[Value]) -> Vec<[&str; 2]> {
    told.iter()
        .map(|m| {
            let code = m["cause"]["code"].as_str().unwrap_or_default();
            [m["status"].as_str().unwrap_or_default(), code]
        })
        .collect()
}

#[test]
fn an_amendment_is_told_and_one_of_what_a_step_has_read_is_refused_by_name() {
    let world = World::new();
    let scheduler = started(&world, false);
    let amend = |details: Value| {
        act(json!({"act": "amend", "details": details, "by": "shop", "why": "a typo"}))
    };
    for record in [
        amend(json!({"note": "b"})),
        // Delivered again, it changes nothing and tells nothing.
        amend(json!({"note": "b"})),
        amend(json!({"n": 2})),
    ] {
        assert_eq!(world.run(scheduler.handle(&[record])), [Handled::Done]);
    }
    let told = told(&world);
    assert_eq!(named(&told), [["amended", ""], ["refused", "not-amended"]]);
    let refusal = &told[1];
    let text = refusal["cause"]["message"].as_str().expect("why");
    assert!(text.contains("sell") && text.contains('n'), "{text}");
    assert_eq!(refusal["sequence"], 0);
    let order = world.inner().orders[&order_id("o")].clone();
    assert_eq!(order.amendment, Some(json!({"note": "b"})));
    let by = order.incidents.last().and_then(|line| line.act.clone());
    assert_eq!(
        by.map(|act| (act.by, act.why)),
        Some(("shop".into(), "a typo".into()))
    );
}

#[test]
fn a_cancel_compensates_once_and_beyond_the_point_of_no_return_it_is_refused() {
    let cancel = || act(json!({"act": "cancel", "why": "changed his mind"}));
    let world = World::new();
    let scheduler = started(&world, false);
    for _ in 0..2 {
        assert_eq!(world.run(scheduler.handle(&[cancel()])), [Handled::Done]);
    }
    let statuses = told(&world);
    let names = named(&statuses);
    assert_eq!(names[0], ["compensating", "cancelled"]);
    assert!(
        names.iter().all(|[status, _]| *status != "refused"),
        "{names:?}"
    );
    let world = World::new();
    let scheduler = started(&world, true);
    assert_eq!(world.run(scheduler.handle(&[cancel()])), [Handled::Done]);
    assert_eq!(named(&told(&world)), [["refused", "not-cancelled"]]);
    let state = world.inner().orders[&order_id("o")].state.name();
    assert_eq!(state, "Processing");
}

#[test]
fn what_is_no_act_or_of_no_order_is_a_dead_letter() {
    let world = World::new();
    let scheduler = started(&world, false);
    for (wrong, code) in [
        (json!({"act": "stop"}), "not-an-act"),
        (json!({"act": "amend"}), "not-an-act"),
        (json!({"act": "cancel", "details": {}}), "not-an-act"),
        (json!({"act": "cancel", "reason": "x"}), "not-an-act"),
        (json!({"act": "cancel", "order_id": "other"}), "order-id"),
    ] {
        assert_eq!(world.run(scheduler.handle(&[act(wrong)])), [Handled::Done]);
        let letter = world
            .inner()
            .sent
            .iter()
            .rev()
            .find(|m| m.topic == DEAD_LETTER)
            .cloned();
        let headers = letter.expect("a dead letter").headers;
        let said = headers
            .iter()
            .any(|(_, value)| value.as_deref() == Some(code.as_bytes()));
        assert!(said, "{code}: {headers:?}");
    }
    let of_nobody = InputRecord {
        key: Some(b"nobody".to_vec()),
        ..act(json!({"act": "cancel"}))
    };
    assert_eq!(world.run(scheduler.handle(&[of_nobody])), [Handled::Done]);
    assert_eq!(told(&world), [json!(null); 0]);
}
