//! A Scheduler's limits on tries, caches and starts of orders, and its reports on orders that it holds back.

use serde_json::{Value, json};
use triad_core::message::{Pace, ReplyOutcome, SchedulerMessage};
use triad_core::{Failure, FailureKind, Priority, Timestamp, Wake, render};
use triad_runtime::pressure::{Pressure, Report, present, report};
use triad_runtime::scheduler::Scheduler;
use triad_runtime::settings::Settings;
use triad_runtime::{ControlStore, Handled, InputRecord, Redelivery, Written};
use triad_workflow::{Millis, Workflow};

use crate::support::{Asked, BEGIN, World, order_id, padded, record};

type One = Scheduler<World, World, World, World>;

fn scheduler(world: &World) -> One {
    let w = || world.clone();
    Scheduler::new(w(), w(), w(), w(), Settings::default())
}

fn announced(
    world: &World,
    workflow: &Workflow,
    orders: std::ops::Range<usize>,
) -> Vec<InputRecord> {
    orders
        .map(|n| world.announced(workflow, &format!("o-{n:05}"), json!({})))
        .collect()
}

/// For each write of the store, the number of its orders.
fn commits(world: &World) -> Vec<usize> {
    let asked = world.asked().into_iter();
    asked
        .filter_map(|asked| match asked {
            Asked::Commit(orders) => Some(orders),
            _ => None,
        })
        .collect()
}

#[test]
fn an_event_is_decided_five_times_where_others_are_faster() {
    let world = World::new();
    let workflow = world.workflow("w");
    let records = announced(&world, &workflow, 0..1);
    world.inner().faults.raced = true;
    let answers = world.run(scheduler(&world).handle(&records));
    assert_eq!(answers, [Handled::Redeliver(Redelivery::Raced)]);
    assert_eq!(commits(&world), [1; 5]);
}

#[test]
fn a_request_that_its_topic_does_not_take_is_left_to_a_sweep_and_operators_are_told() {
    let world = World::new();
    let workflow = world.workflow("w");
    let records = announced(&world, &workflow, 0..1);
    world.inner().faults.small_topic = Some(("agent.bank", 100));
    let answers = world.run(scheduler(&world).handle(&records));
    assert_eq!(
        answers,
        [Handled::Done],
        "what lies behind it need not wait"
    );
    assert_eq!(world.sent("alerts")[0]["kind"], "misconfigured");
}

#[test]
fn an_order_that_has_ended_well_and_may_not_be_told_is_put_into_the_due_index_once() {
    let world = World::new();
    let workflow = world.workflow("w");
    let scheduler = scheduler(&world);
    world.run(scheduler.handle(&announced(&world, &workflow, 0..1)));
    let replies = world.replies();
    world.inner().faults.refused_topic = Some("status");
    world.asked();
    let order = || world.inner().orders[&order_id("o-00000")].clone();
    assert_eq!(world.run(scheduler.handle(&replies)), [Handled::Done]);
    assert_eq!(
        (order().state.name(), commits(&world)),
        ("Processed", vec![1, 1])
    );
    let due = order().due.expect("a sweep finds it");
    assert_eq!(due, Timestamp(world.inner().now + 30_000));
    assert_eq!(world.sent("alerts")[0]["kind"], "misconfigured");
    // The redelivered reply is acknowledged, because the index already has the order.
    assert_eq!(world.run(scheduler.handle(&replies)), [Handled::Done]);
    assert_eq!((order().due, commits(&world)), (Some(due), vec![]));
    world.inner().faults.refused_topic = None;
    assert_eq!(world.run(scheduler.handle(&replies)), [Handled::Done]);
    assert_eq!(
        world.sent("status").pop().expect("a status")["status"],
        "completed"
    );
}

#[test]
fn where_an_end_that_may_not_be_told_cannot_be_put_into_the_due_index_its_reply_comes_again() {
    let world = World::new();
    let workflow = world.workflow("w");
    let scheduler = scheduler(&world);
    world.run(scheduler.handle(&announced(&world, &workflow, 0..1)));
    let replies = world.replies();
    world.inner().faults.refused_topic = Some("status");
    world.run(scheduler.handle(&replies));
    world
        .inner()
        .orders
        .get_mut(&order_id("o-00000"))
        .expect("it is stored")
        .due = None;
    world.inner().faults.unwritten = true;
    let answers = world.run(scheduler.handle(&replies));
    assert!(!answers[0].is_done(), "{answers:?}");
}

