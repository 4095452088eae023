//! Limits on what a sweep reads of the due index.

use serde_json::json;
use triad_core::due::aside_shard;
use triad_core::outbox::{Emission, Writer};
use triad_core::status::Status;
use triad_core::{
    Attempt, Claim, ClaimId, Direction, Failure, FailureKind, OrderId, ProcessState, StepState,
    Timestamp, Work, topics,
};
use triad_runtime::DueRow;
use triad_runtime::settings::{AdmissionSettings, Settings};
use triad_runtime::supervisor::{Report, Supervisor};
use triad_workflow::Millis;
use triad_workflow::hash::canonical_json;

use crate::support::{Asked, World, compiled_from, order_id};

fn sweep(world: &World, settings: Settings) -> Report {
    let w = || world.clone();
    let supervisor = Supervisor::new(w(), w(), w(), w(), settings);
    world.run(supervisor.sweep(Millis(60_000)))
}

/// Settings that allow one order of the workflow `w` in flight.
fn one_of_w() -> Settings {
    let w = triad_workflow::WorkflowName::new("w").expect("a name");
    Settings {
        admission: AdmissionSettings {
            in_flight: None,
            per_workflow: [(w, 1)].into(),
            reject_after: None,
        },
        ..Settings::default()
    }
}

fn rows(count: usize) -> Vec<DueRow> {
    let row = |n| DueRow {
        order: order_id(&format!("gone-{n}")),
        workflow: None,
    };
    (0..count).map(row).collect()
}

#[test]
fn a_sweep_reads_pages_of_100_rows_up_to_10000_where_nothing_is_set() {
    let world = World::new();
    world.inner().faults.endless = true;
    world.inner().due.insert(0, rows(1_000));
    let report = sweep(&world, Settings::default());
    assert_eq!((report.found, report.truncated), (10_000, true));
    let is_page = |asked: &Asked| matches!(asked, Asked::Due { limit: 100, .. });
    assert_eq!(world.times(is_page), 100);
    let one_by_one = Settings {
        sweep_page: 1,
        ..Settings::default()
    };
    assert_eq!(sweep(&world, one_by_one).found, 10_000);
}

#[test]
fn orders_that_are_announced_again_rest_for_longer_the_more_there_are() {
    let world = World::new();
    let workflow = world.workflow("w");
    let ids: Vec<String> = (0..50).map(|n| format!("o-{n}")).collect();
    for id in &ids {
        let _ = world.announced(&workflow, id, json!({}));
    }
    let row = |id: &String| DueRow {
        order: order_id(id),
        workflow: None,
    };
    world.inner().due.insert(0, ids.iter().map(row).collect());
    let w = || world.clone();
    let settings = Settings {
        announce_apart: Millis(3_000),
        ..Settings::default()
    };
    let supervisor = Supervisor::new(w(), w(), w(), w(), settings);
    world.after(90_000);
    let now = world.inner().now;
    let report = world.run(supervisor.sweep(Millis(60_000)));
    assert_eq!(report.written, 50);
    let inner = world.inner();
    let mut rests: Vec<u64> = inner
        .orders
        .values()
        .map(|o| o.complete_by().expect("it waits").0 - now)
        .collect();
    rests.sort_unstable();
    let apart: Vec<u64> = (0..50).map(|n| 60_000 + n * 3_000).collect();
    assert_eq!(rests, apart);
}

/// Stores orders whose wait is over, all in one shard.
fn over(world: &World, count: usize) {
    let workflow = compiled_from(json!({"workflow": "w", "steps": [
        {"id": "pause", "wait": {"for": "1d"}},
        {"id": "pay", "agent": "bank", "action": "take", "compensation": "none"}]}));
    world.publish(&workflow, canonical_json(&workflow.definition));
    for n in 0..count {
        let id = format!("o-{n:05}");
        let _ = world.announced(&workflow, &id, json!({}));
        let mut inner = world.inner();
        let now = Timestamp(inner.now);
        let order = inner.orders.get_mut(&order_id(&id)).expect("it is stored");
        order.steps[0].state = StepState::Acting(Work::Parked {
            attempt: Attempt(1),
            since: now,
            until: now,
            ends: None,
            events: Vec::new(),
            keys: Default::default(),
        });
        let row = DueRow {
            order: order_id(&id),
            workflow: None,
        };
        inner.due.entry(0).or_default().push(row);
    }
    world.after(1_000);
}

