//! An agent's checks before a call: how long work waits for a call permission, and when deferred work is due again.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use triad_core::breaker::Breaker;
use triad_core::downstream::{Change, Downstream, DownstreamAction, ForcedTo, key};
use triad_core::{OperatorAct, Timestamp};
use triad_runtime::settings::{DownstreamSettings, Settings};
use triad_runtime::{ControlRecord, Fault, InputRecord};
use triad_workflow::Millis;

use crate::agent::{Answers, Service, bank, name, replies, request};
use crate::support::{Asked, BEGIN, World};

fn limited(downstream: DownstreamSettings) -> Settings {
    Settings {
        downstreams: [(name(), downstream)].into(),
        ..Settings::default()
    }
}

/// Stores the record of a downstream in the control store.
fn known(world: &World, record: &Downstream) {
    let record = ControlRecord {
        version: 1,
        value: serde_json::to_value(record).expect("JSON"),
    };
    world.inner().control.insert(key(&name()), record);
}

fn paused() -> Downstream {
    let act = OperatorAct::new("ann", "a reason");
    let action = DownstreamAction::Force(ForcedTo::Open);
    let paused = Downstream::default().operated(&action, &act, Timestamp(BEGIN));
    paused.expect("it is not paused").told()
}

fn asks_to_be_left_alone() -> Answers {
    Answers::With(Err(Fault::Transient {
        code: "http-503".into(),
        message: "busy".into(),
        retry_after: Some(Millis(1_000)),
        maybe_applied: false,
    }))
}

/// For how long the only reply defers its work, in milliseconds from its send time.
fn deferred(world: &World) -> u64 {
    let [(at, outcome)] = &replies(world)[..] else {
        panic!("one answer")
    };
    assert_eq!(outcome["result"], "deferred");
    outcome["until"].as_u64().expect("a moment") - BEGIN - at
}

#[test]
fn who_finds_the_limit_reached_waits_for_two_seconds_and_comes_back_within_five() {
    let world = World::new();
    // A random number whose remainders distinguish 5,000 from 2,500 and 10,000.
    world.inner().random = 9_999;
    let service = Service::new(&world, Answers::Never);
    let one = DownstreamSettings {
        concurrency: Some(1),
        ..DownstreamSettings::default()
    };
    let bank = bank(&world, &service, limited(one));
    world.run(bank.handle(&[request("o-1"), request("o-2")], None));
    let replies = replies(&world);
    let (at, outcome) = &replies[0];
    assert_eq!((*at, &outcome["result"]), (2_000, &json!("deferred")));
    assert_eq!(outcome["failure"]["code"], "concurrency-limit");
    assert_eq!(outcome["until"], BEGIN + 2_000 + 4_999);
}

#[test]
fn what_waits_for_the_same_moment_is_spread_over_half_a_minute() {
    let world = World::new();
    world.inner().random = 59_999;
    let breaker = Breaker::Open {
        opens: 1,
        until: Timestamp(BEGIN + 100_000),
    };
    let record = Downstream {
        breaker,
        ..Downstream::default()
    };
    known(&world, &record);
    let service = Service::new(&world, Answers::Never);
    world.run(bank(&world, &service, Settings::default()).handle_one(&request("o-1"), None));
    assert_eq!(deferred(&world), 100_000 + 29_999);
}

/// `triad resume` prints this limit: work waits at most `recheck_held`, whatever the random number.
#[test]
fn what_an_operator_holds_back_is_spread_over_the_half_before_it_is_looked_at_again() {
    for (random, waits) in [
        (0, 30_000),
        (29_999, 15_001),
        (30_000, 30_000),
        (15_000, 22_500),
    ] {
        let world = World::new();
        world.inner().random = random;
        known(&world, &paused());
        let service = Service::new(&world, Answers::Never);
        let bank = bank(&world, &service, Settings::default());
        world.run(bank.handle_one(&request("o-1"), None));
        assert_eq!(deferred(&world), waits, "{random}");
    }
}

#[test]
fn what_waits_says_when_its_downstream_may_be_called_again_without_the_spread() {
    let says = |record: &Downstream| {
        let world = World::new();
        world.inner().random = 59_999;
        known(&world, record);
        let service = Service::new(&world, Answers::Never);
        world.run(bank(&world, &service, Settings::default()).handle_one(&request("o-1"), None));
        let (at, outcome) = replies(&world).swap_remove(0);
        let moment = |name: &str| outcome[name].as_u64().expect("a moment") - BEGIN - at;
        (moment("opens"), moment("until"))
    };
    let breaker = Breaker::Open {
        opens: 1,
        until: Timestamp(BEGIN + 30_000),
    };
    let open = Downstream {
        breaker,
        ..Downstream::default()
    };
    assert_eq!(says(&open), (30_000, 30_000 + 29_999));
    // The end of a pause is unknown, so the Scheduler gets the same due time for all waiting orders.
    assert_eq!(says(&paused()), (30_000 - 14_999, 30_000 - 14_999));
}

