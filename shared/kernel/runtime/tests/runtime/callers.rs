//! What Submission answers its callers.

use triad_core::submission::SubmissionRefusal;
use triad_runtime::settings::Settings;
use triad_runtime::submission::{Submission, Submitted};
use triad_runtime::{InputRecord, Redelivery, StoreError};

use crate::support::{Asked, World, order_id};

type One = Submission<World, World, World>;

fn submission(world: &World, unstarted: usize) -> One {
    world.workflow("w");
    let settings = Settings {
        unstarted,
        ..Settings::default()
    };
    Submission::new(world.clone(), world.clone(), world.clone(), settings)
}

fn record(topic: &str, value: &str) -> InputRecord {
    InputRecord {
        topic: topic.into(),
        timestamp_ms: -1,
        value: Some(value.as_bytes().to_vec()),
        ..InputRecord::default()
    }
}

fn order(id: &str) -> InputRecord {
    record(
        "orders",
        &format!(r#"{{"order_id": "{id}", "workflow": "w"}}"#),
    )
}

fn is_no_room(submitted: &Submitted) -> bool {
    matches!(submitted, Submitted::Later(Redelivery::NoRoom(_)))
}

#[test]
fn it_is_told_what_is_new_what_was_there_and_what_is_refused_and_nobody_else_is() {
    let world = World::new();
    let submission = submission(&world, 100);
    let mut other = order("1");
    other.value = Some(br#"{"order_id": "1", "workflow": "w", "details": {"n": 1}}"#.to_vec());
    let records = [
        order("1"),
        order("1"),
        other,
        record("orders", "{"),
        order("2"),
    ];
    let said = world.run(submission.submit(&records));
    let id = order_id;
    assert_eq!(said[0], Submitted::Accepted(id("1")));
    assert_eq!(said[1], Submitted::Repeated(id("1")));
    let conflict = SubmissionRefusal::Conflict("1".into());
    assert_eq!(said[2], Submitted::Refused(conflict));
    assert!(matches!(&said[3], Submitted::Refused(why) if why.code() == "not-json"));
    assert_eq!(said[4], Submitted::Accepted(id("2")));
    assert_eq!(world.sent("dead-letter").len(), 0);
    assert_eq!(world.sent("alerts").len(), 0);
    // The first order's status is sent again, because no Scheduler has claimed the order.
    assert_eq!(world.sent("status").len(), 3);
    assert_eq!(world.sent("scheduler").len(), 3);
}

/// Claims every stored order, as a Scheduler does.
fn take_up(world: &World) {
    for order in world.inner().orders.values_mut() {
        order.sequence = 2;
    }
}

#[test]
fn a_look_that_another_one_was_ahead_of_was_not_in_vain() {
    let world = World::new();
    let submission = submission(&world, 2);
    let stored = |said: &[Submitted]| matches!(said[0], Submitted::Accepted(_));
    for id in ["1", "2"] {
        assert!(stored(&world.run(submission.submit(&[order(id)]))));
    }
    take_up(&world);
    world.inner().faults.eventually_takes = 5;
    let (three, four) = ([order("3")], [order("4")]);
    let both = futures::future::join(submission.submit(&three), submission.submit(&four));
    let (three, four) = world.run(both);
    assert!(stored(&three) && stored(&four), "{three:?}, {four:?}");
    take_up(&world);
    let said = world.run(submission.submit(&[order("5")]));
    assert!(stored(&said), "the Schedulers keep up: {said:?}");
}

#[test]
fn callers_who_all_look_in_vain_at_once_make_the_next_look_no_later() {
    let world = World::new();
    let submission = submission(&world, 1);
    assert!(matches!(
        world.run(submission.submit(&[order("1")]))[0],
        Submitted::Accepted(_)
    ));
    world.asked();
    world.inner().faults.eventually_takes = 5;
    let waiting = [[order("2")], [order("3")], [order("4")]];
    let said = world.run(futures::future::join_all(
        waiting.iter().map(|order| submission.submit(order)),
    ));
    assert!(said.iter().all(|said| is_no_room(&said[0])), "{said:?}");
    for at in [249, 250, 749, 750] {
        world.at(at);
        assert!(is_no_room(&world.run(submission.submit(&waiting[0]))[0]));
    }
    let looks = world.moments(|asked| matches!(asked, Asked::LoadEventually(_)));
    assert_eq!(looks, [0, 0, 0, 250, 750]);
}

/// How many of 300 new orders Submission admits at this time.
fn let_in_at(world: &World, submission: &One, at: u64) -> usize {
    world.at(at);
    let new = (0..300).map(|n| order(&format!("{at}-{n}")));
    let let_in = new.take_while(|o| {
        let said = world.run(submission.submit(std::slice::from_ref(o)));
        matches!(said[0], Submitted::Accepted(_))
    });
    let_in.count()
}

#[test]
fn orders_that_nothing_has_room_for_hold_up_those_behind_them_until_the_bound_is_four_times_what_it_was()
 {
    let world = World::new();
    let submission = submission(&world, 40);
    let at = [0, 250, 750, 1_750, 3_749, 3_750, 5_750, 7_750, 9_750];
    let let_in = at.map(|at| let_in_at(&world, &submission, at));
    assert_eq!(let_in, [40, 0, 0, 0, 0, 40, 40, 40, 0]);
}

#[test]
fn where_it_is_not_known_how_far_the_schedulers_are_the_bound_stays() {
    let world = World::new();
    let submission = submission(&world, 40);
    let in_vain = [0, 250, 750, 1_750].map(|at| let_in_at(&world, &submission, at));
    assert_eq!(in_vain, [40, 0, 0, 0]);
    world.inner().faults.unreadable = true;
    let unread = [3_750, 5_750].map(|at| let_in_at(&world, &submission, at));
    assert_eq!(unread, [0, 0]);
}

#[test]
fn a_clock_that_was_set_back_does_not_make_the_next_look_later() {
    let world = World::new();
    world.at(1_000);
    let submission = submission(&world, 1);
    world.run(submission.submit(&[order("1")]));
    world.asked();
    for at in [1_000, 500, 749, 750, 1_249, 1_250] {
        world.at(at);
        assert!(is_no_room(&world.run(submission.submit(&[order("2")]))[0]));
    }
    let looks = world.moments(|asked| matches!(asked, Asked::LoadEventually(_)));
    assert_eq!(looks, [1_000, 500, 750, 1_250]);
}

#[test]
fn without_room_it_is_told_so_at_once() {
    let world = World::new();
    let submission = submission(&world, 1);
    let said = world.run(submission.submit(&[order("1")]));
    assert_eq!(said, [Submitted::Accepted(order_id("1"))]);
    world.asked();
    let said = world.run(submission.submit(&[order("2")]));
    assert!(is_no_room(&said[0]), "{said:?}");
    let slept = |asked: &Asked| matches!(asked, Asked::Slept(_));
    assert!(!world.asked().iter().any(slept), "it is looked for once");
    assert!(!world.inner().orders.contains_key(&order_id("2")));
}

#[test]
fn an_order_without_room_holds_up_no_other_callers() {
    let world = World::new();
    let submission = submission(&world, 1);
    world.run(submission.submit(&[order("1")]));
    let high = r#"{"order_id": "3", "workflow": "w"}"#;
    let said = world.run(submission.submit(&[order("2"), record("orders.high", high)]));
    assert!(is_no_room(&said[0]), "{said:?}");
    assert_eq!(said[1], Submitted::Accepted(order_id("3")));
}

#[test]
fn what_was_stored_and_not_announced_is_to_come_again() {
    let world = World::new();
    let submission = submission(&world, 100);
    world.inner().faults.refused_topic = Some("scheduler");
    let said = world.run(submission.submit(&[order("1")]));
    assert!(
        matches!(&said[0], Submitted::Later(Redelivery::Unsent(_))),
        "{said:?}"
    );
    world.inner().faults.refused_topic = None;
    let said = world.run(submission.submit(&[order("1")]));
    assert_eq!(said, [Submitted::Repeated(order_id("1"))]);
    assert_eq!(world.sent("scheduler").len(), 1);
}

#[test]
fn only_what_may_pass_is_to_come_again() {
    let later = Submitted::from(StoreError::Transient("throttled".into()));
    assert!(!later.is_done());
    assert!(!triad_runtime::Handled::from(later).is_done());
    for done in [
        Submitted::Accepted(order_id("1")),
        Submitted::Repeated(order_id("1")),
        Submitted::Refused(SubmissionRefusal::Tombstone),
        Submitted::Rejected("full".into()),
    ] {
        assert!(done.is_done());
        assert!(triad_runtime::Handled::from(done).is_done());
    }
}