/// How long a sweep of pages of this size has rested each time, how often it has looked for claims, and how many
/// messages it has sent.
fn paced(world: &World, sweep_page: u32) -> (Vec<u64>, usize, usize) {
    world.asked();
    let settings = Settings {
        sweep_page,
        ..Settings::default()
    };
    let report = sweep(world, settings);
    assert_eq!(report.written, report.found);
    let asked = world.asked();
    let looks = asked
        .iter()
        .filter(|a| matches!(a, Asked::LoadEventually(1)));
    let looks = looks.count();
    let rests = asked.iter().filter_map(|asked| match asked {
        Asked::Slept(ms) => Some(*ms),
        _ => None,
    });
    (rests.collect(), looks, world.sent(topics::SCHEDULER).len())
}

#[test]
fn orders_whose_wait_is_over_are_woken_18_at_once_every_10_milliseconds() {
    for (count, rests) in [(18, 0), (19, 1), (72, 3)] {
        let world = World::new();
        over(&world, count);
        assert_eq!(paced(&world, 100), (vec![10; rests], 0, count));
    }
}

#[test]
fn orders_that_are_to_start_now_are_woken_at_the_same_pace() {
    let world = World::new();
    over(&world, 19);
    for order in world.inner().orders.values_mut() {
        order.steps[0].state = StepState::Waiting;
        order.start_at = order.due;
        order.state = ProcessState::Pending {
            complete_by: order.due,
        };
    }
    world.after(60_000);
    assert_eq!(paced(&world, 100), (vec![10], 0, 19));
}

#[test]
fn while_schedulers_claim_the_orders_that_a_sweep_wakes_it_goes_by_the_rate() {
    let world = World::new();
    over(&world, 900);
    // To an eventually consistent read they are gone, and so were claimed.
    world.inner().faults.absent_eventually = true;
    let (rests, looks, sent) = paced(&world, 100);
    // A page has five groups of 18 orders and one of ten.
    assert_eq!(rests.iter().sum::<u64>(), (900 - 10) * 10 / 18);
    assert_eq!((looks, sent), (54 - 4, 900));
}

#[test]
fn a_sweep_with_more_than_64_woken_orders_that_nobody_claims_waits_for_a_second_once() {
    let world = World::new();
    over(&world, 1_000);
    let (rests, looks, sent) = paced(&world, 100);
    let in_vain = [8, 16, 32, 64, 128, 256, 512];
    assert_eq!(rests, [&[10; 4][..], &in_vain].concat(), "then it is late");
    assert_eq!((looks, sent), (8, 1_000));
    for (orders, looks) in [(65, 0), (66, 8)] {
        let world = World::new();
        over(&world, orders);
        assert_eq!(paced(&world, 1).1, looks, "{orders}");
    }
}

/// Stores orders that have ended in Error with their last status unsent, all in one shard.
fn untold(world: &World, orders: std::ops::Range<usize>, reply_topic: Option<&str>) {
    let workflow = world.workflow("w");
    for n in orders {
        let id = format!("o-{n:05}");
        world.announced(&workflow, &id, json!({}));
        let mut inner = world.inner();
        let at = Timestamp(inner.now);
        let cause = Failure::new(FailureKind::Permanent, "refused", "");
        let order = inner.orders.get_mut(&order_id(&id)).expect("it is stored");
        order.reply_topic = reply_topic.map(str::to_owned);
        order.state = ProcessState::Error {
            at,
            cause: cause.clone(),
        };
        order.due = Some(at);
        order.outbox.writer = Writer::Supervisor;
        order.outbox.entries = vec![Emission::Status {
            sequence: 2,
            status: Status::Failed,
            step: None,
            at,
            cause: Some(cause),
        }];
        let row = DueRow {
            order: order_id(&id),
            workflow: None,
        };
        inner.due.entry(0).or_default().push(row);
    }
}

#[test]
fn ends_that_a_topic_refuses_have_one_page_of_a_sweep_and_are_deferred_for_longer_each_time() {
    let world = World::new();
    untold(&world, 0..500, Some("reply.a"));
    untold(&world, 500..510, None);
    world.inner().faults.refused_topic = Some("reply.a");
    let due_of = |n: usize| world.inner().orders[&order_id(&format!("o-{n:05}"))].due;
    let mut waited = Vec::new();
    for _ in 0..5 {
        world.asked();
        let began = world.inner().now;
        let tried = world.inner().refusals;
        let report = sweep(&world, Settings::default());
        assert_eq!(
            world.inner().refusals - tried,
            100,
            "a page of them is sent"
        );
        assert_eq!(report.failed, 500);
        let due: Vec<_> = (0..500).map(due_of).collect();
        assert!(due.iter().all(|at| *at == due[0]), "each is deferred");
        let wait = due[0].expect("it is due").0 - began;
        waited.push(wait);
        world.after(wait);
    }
    assert_eq!(waited, [30_000, 30_000, 60_000, 120_000, 120_000]);
    assert!(
        (500..510).all(|n| due_of(n).is_none()),
        "the others are told"
    );
    world.inner().faults.refused_topic = None;
    assert_eq!(sweep(&world, Settings::default()).confirmed, 500);
}

