//! Two versions of Triad in one installation: the older one cannot read everything that the newer one writes.

use serde_json::{Value, json};
use triad_core::Order;
use triad_runtime::scheduler::Scheduler;
use triad_runtime::settings::Settings;
use triad_runtime::submission::Submission;
use triad_runtime::supervisor::{Report, Supervisor};
use triad_runtime::{Handled, InputRecord, Redelivery};
use triad_workflow::hash::canonical_json;
use triad_workflow::{Millis, Workflow};

use crate::support::{BEGIN, World, compiled, compiled_from, order_id};

fn submits(world: &World, orders: &[Value]) -> Vec<Handled> {
    let record = |order: &Value| InputRecord {
        topic: "orders".into(),
        timestamp_ms: -1,
        value: Some(order.to_string().into_bytes()),
        ..InputRecord::default()
    };
    let records: Vec<InputRecord> = orders.iter().map(record).collect();
    let w = || world.clone();
    let submission = Submission::new(w(), w(), w(), Settings::default());
    world.run(submission.handle(&records))
}

/// One sweep of a newly started process.
fn sweep(world: &World) -> Report {
    world.index();
    let w = || world.clone();
    let supervisor = Supervisor::new(w(), w(), w(), w(), Settings::default());
    world.run(supervisor.sweep(Millis(60_000)))
}

fn handle(world: &World, records: &[InputRecord]) -> Vec<Handled> {
    let w = || world.clone();
    let scheduler = Scheduler::new(w(), w(), w(), w(), Settings::default());
    world.run(scheduler.handle(records))
}

fn stored(world: &World, id: &str) -> Order {
    let inner = world.inner();
    let order = inner.orders.get(&order_id(id));
    order.cloned().expect("it is stored")
}

/// A process of the newer version writes the order.
fn upgrade(world: &World, workflow: &Workflow) {
    world.publish(workflow, canonical_json(&workflow.definition));
}

#[test]
fn orders_wait_for_a_definition_that_only_a_newer_version_can_read_and_no_others_do() {
    let world = World::new();
    world.workflow("w");
    let newer = compiled_from(json!({
        "workflow": "newer", "order_timeout": "1h", "search": {"customer": "${details.customer}"},
        "steps": [{"id": "pay", "agent": "bank", "action": "take", "compensation": "none"}]}));
    world.of_a_newer_version(&newer);
    let orders = [
        json!({"order_id": "a", "workflow": "newer", "details": {"customer": "ALFKI"}}),
        json!({"order_id": "b", "workflow": "w"}),
    ];
    assert_eq!(submits(&world, &orders), [Handled::Done, Handled::Done]);
    let sent = world.sent("scheduler");
    assert_eq!(sent.len(), 1, "only the other one is announced: {sent:?}");
    let waits = stored(&world, "a");
    assert!(waits.is_unread() && waits.set_aside.is_some(), "{waits:?}");

    // A Supervisor of the older release cannot read the order's definition. In three sweeps it sends one alert, and it
    // never changes the order.
    for _ in 0..3 {
        assert_eq!(sweep(&world).admitted, 0);
    }
    let alerts = world.sent("alerts");
    let [alert] = &alerts[..] else {
        panic!("{alerts:?}")
    };
    let cause = alert["cause"].as_str().unwrap_or_default();
    assert!(cause.contains("of_a_newer_version"), "{alert}");

    upgrade(&world, &newer);
    assert_eq!(sweep(&world).admitted, 1);
    let order = stored(&world, "a");
    assert_eq!((order.steps.len(), order.set_aside), (1, None));
    assert_eq!(order.search[0].to_string(), "customer=ALFKI");
    assert_eq!(order.deadline.map(|at| at.0), Some(BEGIN + 3_600_000));
    assert_eq!(world.sent("scheduler").len(), 1, "it is asked for");
    assert!(world.sent("dead-letter").is_empty() && world.sent("alerts").is_empty());
}