#[test]
fn the_failure_of_a_reply_is_kept_up_to_its_bounds() {
    let world = World::new();
    let workflow = world.workflow("w");
    let records = announced(&world, &workflow, 0..1);
    world.run(scheduler(&world).handle(&records));
    let request = world.sent("agent.bank").remove(0);
    let request = serde_json::from_value(request).expect("a request");
    let failure = Failure {
        kind: FailureKind::Permanent,
        step: None,
        code: "c".repeat(1_000),
        message: "m".repeat(300_000),
    };
    let outcome = ReplyOutcome::Failed {
        failure,
        maybe_applied: false,
    };
    let now = Timestamp(world.inner().now);
    let reply = render::reply(&request, 1, outcome, Pace::default(), now, None);
    let answers = world.run(scheduler(&world).handle(&[record(reply)]));
    assert_eq!(answers, [Handled::Done]);
    let order = world.inner().orders[&order_id("o-00000")].clone();
    let failure = order.steps[0].error.clone().expect("it has failed");
    assert_eq!((failure.code.len(), failure.message.len()), (64, 768));
}

#[test]
fn a_copy_that_is_of_no_use_takes_none_of_the_five() {
    let world = World::new();
    let workflow = world.workflow("w");
    announced(&world, &workflow, 0..1);
    world.inner().faults.raced = true;
    world.inner().faults.absent_eventually = true;
    let wake = SchedulerMessage::Wake(Wake {
        order_id: order_id("o-00000"),
    });
    let record = InputRecord {
        topic: "scheduler".into(),
        value: Some(serde_json::to_vec(&wake).expect("JSON")),
        ..InputRecord::default()
    };
    let answers = world.run(scheduler(&world).handle(&[record]));
    assert_eq!(answers, [Handled::Redeliver(Redelivery::Raced)]);
    assert_eq!(commits(&world), [1; 5]);
}

#[test]
fn an_order_is_kept_whose_message_has_16_kib_at_most() {
    for (bytes, is_kept) in [(16 * 1024, true), (16 * 1024 + 1, false)] {
        let world = World::new();
        let workflow = world.workflow("w");
        let scheduler = scheduler(&world);
        let record = padded(&announced(&world, &workflow, 0..1)[0], bytes);
        assert_eq!(world.run(scheduler.handle(&[record])), [Handled::Done]);
        world.asked();
        assert_eq!(
            world.run(scheduler.handle(&world.replies())),
            [Handled::Done]
        );
        let reads = world.times(|asked| matches!(asked, Asked::LoadEventually(_) | Asked::Load(_)));
        assert_eq!(reads == 0, is_kept, "{bytes}");
    }
}

#[test]
fn of_2048_orders_a_copy_is_kept_where_nothing_is_set() {
    for (orders, is_kept) in [(2_048, true), (2_049, false)] {
        let world = World::new();
        let workflow = world.workflow("w");
        let scheduler = scheduler(&world);
        let records = announced(&world, &workflow, 0..orders);
        // After half a minute without an event, an order no longer counts towards the limit.
        for some in records.chunks(16) {
            assert!(
                world
                    .run(scheduler.handle(some))
                    .iter()
                    .all(Handled::is_done)
            );
            world.after(31_000);
        }
        let first = world.replies().into_iter().next().expect("a request");
        world.asked();
        world.run(scheduler.handle(&[first]));
        let reads = world.times(|asked| matches!(asked, Asked::LoadEventually(_)));
        assert_eq!(reads == 0, is_kept, "{orders}");
    }
}

#[test]
fn waiting_orders_are_started_eight_times_after_a_batch() {
    let world = World::new();
    let workflow = world.workflow("w");
    let records = announced(&world, &workflow, 0..300);
    world.inner().faults.unwritten = true;
    world.run(scheduler(&world).handle(&records));
    // Orders that cannot be written free their room at once, so all orders are tried in writes of 16.
    assert_eq!(commits(&world), [16; 9]);
}

