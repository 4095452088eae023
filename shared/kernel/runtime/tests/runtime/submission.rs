//! Limits of Submission: how many orders it admits ahead of the Schedulers, the workflows' caps, and the number of
//! its checks.

use triad_core::Timestamp;
use triad_core::due::aside_shard;
use triad_runtime::settings::{AdmissionSettings, Settings};
use triad_runtime::submission::Submission;
use triad_runtime::{Handled, InputRecord};
use triad_workflow::Millis;

use crate::support::{Asked, World};

type One = Submission<World, World, World>;

fn submission(world: &World, settings: Settings) -> One {
    world.workflow("w");
    Submission::new(world.clone(), world.clone(), world.clone(), settings)
}

fn ahead(unstarted: usize) -> Settings {
    Settings {
        unstarted,
        ..Settings::default()
    }
}

fn capped(in_flight: Option<u32>, of_w: Option<u32>) -> Settings {
    let w = triad_workflow::WorkflowName::new("w").expect("a name");
    Settings {
        admission: AdmissionSettings {
            in_flight,
            per_workflow: of_w.map(|cap| (w, cap)).into_iter().collect(),
            reject_after: None,
        },
        ..Settings::default()
    }
}

/// Submits up to `most` orders until one is refused; returns the number admitted. Each is a batch of its own, because
/// the orders of one batch are checked together.
fn goes_on(world: &World, submission: &One, most: usize) -> usize {
    let let_in = (0..most).take_while(|_| submits(world, submission, 1) == 1);
    let_in.count()
}