/// Stores an order whose failed step waits 5 s for another attempt.
fn failed(world: &World) -> OrderId {
    let workflow = compiled_from(json!({"workflow": "w", "steps": [
        {"id": "pay", "agent": "bank", "action": "take", "compensation": "none",
         "supervisor": {"failure_threshold": 3, "delay": "5s"}}]}));
    world.publish(&workflow, canonical_json(&workflow.definition));
    let _ = world.announced(&workflow, "o-1", json!({}));
    let (id, now) = (order_id("o-1"), Timestamp(world.inner().now));
    let mut inner = world.inner();
    let order = inner.orders.get_mut(&id).expect("it is stored");
    order.state = ProcessState::Processing(Claim {
        locked_by: ClaimId("c".into()),
        complete_by: now,
    });
    order.steps[0].error = Some(Failure::new(FailureKind::Transient, "busy", ""));
    order.steps[0].state = StepState::Acting(Work::Failed {
        direction: Direction::Forward,
        attempt: Attempt(1),
        started: now,
        calls: 1,
    });
    order.due = Some(now);
    order.outbox.writer = Writer::Scheduler;
    id
}

#[test]
fn that_a_step_is_tried_again_after_a_wait_is_told_once() {
    for (refused, same, told) in [(false, true, 1), (false, false, 2), (true, true, 1)] {
        let world = World::new();
        let id = failed(&world);
        let w = || world.clone();
        let new = || Supervisor::new(w(), w(), w(), w(), Settings::default());
        let (first, second) = (new(), new());
        let sweep = |supervisor: &Supervisor<_, _, _, _>| {
            world.index();
            world.run(supervisor.sweep(Millis(60_000)))
        };
        let work = || world.inner().orders[&id].steps[0].state.work().cloned();
        world.inner().faults.refused = refused;
        world.after(1_000);
        assert_eq!(sweep(&first).written, 1);
        assert!(matches!(work(), Some(Work::Delayed { .. })), "{:?}", work());
        world.inner().faults.refused = false;
        world.after(60_000);
        let next = if same { &first } else { &second };
        assert_eq!(sweep(next).written, 1);
        assert!(matches!(work(), Some(Work::Due { .. })), "{:?}", work());
        let sent = world.sent(topics::STATUS);
        let retrying = sent.iter().filter(|status| status["status"] == "retrying");
        assert_eq!(
            retrying.count(),
            told,
            "refused {refused}, same {same}: {sent:?}"
        );
        let unsent = world.inner().orders[&id].outbox.entries.clone();
        let unsent = unsent
            .iter()
            .filter(|e| matches!(e, Emission::Status { .. }));
        assert_eq!(
            unsent.count(),
            usize::from(refused || !same),
            "what the Scheduler sends again"
        );
    }
}

#[test]
fn orders_are_announced_again_two_milliseconds_apart_where_nothing_is_set() {
    assert_eq!(Settings::default().announce_apart, Millis(2));
}

#[test]
fn a_sweep_begins_no_page_beyond_its_limit_of_rows_and_says_so() {
    let world = World::new();
    world.inner().due.insert(3, rows(1_000));
    let limited = |sweep_limit| Settings {
        sweep_limit,
        ..Settings::default()
    };
    for (limit, found) in [(1, 100), (100, 100), (101, 200), (250, 300)] {
        let report = sweep(&world, limited(limit));
        assert_eq!((report.found, report.truncated), (found, true), "{limit}");
        assert!(!report.is_whole());
    }
    let report = sweep(&world, limited(1_001));
    assert_eq!((report.found, report.truncated), (1_000, false));
    assert!(report.is_whole());
}

#[test]
fn a_sweep_begins_no_page_once_its_time_is_over_and_says_so() {
    let world = World::new();
    world.inner().faults.page_takes = 1_000;
    let w = || world.clone();
    let supervisor = Supervisor::new(w(), w(), w(), w(), Settings::default());
    for (time, pages) in [(0, 0), (1, 1), (2_000, 2), (2_001, 3)] {
        let report = world.run(supervisor.sweep(Millis(time)));
        assert!(report.truncated && !report.is_whole(), "{time}");
        let read = world.times(|asked| matches!(asked, Asked::Due { .. }));
        assert_eq!(read, pages, "{time}");
    }
    // One page for each of the 16 shards, and for each of the 16 of orders that are set aside.
    let report = world.run(supervisor.sweep(Millis(32_000)));
    assert!(!report.truncated && report.is_whole());
}

