//! Events that name a key in place of their order: found, kept until an order waits for them, or seen as dead letters.

use serde_json::{Value, json};
use triad_core::topics::DEAD_LETTER;
use triad_runtime::keys::{KEPT_FOR, order_of};
use triad_runtime::scheduler::Scheduler;
use triad_runtime::settings::Settings;
use triad_runtime::{Handled, InputRecord};
use triad_workflow::Workflow;
use triad_workflow::hash::canonical_json;

use crate::support::{Asked, BEGIN, World, compiled_from, order_id, record};

type One = Scheduler<World, World, World, World>;

const DAY: u64 = 24 * 3_600_000;

fn workflow(world: &World) -> Workflow {
    let workflow = compiled_from(json!({"workflow": "w", "steps": [
        {"id": "paid", "await": {"event": "paid", "key": "${details.payment}", "within": "1day"},
         "compensation": "none"},
        {"id": "send", "agent": "mail", "action": "send", "input": "${steps.paid}", "compensation": "none"}]}));
    world.publish(&workflow, canonical_json(&workflow.definition));
    workflow
}

fn scheduler(world: &World) -> One {
    let w = || world.clone();
    Scheduler::new(w(), w(), w(), w(), Settings::default())
}

/// An event of this offset under this key.
fn paid(offset: i64, key: &str, data: Value) -> InputRecord {
    let value = json!({"event": "paid", "key": key, "id": format!("e-{offset}"), "data": data});
    InputRecord {
        topic: "events".into(),
        offset,
        timestamp_ms: -1,
        value: Some(value.to_string().into_bytes()),
        ..InputRecord::default()
    }
}

fn handles(world: &World, scheduler: &One, record: InputRecord) -> Handled {
    world.run(scheduler.handle(&[record])).remove(0)
}

/// Starts an order that waits for the payment of this id.
fn starts(
    world: &World,
    scheduler: &One,
    workflow: &Workflow,
    id: &str,
    payment: Value,
) -> Handled {
    let announced = world.announced(workflow, id, json!({"payment": payment}));
    handles(world, scheduler, announced)
}

/// What `send` was asked for.
fn input_of_send(world: &World) -> Option<Value> {
    let sent = world.sent("agent.mail");
    sent.last().map(|request| request["input"].clone())
}

/// The causes of the dead letters, and for each that was marked as replayed its id, in the order of sending.
fn letters(world: &World) -> Vec<String> {
    let inner = world.inner();
    let to = inner.sent.iter().filter(|m| m.topic == DEAD_LETTER);
    let named = to.filter_map(|m| {
        let mut headers = m.headers.iter();
        let (_, value) = headers
            .find(|(name, _)| ["triad-cause", "triad-replay-of"].contains(&name.as_str()))?;
        String::from_utf8(value.clone()?).ok()
    });
    named.collect()
}

#[test]
fn a_key_costs_one_write_and_leads_an_event_to_its_order() {
    let world = World::new();
    let (workflow, scheduler) = (workflow(&world), scheduler(&world));
    assert_eq!(
        starts(&world, &scheduler, &workflow, "o", json!("pay-7")),
        Handled::Done
    );
    let control = |asked: &Asked| matches!(asked, Asked::ControlRead | Asked::ControlWrite);
    let cost: Vec<Asked> = world.asked().into_iter().filter(control).collect();
    assert_eq!(cost, [Asked::ControlWrite]);
    let expires = world.inner().expires["awaited/paid/pay-7"];
    assert_eq!(expires.map(|at| at.0), Some(BEGIN + DAY + KEPT_FOR.0));
    assert_eq!(
        handles(&world, &scheduler, paid(1, "pay-7", json!(20))),
        Handled::Done
    );
    assert_eq!(input_of_send(&world), Some(json!(20)));
    assert!(letters(&world).is_empty());
    // A second delivery changes nothing, and an event that comes too late is seen.
    for (offset, event) in [(1, "repeated"), (2, "late")] {
        let record = paid(offset, "pay-7", json!(20));
        assert_eq!(
            handles(&world, &scheduler, record),
            Handled::Done,
            "{event}"
        );
    }
    assert_eq!(letters(&world), ["event-not-awaited"]);
}