/// Submits `orders` new orders in one batch; returns the number admitted.
fn submits(world: &World, submission: &One, orders: usize) -> usize {
    let known = world.inner().orders.len();
    let record = |n| InputRecord {
        topic: "orders".into(),
        timestamp_ms: -1,
        value: Some(format!(r#"{{"order_id": "o-{known}-{n}", "workflow": "w"}}"#).into_bytes()),
        ..InputRecord::default()
    };
    let records: Vec<InputRecord> = (0..orders).map(record).collect();
    let answers = world.run(submission.handle(&records));
    answers.into_iter().filter(Handled::is_done).count()
}

#[test]
fn an_order_whose_announcement_its_topic_does_not_take_is_left_to_a_sweep() {
    let world = World::new();
    let submission = submission(&world, Settings::default());
    world.inner().faults.small_topic = Some(("scheduler", 100));
    assert_eq!(submits(&world, &submission, 1), 1);
    let inner = world.inner();
    let order = inner.orders.values().next().expect("it is stored");
    assert!(order.due.is_some(), "a sweep finds it");
}

#[test]
fn an_order_that_starts_later_is_left_to_the_sweep_of_its_moment() {
    let world = World::new();
    let submission = submission(&world, Settings::default());
    let at = Timestamp(world.inner().now).plus(Millis(3_600_000));
    let value = format!(
        r#"{{"order_id": "o-1", "workflow": "w", "start_at": "{}"}}"#,
        triad_workflow::moment::text(at.0)
    );
    let record = InputRecord {
        topic: "orders".into(),
        timestamp_ms: -1,
        value: Some(value.into_bytes()),
        ..InputRecord::default()
    };
    for _ in 0..2 {
        let answers = world.run(submission.handle(std::slice::from_ref(&record)));
        assert!(answers[0].is_done());
        assert_eq!(world.sent("scheduler").len(), 0, "also when it comes again");
    }
    assert_eq!(
        world.sent("status").len(),
        2,
        "the status `received`, each time"
    );
    let inner = world.inner();
    let order = inner.orders.values().next().expect("it is stored");
    assert_eq!((order.due, order.start_at), (Some(at), Some(at)));
}

#[test]
fn an_order_whose_reply_topic_takes_nothing_holds_up_none_behind_it() {
    let world = World::new();
    let submission = submission(&world, Settings::default());
    world.inner().faults.refused_topic = Some("status");
    assert_eq!(submits(&world, &submission, 1), 1);
    assert!(world.sent("scheduler").is_empty(), "a sweep tells it first");
    let inner = world.inner();
    let order = inner.orders.values().next().expect("it is stored");
    assert!(order.due.is_some(), "a sweep finds it");
}

#[test]
fn of_a_letter_that_its_topic_does_not_take_submission_sends_the_beginning() {
    let world = World::new();
    let submission = submission(&world, Settings::default());
    world.inner().faults.small_topic = Some(("dead-letter", 10_000));
    let record = InputRecord {
        topic: "orders".into(),
        value: Some(vec![b'x'; 50_000]),
        ..InputRecord::default()
    };
    assert_eq!(world.run(submission.handle(&[record])), [Handled::Done]);
    let sent = &world.inner().sent;
    let topics: Vec<&str> = sent.iter().map(|m| m.topic.as_str()).collect();
    assert_eq!(topics, ["dead-letter", "alerts"]);
}

fn looks(asked: &Asked) -> bool {
    matches!(asked, Asked::LoadEventually(_))
}

/// Claims every stored order, as the Schedulers do.
fn all_claimed(world: &World) {
    for order in world.inner().orders.values_mut() {
        order.sequence = 2;
    }
}

#[test]
fn orders_are_let_in_up_to_4096_that_nobody_has_taken_up_where_nothing_is_set() {
    let world = World::new();
    let submission = submission(&world, Settings::default());
    assert_eq!(goes_on(&world, &submission, 4_200), 4_096);
}

#[test]
fn room_is_looked_for_four_times_a_quarter_of_a_second_apart() {
    let world = World::new();
    let submission = submission(&world, ahead(5));
    assert_eq!(submits(&world, &submission, 5), 5);
    world.asked();
    assert_eq!(submits(&world, &submission, 1), 0);
    let slept = |asked: &Asked| matches!(asked, Asked::Slept(_));
    assert_eq!(world.moments(slept), [0, 250, 500, 750]);
}

#[test]
fn a_look_reads_the_newest_order_and_32_others() {
    let world = World::new();
    let submission = submission(&world, ahead(100));
    assert_eq!(submits(&world, &submission, 100), 100);
    world.asked();
    assert_eq!(submits(&world, &submission, 1), 0);
    let first = world.asked().into_iter().find(looks);
    assert_eq!(first, Some(Asked::LoadEventually(33)));
}

#[test]
fn after_a_look_in_vain_the_next_is_made_in_a_quarter_of_a_second_and_then_ever_later_up_to_two() {
    let world = World::new();
    let submission = submission(&world, ahead(5));
    submits(&world, &submission, 5);
    world.asked();
    let let_in: usize = (0..23).map(|_| submits(&world, &submission, 1)).sum();
    assert_eq!(let_in, 15, "they were not taken up for long");
    assert_eq!(
        world.moments(looks),
        [0, 250, 750, 1_750, 3_750, 5_750, 7_750]
    );
}

#[test]
fn an_order_that_is_not_found_after_ten_seconds_has_gone() {
    let world = World::new();
    let submission = submission(&world, ahead(5));
    submits(&world, &submission, 5);
    world.inner().faults.absent_eventually = true;
    world.at(8_000);
    assert_eq!(submits(&world, &submission, 1), 0, "it may be too young");
    world.at(10_000);
    assert_eq!(submits(&world, &submission, 1), 1);
}

#[test]
fn where_the_schedulers_are_idle_the_bound_grows_to_four_times() {
    let world = World::new();
    let submission = submission(&world, ahead(40));
    let mut let_in = vec![goes_on(&world, &submission, 300)];
    for _ in 0..4 {
        // The previous check found no claimed order.
        all_claimed(&world);
        world.after(2_000);
        let_in.push(goes_on(&world, &submission, 300));
    }
    assert_eq!(let_in, [40, 80, 160, 160, 160]);
}

/// The number of pages read from the due index, of the shards that `wanted` accepts.
fn pages(world: &World, wanted: impl Fn(u32) -> bool) -> usize {
    let asked = world.asked().into_iter();
    asked
        .filter(|asked| matches!(asked, Asked::Due { shard, .. } if wanted(*shard)))
        .count()
}

#[test]
fn a_count_of_the_orders_in_flight_is_relied_on_for_two_seconds() {
    let world = World::new();
    let submission = submission(&world, capped(Some(1_000), None));
    let counts = |at: u64| {
        world.at(at);
        assert_eq!(submits(&world, &submission, 1), 1);
        pages(&world, |_| true)
    };
    assert_eq!((counts(0), counts(1_999), counts(2_000)), (16, 0, 16));
}

#[test]
fn two_counts_are_a_quarter_of_a_second_apart_however_near_the_cap_is() {
    let world = World::new();
    let submission = submission(&world, capped(Some(8), None));
    let counts = |at: u64, orders: usize| {
        world.at(at);
        assert_eq!(submits(&world, &submission, orders), orders);
        pages(&world, |_| true)
    };
    // Three orders are more than a quarter of the room for eight, so all shards are counted.
    assert_eq!(counts(0, 3), 16);
    assert_eq!((counts(249, 1), counts(250, 1)), (0, 16));
}

#[test]
fn of_one_workflow_10000_orders_are_set_aside() {
    let world = World::new();
    let submission = submission(&world, capped(None, Some(0)));
    let workflow = world.workflow("w");
    for n in 0..9_999 {
        world.aside(&workflow, &format!("aside-{n}"), false);
    }
    assert_eq!(submits(&world, &submission, 2), 1);
    let is_aside = |world: &World| {
        let inner = world.inner();
        inner.orders.values().all(|order| order.set_aside.is_some())
    };
    assert!(is_aside(&world));
}

#[test]
fn a_count_of_what_is_set_aside_is_relied_on_for_half_a_minute() {
    let world = World::new();
    let submission = submission(&world, capped(None, Some(0)));
    let shard = aside_shard(&world.workflow("w").name);
    let counts = |at: u64| {
        world.at(at);
        assert_eq!(submits(&world, &submission, 1), 1);
        pages(&world, |asked| asked == shard)
    };
    assert_eq!((counts(0), counts(29_999), counts(30_000)), (1, 0, 1));
}

#[test]
fn a_reply_topic_that_is_not_on_the_list_is_refused_where_others_are_on_it() {
    let world = World::new();
    let submission = submission(
        &world,
        Settings {
            reply_topics: ["reply.shop".to_owned()].into(),
            ..Settings::default()
        },
    );
    for (topic, taken) in [
        ("reply.shop", true),
        ("reply.other", false),
        ("reply.shop.x", false),
        ("alerts", false),
    ] {
        let order =
            format!(r#"{{"order_id": "of-{topic}", "workflow": "w", "reply_topic": "{topic}"}}"#);
        let record = InputRecord {
            topic: "orders".into(),
            timestamp_ms: -1,
            value: Some(order.into_bytes()),
            ..InputRecord::default()
        };
        assert!(world.run(submission.handle(&[record]))[0].is_done());
        let id = crate::support::order_id(&format!("of-{topic}"));
        assert_eq!(world.inner().orders.contains_key(&id), taken, "{topic}");
        let letters = world.sent("dead-letter").len();
        assert_eq!(letters, usize::from(!taken), "{topic}");
        let told = world.sent(topic).len();
        let alerts = usize::from(topic == "alerts");
        assert_eq!(told, usize::from(taken) + alerts, "{topic}");
        world.inner().sent.clear();
    }
}

/// The refused order has a dead letter and an alert, so later records of the partition do not wait for its status.
#[test]
fn a_refused_order_whose_status_topic_is_refused_holds_up_no_other() {
    let world = World::new();
    world.inner().faults.refused_topic = Some("status");
    let submission = submission(&world, Settings::default());
    let record = InputRecord {
        topic: "orders".into(),
        timestamp_ms: -1,
        value: Some(br#"{"order_id": "o", "workflow": "no-such"}"#.to_vec()),
        ..InputRecord::default()
    };
    assert!(world.run(submission.handle(std::slice::from_ref(&record)))[0].is_done());
    assert_eq!(world.sent("dead-letter").len(), 1);
    world.inner().faults.refused_topic = Some("dead-letter");
    let answers = world.run(submission.handle(&[record]));
    assert!(!answers[0].is_done(), "without its letter it is not done");
    assert_eq!(world.sent("status").len(), 0, "and told afterwards");
}