#[test]
fn what_an_operator_holds_back_is_looked_at_again_after_half_a_minute() {
    let world = World::new();
    known(&world, &paused());
    let service = Service::new(&world, Answers::Never);
    let bank = bank(&world, &service, Settings::default());
    world.run(bank.handle_one(&request("o-1"), None));
    assert_eq!(deferred(&world), 30_000);
}

#[test]
fn a_downstreams_record_is_read_every_two_seconds_where_nothing_is_set() {
    let world = World::new();
    let service = Service::new(&world, Answers::With(Ok(json!({}))));
    let bank = bank(&world, &service, Settings::default());
    let reads = |at: u64| {
        world.at(at);
        world.run(bank.handle_one(&request(&format!("o-{at}")), None));
        world.times(|asked| *asked == Asked::ControlRead)
    };
    assert_eq!((reads(0), reads(1_999), reads(2_000)), (1, 0, 1));
}

#[test]
fn a_change_that_was_not_told_is_told_after_five_seconds_by_whoever_reads_it() {
    let world = World::new();
    let last = Change {
        at: Timestamp(BEGIN),
        what: "is down".into(),
        operator: None,
        told: false,
    };
    let record = Downstream {
        last,
        ..Downstream::default()
    };
    known(&world, &record);
    let service = Service::new(&world, Answers::With(Ok(json!({}))));
    let told = |at: u64| {
        world.at(at);
        // A new process of the agent.
        let bank = bank(&world, &service, Settings::default());
        world.run(bank.handle_one(&request("o-1"), None));
        world.sent("alerts").len()
    };
    assert_eq!((told(4_999), told(5_000), told(6_000)), (0, 1, 0));
}

#[test]
fn calls_wait_for_two_seconds_for_a_change_to_be_told() {
    let world = World::new();
    world.inner().faults.silent_alerts = true;
    let service = Service::new(&world, asks_to_be_left_alone());
    let bank = bank(&world, &service, Settings::default());
    let three = ["o-1", "o-2", "o-3"].map(request);
    world.run(bank.handle(&three, None));
    let last = replies(&world).into_iter().map(|(at, _)| at).max();
    assert_eq!((service.called(), last), (vec![0; 3], Some(2_000)));
}

#[test]
fn a_change_of_the_breaker_is_tried_four_times() {
    let world = World::new();
    world.inner().faults.control_raced = true;
    let service = Service::new(&world, asks_to_be_left_alone());
    let bank = bank(&world, &service, Settings::default());
    world.run(bank.handle(&["o-1", "o-2", "o-3"].map(request), None));
    assert_eq!(world.times(|asked| *asked == Asked::ControlWrite), 4);
}

#[test]
fn the_leave_to_probe_is_asked_for_four_times() {
    let world = World::new();
    let breaker = Breaker::Open {
        opens: 1,
        until: Timestamp(BEGIN),
    };
    let record = Downstream {
        breaker,
        ..Downstream::default()
    };
    known(&world, &record);
    world.inner().faults.control_raced = true;
    let service = Service::new(&world, Answers::Never);
    let bank = bank(&world, &service, Settings::default());
    world.run(bank.handle_one(&request("o-1"), None));
    assert_eq!(world.times(|asked| *asked == Asked::ControlWrite), 4);
    assert!(service.called().is_empty(), "nobody let it probe");
    assert_eq!(deferred(&world), 1_000);
}

#[test]
fn leave_of_a_rate_is_asked_for_four_times_and_then_after_50_ms() {
    let world = World::new();
    world.inner().random = 99;
    world.inner().faults.control_raced = true;
    let service = Service::new(&world, Answers::Never);
    let rate = DownstreamSettings {
        rate_per_second: Some(10),
        ..DownstreamSettings::default()
    };
    let bank = bank(&world, &service, limited(rate));
    world.run(bank.handle_one(&request("o-1"), None));
    let asked = world.asked();
    let slept = asked
        .iter()
        .position(|asked| matches!(asked, Asked::Slept(_)));
    let slept = slept.expect("it waits");
    assert_eq!(asked[slept], Asked::Slept(50));
    let before = asked[..slept].iter();
    assert_eq!(
        before
            .filter(|asked| **asked == Asked::ControlWrite)
            .count(),
        4
    );
}

fn refused() -> Fault {
    Fault::CallerRefused {
        code: "http-401".into(),
        message: "the token has expired".into(),
        maybe_applied: false,
    }
}