#[test]
fn an_event_that_comes_too_early_is_kept_and_seen_and_its_order_takes_it() {
    let world = World::new();
    let (workflow, scheduler) = (workflow(&world), scheduler(&world));
    for _ in 0..2 {
        assert_eq!(
            handles(&world, &scheduler, paid(3, "pay-7", json!(20))),
            Handled::Done
        );
    }
    assert_eq!(
        letters(&world),
        ["unknown-key"; 2],
        "of one record, delivered twice"
    );
    // A whole number is a key, too.
    assert_eq!(
        starts(&world, &scheduler, &workflow, "other", json!(7)),
        Handled::Done
    );
    assert_eq!(
        starts(&world, &scheduler, &workflow, "o", json!("pay-7")),
        Handled::Done
    );
    let sent = world.inner().sent.clone().into_iter();
    let events = sent.filter(|m| m.topic == "events");
    let events: Vec<InputRecord> = events.map(record).collect();
    assert_eq!(events.len(), 1);
    assert_eq!(
        letters(&world).last().map(String::as_str),
        Some("events/0/3")
    );
    assert_eq!(
        handles(&world, &scheduler, events[0].clone()),
        Handled::Done
    );
    assert_eq!(input_of_send(&world), Some(json!(20)));
    let found = world.run(order_of(&world, "paid", "7"));
    assert_eq!(found, Ok(Some(order_id("other"))));
}

#[test]
fn as_many_early_events_are_kept_as_an_order_keeps_and_no_longer_than_7_days() {
    let world = World::new();
    let (workflow, scheduler) = (workflow(&world), scheduler(&world));
    for offset in 0..9 {
        handles(&world, &scheduler, paid(offset, "pay-7", json!(offset)));
    }
    let letters = letters(&world);
    assert_eq!(letters[7..], ["unknown-key", "too-many-events"]);
    world.at(KEPT_FOR.0 + 1);
    starts(&world, &scheduler, &workflow, "o", json!("pay-7"));
    assert!(world.sent("events").is_empty(), "they have expired");
}

#[test]
fn nothing_is_written_before_the_key_is_and_an_order_without_a_key_is_given_up() {
    let world = World::new();
    let (workflow, scheduler) = (workflow(&world), scheduler(&world));
    world.inner().faults.control_raced = true;
    let answer = starts(&world, &scheduler, &workflow, "o", json!("pay-7"));
    assert!(matches!(answer, Handled::Redeliver(_)), "{answer:?}");
    assert_eq!(world.inner().orders[&order_id("o")].state.name(), "Pending");
    world.inner().faults.control_raced = false;
    for (id, payment) in [
        ("none", Value::Null),
        ("long", json!("x".repeat(129))),
        ("part", json!(7.5)),
    ] {
        assert_eq!(
            starts(&world, &scheduler, &workflow, id, payment),
            Handled::Done
        );
        let order = world.inner().orders[&order_id(id)].clone();
        let cause = order.state.cause().expect("a cause").to_string();
        assert!(cause.contains("paid/expression"), "{cause}");
    }
}

/// A record that can never be read or written must not hold up the records behind it.
#[test]
fn a_key_whose_record_is_damaged_is_seen_as_a_dead_letter() {
    let world = World::new();
    let (workflow, scheduler) = (workflow(&world), scheduler(&world));
    world.inner().faults.control_unreadable = true;
    let event = paid(1, "pay-7", json!(20));
    assert_eq!(handles(&world, &scheduler, event), Handled::Done);
    let answer = starts(&world, &scheduler, &workflow, "o", json!("pay-7"));
    assert_eq!(answer, Handled::Done);
    assert_eq!(letters(&world), ["unreadable-key", "unwritable-key"]);
    let state = world.inner().orders[&order_id("o")].state.name();
    assert_eq!(state, "Pending", "the Supervisor announces it again");
}