#[test]
fn sweeps_that_are_cut_short_do_not_begin_with_the_same_shard() {
    let world = World::new();
    world.inner().faults.page_takes = 1_000;
    let w = || world.clone();
    let supervisor = Supervisor::new(w(), w(), w(), w(), Settings::default());
    for first in 0..32 {
        world.inner().random = first;
        world.run(supervisor.sweep(Millis(1)));
        let shard = (first % 16) as u32;
        assert_eq!(world.asked(), [Asked::Due { shard, limit: 100 }]);
    }
}

#[test]
fn a_sweep_that_could_not_read_a_shard_is_not_whole() {
    let unread = Report {
        unread: 1,
        ..Report::default()
    };
    assert!(Report::default().is_whole() && !unread.is_whole());
}

#[test]
fn a_sweep_reads_each_of_16_shards_and_of_16_where_orders_are_set_aside() {
    let world = World::new();
    let mut met = [0; 40];
    for random in 0..16 {
        world.inner().random = random;
        sweep(&world, Settings::default());
        for asked in world.asked() {
            if let Asked::Due { shard, .. } = asked {
                met[shard as usize] += 1;
            }
        }
    }
    assert_eq!(met[..32], [16; 32]);
    assert_eq!(met[32..], [0; 8]);
}

#[test]
fn of_orders_that_are_set_aside_100_are_passed_over_that_cannot_be_let_in() {
    for (unreadable, admitted) in [(100, 1), (101, 0)] {
        let world = World::new();
        let workflow = world.workflow("w");
        for n in 0..unreadable {
            world.aside(&workflow, &format!("o-{n}"), false);
        }
        world.aside(&workflow, "good", true);
        let report = sweep(&world, one_of_w());
        assert_eq!(report.admitted, admitted, "{unreadable}");
    }
}

#[test]
fn of_a_shard_12_pages_are_read_in_search_of_one_workflows_orders() {
    let world = World::new();
    let shard = aside_shard(&world.workflow("w").name);
    // The index still has rows of orders of another workflow, whose records are deleted.
    let other = world.workflow("other");
    let of_other = |row: DueRow| DueRow {
        workflow: Some(other.name.clone()),
        ..row
    };
    let rows = rows(1_000).into_iter().map(of_other).collect();
    world.inner().due.insert(shard, rows);
    world.inner().faults.endless = true;
    world.inner().random = u64::from(shard);
    sweep(&world, one_of_w());
    let asked = world.asked();
    let of_shard = |asked: &&Asked| matches!(asked, Asked::Due { shard: s, .. } if *s == shard);
    // One further page shows which workflows have orders set aside.
    assert_eq!(asked.iter().filter(of_shard).count(), 1 + 12);
}

/// The alerts about unreadable records since the previous query, by order.
fn unreadable(world: &World) -> Vec<String> {
    let alerts = world.sent(triad_core::topics::ALERTS);
    let about = alerts.iter().filter(|a| a["kind"] == "unreadable");
    about
        .map(|a| a["order_id"].as_str().expect("an id").to_owned())
        .collect()
}

#[test]
fn operators_are_told_of_a_record_that_cannot_be_read_once_a_day() {
    let day = 24 * 3_600_000;
    let world = World::new();
    world.inner().due.insert(3, rows(2));
    world.inner().faults.unreadable = true;
    let both = ["gone-0", "gone-1"];
    let times = [
        (0, &both[..]),
        (60_000, &[]),
        (day - 1, &[]),
        (day, &both),
        (day + 1, &[]),
    ];
    for (at, told) in times {
        world.at(at);
        assert_eq!(sweep(&world, Settings::default()).failed, 2);
        assert_eq!(unreadable(&world), told, "after {at} ms");
    }
}

#[test]
fn an_alert_about_a_record_that_was_not_sent_is_sent_by_the_next_sweep() {
    let world = World::new();
    world.inner().due.insert(3, rows(1));
    world.inner().faults.unreadable = true;
    world.inner().faults.refused = true;
    sweep(&world, Settings::default());
    assert_eq!(unreadable(&world).len(), 0);
    world.inner().faults.refused = false;
    sweep(&world, Settings::default());
    assert_eq!(unreadable(&world), ["gone-0"]);
}

#[test]
fn a_page_of_records_that_cannot_be_read_waits_two_seconds_for_a_silent_topic() {
    let world = World::new();
    world.inner().due.insert(3, rows(20));
    world.inner().faults.unreadable = true;
    world.inner().faults.silent_alerts = true;
    let began = world.inner().now;
    assert_eq!(sweep(&world, Settings::default()).failed, 20);
    assert_eq!(world.inner().now - began, 2_000);
}

#[test]
fn nobody_is_told_of_a_record_that_cannot_be_read_for_now() {
    let world = World::new();
    world.inner().due.insert(3, rows(1));
    assert_eq!(sweep(&world, Settings::default()).left, 1, "it has gone");
    assert_eq!(unreadable(&world).len(), 0);
}