#[test]
fn details_that_do_not_fit_are_found_once_the_definition_can_be_read() {
    let world = World::new();
    let newer = compiled_from(json!({
        "workflow": "newer", "details_schema": {"required": ["sum"]},
        "steps": [{"id": "pay", "agent": "bank", "action": "take", "compensation": "none"}]}));
    world.of_a_newer_version(&newer);
    let orders = [
        json!({"order_id": "a", "workflow": "newer"}),
        json!({"order_id": "b", "workflow": "newer", "details": {"sum": 1}}),
    ];
    assert_eq!(submits(&world, &orders), [Handled::Done, Handled::Done]);
    upgrade(&world, &newer);
    sweep(&world);
    let unfit = stored(&world, "a");
    let cause = unfit.state.cause().map(|cause| cause.code.as_str());
    assert_eq!(
        (unfit.state.name(), cause),
        ("Error", Some("details-do-not-fit"))
    );
    assert_eq!(world.sent("alerts").len(), 1);
    assert_eq!(stored(&world, "b").set_aside, None);
}

#[test]
fn orders_under_way_wait_without_letters_and_with_one_alert() {
    let world = World::new();
    let workflow = world.workflow("w");
    let announced: Vec<_> = ["a", "b"]
        .map(|id| world.announced(&workflow, id, json!({})))
        .into();
    assert_eq!(handle(&world, &announced), [Handled::Done, Handled::Done]);
    let replies = world.replies();
    // The functions are rolled back to the older version after the newer one has published the current definition.
    world.of_a_newer_version(&workflow);
    let before = stored(&world, "a");
    assert_eq!(handle(&world, &replies), [Handled::Done, Handled::Done]);
    world.after(600_000);
    for _ in 0..3 {
        let report = sweep(&world);
        assert_eq!((report.waiting, report.written), (2, 0));
    }
    assert_eq!(stored(&world, "a"), before);
    assert!(world.sent("dead-letter").is_empty());
    assert_eq!(world.sent("alerts").len(), 1, "one for both");

    upgrade(&world, &workflow);
    sweep(&world);
    world.after(10_000);
    let report = sweep(&world);
    assert_eq!((report.waiting, report.written), (0, 2), "both go on");
}

#[test]
fn orders_that_wait_for_their_definition_take_nobodys_part_of_a_sweep() {
    let world = World::new();
    let (workflow, other) = (compiled("newer"), world.workflow("w"));
    for n in 0..300 {
        let _ = world.announced(&workflow, &format!("o-{n}"), json!({}));
    }
    let _ = world.announced(&other, "z", json!({}));
    world.of_a_newer_version(&workflow);
    world.after(90_000);
    world.index();
    let w = || world.clone();
    let settings = Settings {
        sweep_limit: 2,
        sweep_page: 1,
        ..Settings::default()
    };
    let supervisor = Supervisor::new(w(), w(), w(), w(), settings);
    let report = world.run(supervisor.sweep(Millis(60_000)));
    assert_eq!((report.waiting, report.written), (300, 1));
}

#[test]
fn a_message_of_a_newer_version_waits_for_a_minute_and_then_is_a_letter() {
    let world = World::new();
    let workflow = world.workflow("w");
    let announced = world.announced(&workflow, "a", json!({}));
    let mut value: Value =
        serde_json::from_slice(announced.value.as_deref().unwrap_or_default()).expect("JSON");
    value["type"] = json!("of-a-newer-version");
    let newer = |timestamp_ms: u64| InputRecord {
        value: Some(value.to_string().into_bytes()),
        timestamp_ms: i64::try_from(timestamp_ms).expect("a time"),
        ..announced.clone()
    };
    world.after(100_000);
    let now = world.inner().now;
    for (sent_at, waits) in [
        (now, true),
        (now - 59_999, true),
        (now - 60_000, false),
        (now + 59_999, true),
        (now + 60_000, false),
    ] {
        let handled = handle(&world, &[newer(sent_at)]);
        let is_late = matches!(handled[..], [Handled::Redeliver(Redelivery::Newer(_))]);
        assert_eq!(is_late, waits, "{sent_at}: {handled:?}");
        assert_eq!(world.sent("dead-letter").len(), usize::from(!waits));
    }
    let foreign = InputRecord {
        headers: Vec::new(),
        ..newer(now)
    };
    assert_eq!(handle(&world, &[foreign]), [Handled::Done]);
    assert_eq!(world.sent("dead-letter").len(), 1, "nobody else's waits");
}