/// A request for the given attempt.
fn attempt(order: &str, attempt: u32) -> InputRecord {
    let mut record = request(order);
    let first = record.value.take().expect("a request");
    let mut request: Value = serde_json::from_slice(&first).expect("JSON");
    request["attempt"] = attempt.into();
    record.value = Some(request.to_string().into_bytes());
    record
}

/// A service that refuses every caller's credentials, as with an expired token, says nothing about the orders: they
/// must not be compensated.
#[test]
fn a_service_that_accepts_its_caller_for_no_order_is_left_alone_and_operators_are_told() {
    let world = World::new();
    let service = Service::new(&world, Answers::With(Err(refused())));
    let bank = bank(&world, &service, Settings::default());
    for order in ["o-1", "o-2", "o-3"] {
        assert_eq!(world.sent("alerts").len(), 0);
        world.run(bank.handle_one(&request(order), None));
        let (_, outcome) = &replies(&world)[0];
        assert_eq!(outcome["result"], "deferred", "nothing has failed");
        assert_eq!(outcome["failure"]["code"], "http-401");
        assert_eq!(outcome["failure"]["message"], "the token has expired");
        assert_ne!(outcome["maybe_applied"], true);
    }
    world.run(bank.handle_one(&request("o-4"), None));
    let (_, outcome) = &replies(&world)[0];
    assert_eq!(outcome["failure"]["code"], "breaker-open");
    assert_eq!(service.called().len(), 3, "three orders were enough");
    let alerts = world.sent("alerts");
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    let text = alerts[0].to_string();
    assert!(
        text.contains("http-401") && text.contains("credentials"),
        "{text}"
    );
}

#[test]
fn an_order_that_is_refused_while_others_are_served_fails_by_itself_and_opens_no_breaker() {
    let world = World::new();
    let well = || Ok(json!({}));
    let answers = [
        Err(refused()),
        well(),
        Err(refused()),
        well(),
        Err(refused()),
        well(),
    ];
    let service = Service::new(
        &world,
        Answers::InTurn(Arc::new(Mutex::new(answers.into()))),
    );
    let bank = bank(&world, &service, Settings::default());
    let mut came = Vec::new();
    for n in 1..=3 {
        for record in [attempt("blocked", n), request(&format!("good-{n}"))] {
            world.run(bank.handle_one(&record, None));
            let (_, outcome) = replies(&world).swap_remove(0);
            came.push(outcome["result"].as_str().expect("a result").to_owned());
        }
    }
    let wanted = [
        "deferred",
        "succeeded",
        "deferred",
        "succeeded",
        "failed",
        "succeeded",
    ];
    assert_eq!(came, wanted);
    assert_eq!(world.sent("alerts").len(), 0);
}

/// Only one order calls the service. Its token may have expired, so the order waits.
#[test]
fn an_order_that_is_refused_three_times_while_nothing_succeeds_is_told_of_and_holds_up_nobody_for_long()
 {
    let world = World::new();
    let service = Service::new(&world, Answers::With(Err(refused())));
    let bank = bank(&world, &service, Settings::default());
    let mut waits = Vec::new();
    for n in 1..=6 {
        world.at(n * 100_000);
        world.run(bank.handle_one(&attempt("o-1", u32::try_from(n).expect("small")), None));
        waits.push(deferred(&world));
    }
    assert_eq!(
        waits,
        [1_000, 2_000, 4_000, 8_000, 16_000, 30_000],
        "longer each time"
    );
    let record = world.inner().control[&key(&name())].clone();
    let record: Downstream = serde_json::from_value(record.value).expect("a record");
    let Breaker::Open { until, .. } = record.breaker else {
        panic!("{record:?}");
    };
    assert_eq!(
        until,
        Timestamp(BEGIN + 600_000 + 500),
        "half a second, as at first"
    );
}

#[test]
fn a_wait_that_a_service_asks_of_one_order_holds_up_that_order_alone() {
    let world = World::new();
    let service = Service::new(&world, asks_to_be_left_alone());
    let bank = bank(&world, &service, Settings::default());
    let waits = |order: &str| {
        world.run(bank.handle_one(&request(order), None));
        deferred(&world)
    };
    assert_eq!(waits("o-1"), 1_000);
    assert_eq!(waits("o-2"), 1_000);
    assert_eq!(service.called().len(), 2, "nobody waits for another's time");
    waits("o-3");
    world.run(bank.handle_one(&request("o-4"), None));
    let (_, outcome) = replies(&world).swap_remove(0);
    assert_eq!(
        outcome["failure"]["code"], "breaker-open",
        "three were asked to wait"
    );
}