#[test]
fn of_waiting_orders_256_are_started_at_once() {
    let world = World::new();
    let workflow = world.workflow("w");
    let scheduler = scheduler(&world);
    world.run(scheduler.handle(&announced(&world, &workflow, 0..6_000)));
    // Each reply comes at once, so the window grows each time.
    let mut under_way = world.replies();
    while under_way.len() < 300 {
        world.after(1);
        world.run(scheduler.handle(&under_way));
        under_way = world.replies();
    }
    // After half a minute without a reply, as many other orders may start.
    world.after(1);
    world.run(scheduler.handle(&announced(&world, &workflow, 6_000..6_001)));
    world.asked();
    world.after(30_000);
    world.run(scheduler.handle(&[]));
    let started = commits(&world);
    assert_eq!(started[0], 256);
    assert!(started.iter().sum::<usize>() >= 300, "{started:?}");
}

#[test]
fn what_is_held_back_is_told_every_five_seconds_and_kept_for_an_hour() {
    let world = World::new();
    let workflow = world.workflow("w");
    let scheduler = scheduler(&world);
    world.run(scheduler.handle(&announced(&world, &workflow, 0..100)));
    assert_eq!(world.times(|asked| *asked == Asked::ControlWrite), 1);
    let expires = world.inner().expires.get("pressure/0").copied().flatten();
    assert_eq!(expires, Some(Timestamp(BEGIN + 3_600_000)));
    for (at, times) in [(4_999, 0), (5_000, 1), (9_999, 0), (10_000, 1)] {
        world.at(at);
        world.run(scheduler.handle(&[]));
        let told = world.times(|asked| *asked == Asked::ControlWrite);
        assert_eq!(told, times, "{at}");
    }
}

/// The number of waiting orders in the latest report.
fn told_to_wait(world: &World) -> usize {
    let now = Timestamp(world.inner().now);
    let told = world.run(present(world, now)).expect("it can be read");
    told.iter().map(|one| one.waiting).sum()
}

#[test]
fn what_is_told_to_wait_is_taken_back_when_it_no_longer_does() {
    let world = World::new();
    let workflow = world.workflow("w");
    let scheduler = scheduler(&world);
    world.run(scheduler.handle(&announced(&world, &workflow, 0..20)));
    assert!(told_to_wait(&world) > 0);
    // All requests under way are answered, and the waiting orders start.
    world.after(1);
    world.run(scheduler.handle(&world.replies()));
    assert!(!scheduler.is_waiting());
    assert_eq!(told_to_wait(&world), 0);
    // The end of the waiting is reported once.
    world.asked();
    world.after(10_000);
    world.run(scheduler.handle(&[]));
    assert_eq!(world.times(|asked| *asked == Asked::ControlWrite), 0);
}

#[test]
fn what_is_held_back_is_told_in_eight_places_and_counts_for_20_seconds() {
    let world = World::new();
    let one = Pressure {
        agent: None,
        lane: Priority::Normal,
        under_way: 1,
        bound: 1,
        waited: Millis(0),
        shut_until: Timestamp(0),
        waiting: 1,
        oldest: None,
    };
    let made = Report {
        at: Timestamp(BEGIN),
        downstreams: vec![one],
    };
    for place in 0..20 {
        let written = world.run(report(&world, place, &made, place));
        assert_eq!(written, Ok(Written::Written));
    }
    let known: Vec<String> = world.inner().control.keys().cloned().collect();
    let places: Vec<String> = (0..8).map(|n| format!("pressure/{n}")).collect();
    assert_eq!(known, places);
    let waiting = |at: u64| {
        let found = world.run(present(&world, Timestamp(BEGIN + at)));
        let found = found.expect("it can be read");
        found.iter().map(|one| one.waiting).sum::<usize>()
    };
    assert_eq!((waiting(19_999), waiting(20_000)), (8, 0));
    let read = world.run(world.read("pressure/7".into(), false));
    assert!(read.is_ok_and(|found| found.is_some()));
}

/// Takes the sent requests and answers each of them in the same way.
fn answered(world: &World, outcome: &ReplyOutcome, pace: Pace) -> Vec<InputRecord> {
    let now = Timestamp(world.inner().now);
    let requests = world.sent("agent.bank").into_iter();
    requests
        .map(|request| {
            let request = serde_json::from_value(request).expect("a request");
            record(render::reply(&request, 1, outcome.clone(), pace, now, None))
        })
        .collect()
}

/// The latest report on the window of the agent.
fn window(world: &World) -> Pressure {
    let now = Timestamp(world.inner().now);
    let told = world.run(present(world, now)).expect("it can be read");
    let of_agent = told.into_iter().find(|one| one.agent.is_some());
    of_agent.expect("something is told of the agent")
}

#[test]
fn a_window_is_shut_until_its_downstream_may_be_called_and_not_until_one_order_comes_back() {
    let world = World::new();
    let workflow = world.workflow("w");
    let scheduler = scheduler(&world);
    world.run(scheduler.handle(&announced(&world, &workflow, 0..17)));
    let deferred = ReplyOutcome::Deferred {
        until: Timestamp(BEGIN + 50_000),
        opens: Some(Timestamp(BEGIN + 25_000)),
        failure: Failure::new(FailureKind::Transient, "breaker-open", "it is open"),
        maybe_applied: false,
    };
    let replies = answered(&world, &deferred, Pace::default());
    world.at(5_000);
    world.run(scheduler.handle(&replies[..1]));
    assert_eq!(window(&world).shut_until, Timestamp(BEGIN + 25_000));
}

/// Carries one order of a store with topics to its good end, for which the bus refuses everything; returns how its
/// last message was handled.
fn ended(world: &World) -> Vec<Handled> {
    world.inner().has_topics = true;
    let workflow = world.workflow("w");
    let scheduler = scheduler(world);
    world.run(scheduler.handle(&announced(world, &workflow, 0..1)));
    let done = ReplyOutcome::Succeeded { output: json!({}) };
    let replies = answered(world, &done, Pace::default());
    world.inner().faults.refused = true;
    world.run(scheduler.handle(&replies))
}

#[test]
fn a_good_end_and_its_status_are_one_write_where_the_store_has_the_topics() {
    let world = World::new();
    assert_eq!(ended(&world), [Handled::Done]);
    let told = world.sent("status");
    let last = told.last().expect("a status");
    assert_eq!(last["status"], "completed");
    let order = world.inner().orders[&order_id("o-00000")].clone();
    assert!(order.state.is_finished() && order.due.is_none());
}

#[test]
fn a_good_end_whose_status_is_refused_is_due_for_a_sweep() {
    let world = World::new();
    world.inner().faults.refused_topic = Some("status");
    assert_eq!(ended(&world), [Handled::Done]);
    assert_eq!(world.sent("status"), Vec::<Value>::new());
    let order = world.inner().orders[&order_id("o-00000")].clone();
    assert!(order.state.is_finished() && order.due.is_some());
}

#[test]
fn an_answer_that_comes_again_says_nothing_of_its_downstream() {
    let world = World::new();
    let workflow = world.workflow("w");
    let scheduler = scheduler(&world);
    world.run(scheduler.handle(&announced(&world, &workflow, 0..100)));
    let done = ReplyOutcome::Succeeded { output: json!({}) };
    let first = answered(&world, &done, Pace::default()).remove(0);
    world.run(scheduler.handle(std::slice::from_ref(&first)));
    // The redelivered request seems to have waited since the first delivery.
    let mut again: Value =
        serde_json::from_slice(first.value.as_deref().expect("a value")).expect("JSON");
    again["pace"]["waited_ms"] = json!(4_000);
    let again = InputRecord {
        value: Some(again.to_string().into_bytes()),
        ..first
    };
    world.at(5_000);
    world.run(scheduler.handle(&[again]));
    assert_eq!(
        window(&world).bound,
        17,
        "one more than a new one has, for the first answer"
    );
}
