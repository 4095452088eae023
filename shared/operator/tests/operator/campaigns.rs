//! Campaigns: batches that grow, orders that are acted on once, and what stops one.

use std::collections::BTreeMap;

use serde_json::json;
use triad_core::message::{Alert, AlertKind};
use triad_core::{CampaignId, OperatorAct, Order, OrderId, ProcessState, Timestamp, topics};
use triad_operator::Rate;
use triad_operator::address::Place;
use triad_operator::campaign::desk::{self, CampaignError, Wanted, is_left_behind};
use triad_operator::campaign::form::{self, Held, STOP_SHARE};
use triad_operator::campaign::rules::{SIZES, Verdict, came_of, size, verdict};
use triad_operator::campaign::{
    Batch, Came, Campaign, Campaigns, Counts, Done, End, Entry, Pace, Phase, Then, View, What,
};
use triad_operator::find::{CausePattern, Filter};
use triad_runtime::operator::Operator;
use triad_runtime::settings::Settings;
use triad_runtime::{Clock, ControlStore, ControlWrite, StateStore, Write};
use triad_sim::Ports;
use triad_workflow::{Millis, Workflow};

use super::letters::Topic;
use super::support::{error, order, publish, run, workflow};

type Carrier = Campaigns<Ports, Topic, Ports, Ports>;

fn carrier(ports: &Ports, bus: &Topic) -> Carrier {
    let all = || ports.clone();
    let operator = Operator::new(all(), bus.clone(), all(), all(), Settings::default());
    Campaigns::new(operator, all(), bus.clone(), all(), all())
}

/// What operators were alerted of.
fn alerts(bus: &Topic) -> Vec<Alert> {
    let all = bus.all().into_iter().filter(|m| m.topic == topics::ALERTS);
    all.map(|m| serde_json::from_slice(&m.value).expect("an alert"))
        .collect()
}

fn wanted(what: What) -> Wanted {
    Wanted {
        what,
        filter: Filter {
            cause: Some(CausePattern("permanent/*".into())),
            ..Filter::default()
        },
        operator: OperatorAct::new("ann", "it is mended"),
        pace: Pace {
            rate: Rate::new(10_000).expect("a rate"),
            stop_share: STOP_SHARE,
            patience: Millis(20_000),
        },
    }
}

/// A turn that ends as soon as it would wait.
const SHORT: Millis = Millis(2_000);

async fn read(ports: &Ports, id: &OrderId) -> Order {
    let mut found = ports.load(vec![id.clone()]).await;
    let found = found.pop().expect("one").expect("it works");
    found.expect("it is there")
}

/// What the handlers would make of every order that was set going: this.
async fn all_become(ports: &Ports, orders: &[OrderId], state: &ProcessState) -> usize {
    let mut changed = 0;
    for id in orders {
        let order = read(ports, id).await;
        if matches!(order.state, ProcessState::Pending { .. }) {
            let mut next = order.clone();
            next.version = order.version.next();
            next.state = state.clone();
            next.due = None;
            let write = Write {
                expected: order.version,
                next: std::sync::Arc::new(next),
                token: order.version.0 + 1_000_000,
            };
            ports
                .commit(vec![write])
                .await
                .pop()
                .expect("one")
                .expect("it works");
            changed += 1;
        }
    }
    changed
}

async fn failed(ports: &Ports, workflow: &Workflow, count: u64) -> Vec<OrderId> {
    let mut ids = Vec::new();
    for n in 0..count {
        let name = format!("f-{n:03}");
        ids.push(order(ports, workflow, &name, |o| o.state = error(5 + n, "no")).await);
    }
    ids
}

/// Plays the Supervisor and the handlers until the campaign is over: of each order that is set going this
/// becomes. How large its batches were.
async fn to_its_end(
    (ports, bus): (&Ports, &Topic),
    id: &CampaignId,
    orders: &[OrderId],
    state: &ProcessState,
) -> (View, Vec<usize>) {
    for _ in 0..200 {
        assert_eq!(carrier(ports, bus).carry_on(SHORT).await.failed, 0);
        let view = View::of(&desk::by_id(ports, id).await.expect("it is there"));
        if view.is_over() {
            let mut sizes = Vec::new();
            for number in 1..=view.batch {
                let batch = desk::batch(ports, id, number).await.expect("it works");
                sizes.push(batch.expect("it is there").orders.len());
            }
            return (view, sizes);
        }
        all_become(ports, orders, state).await;
    }
    panic!("it comes to no end");
}

#[test]
fn where_the_cause_is_cured_batches_grow_until_every_order_was_acted_on_once() {
    run(async |ports: Ports| {
        let workflow = workflow("w", "go");
        publish(&ports, &workflow).await;
        let orders = failed(&ports, &workflow, 40).await;
        let bus = Topic::default();
        let started = desk::start(&ports, &ports, wanted(What::Resubmit), ports.now()).await;
        let id = started.expect("it is started").id;
        let processed = ProcessState::Processed { at: Timestamp(9) };
        let (view, sizes) = to_its_end((&ports, &bus), &id, &orders, &processed).await;
        assert_eq!((view.end, sizes), (Some("finished"), vec![1, 2, 5, 20, 12]));
        let all = 40;
        let counts = Counts {
            chosen: all,
            done: all,
            well: all,
            ..Counts::default()
        };
        assert_eq!(view.orders, counts);
        for id in &orders {
            assert_eq!(read(&ports, id).await.round, 1, "{id}");
        }
        assert_eq!(alerts(&bus), []);
    });
}

#[test]
fn an_uncured_cause_stops_it_after_three_orders_with_an_alert_and_they_are_listed() {
    run(async |ports: Ports| {
        let workflow = workflow("w", "go");
        publish(&ports, &workflow).await;
        let orders = failed(&ports, &workflow, 40).await;
        let bus = Topic::default();
        let started = desk::start(&ports, &ports, wanted(What::Resubmit), ports.now()).await;
        let id = started.expect("it is started").id;
        // Later than the start: what fails again is not chosen again.
        let again = error(2_000_000_000_000, "no");
        let (view, sizes) = to_its_end((&ports, &bus), &id, &orders, &again).await;
        assert_eq!((view.end, sizes), (Some("fails-again"), vec![1, 2]));
        assert_eq!((view.orders.done, view.orders.again), (3, 3));
        let mut left = Vec::new();
        for number in 1..=view.batch {
            let batch = desk::batch(&ports, &id, number).await.expect("it works");
            let entries = batch.expect("it is there").orders;
            left.extend(
                entries
                    .into_iter()
                    .filter(is_left_behind)
                    .map(|e| e.order_id),
            );
        }
        assert_eq!(left, orders[..3]);
        let alerts = alerts(&bus);
        let kinds: Vec<_> = alerts.iter().map(|alert| alert.kind).collect();
        assert_eq!(kinds, [AlertKind::CampaignStopped], "{alerts:?}");
        let (id_text, shown) = (id.to_string(), Place::of_alert(&alerts[0]));
        assert_eq!(shown, Some(Place::Campaign(&id_text)), "{alerts:?}");
        // Nobody carries it on any more.
        assert_eq!(carrier(&ports, &bus).carry_on(SHORT).await.alive, 0);
    });
}

#[test]
fn orders_that_come_to_no_end_stop_it_once_its_patience_is_over() {
    run(async |ports: Ports| {
        let workflow = workflow("w", "go");
        publish(&ports, &workflow).await;
        failed(&ports, &workflow, 5).await;
        let bus = Topic::default();
        let started = desk::start(&ports, &ports, wanted(What::Resubmit), ports.now()).await;
        let id = started.expect("it is started").id;
        let report = carrier(&ports, &bus).carry_on(Millis(60_000)).await;
        assert_eq!((report.acted, report.ended), (1, 1));
        let view = View::of(&desk::by_id(&ports, &id).await.expect("it is there"));
        assert_eq!(view.end, Some("stalled"), "{}", view.text);
        assert_eq!(alerts(&bus).len(), 1);
    });
}

#[test]
fn what_was_acted_on_and_not_written_down_is_known_by_the_orders() {
    run(async |ports: Ports| {
        let workflow = workflow("w", "go");
        publish(&ports, &workflow).await;
        let orders = failed(&ports, &workflow, 2).await;
        let bus = Topic::default();
        let started = desk::start(&ports, &ports, wanted(What::Resubmit), ports.now()).await;
        let id = started.expect("it is started").id;
        carrier(&ports, &bus).carry_on(SHORT).await;
        let before = read(&ports, &orders[0]).await;
        assert_eq!(before.campaign.as_ref(), Some(&id));
        // As whoever died before it wrote down what it had done has left it.
        let key = format!("campaign/{id}/1");
        let batch = ports
            .read(key.clone(), true)
            .await
            .expect("it works")
            .expect("it is there");
        let mut value = batch.value.clone();
        value["orders"][0]
            .as_object_mut()
            .expect("an entry")
            .remove("result");
        put(&ports, key, value, batch.version).await;
        let head = ports
            .read(format!("campaign/{id}"), true)
            .await
            .expect("it works");
        let head = head.expect("it is there");
        let mut value = head.value.clone();
        value["phase"] = json!({"phase": "acting"});
        put(&ports, format!("campaign/{id}"), value, head.version).await;
        let report = carrier(&ports, &bus).carry_on(SHORT).await;
        assert_eq!((report.known, report.acted), (1, 0));
        assert_eq!(read(&ports, &orders[0]).await.version, before.version);
    });
}

async fn put(ports: &Ports, key: String, value: serde_json::Value, version: u64) {
    let write = ControlWrite {
        key,
        value,
        expected: Some(version),
        expires: None,
        token: version + 7_000_000,
    };
    ports.write(write).await.expect("it works");
}

#[test]
fn a_right_that_is_missing_is_told_once_and_it_goes_on_by_itself_when_there_is_one() {
    run(async |ports: Ports| {
        let workflow = workflow("w", "go");
        publish(&ports, &workflow).await;
        failed(&ports, &workflow, 1).await;
        let bus = Topic::default();
        let started = desk::start(&ports, &ports, wanted(What::Close), ports.now()).await;
        assert!(started.is_ok());
        let carrier = carrier(&ports, &bus);
        ports.deny_control(true);
        for _ in 0..3 {
            assert_eq!(carrier.carry_on(SHORT).await.failed, 1);
        }
        let told = alerts(&bus);
        let kinds: Vec<_> = told.iter().map(|alert| alert.kind).collect();
        assert_eq!(kinds, [AlertKind::Misconfigured], "{told:?}");
        assert!(told[0].cause.contains("AccessDenied"), "{told:?}");
        ports.deny_control(false);
        assert_eq!(carrier.carry_on(SHORT).await.acted, 1);
    });
}

#[test]
fn what_came_to_need_an_operator_after_the_start_is_left_out() {
    run(async |ports: Ports| {
        let workflow = workflow("w", "go");
        publish(&ports, &workflow).await;
        failed(&ports, &workflow, 1).await;
        let bus = Topic::default();
        let started = desk::start(&ports, &ports, wanted(What::Close), ports.now()).await;
        let id = started.expect("it is started").id;
        let late = ports.now().plus(Millis(60_000));
        order(&ports, &workflow, "late", |o| o.state = error(late.0, "no")).await;
        carrier(&ports, &bus).carry_on(SHORT).await;
        let view = View::of(&desk::by_id(&ports, &id).await.expect("it is there"));
        assert_eq!((view.end, view.orders.chosen), (Some("finished"), 1));
    });
}

#[test]
fn who_carries_one_on_keeps_others_from_it_for_a_minute() {
    run(async |ports: Ports| {
        let workflow = workflow("w", "go");
        publish(&ports, &workflow).await;
        failed(&ports, &workflow, 1).await;
        let bus = Topic::default();
        let started = desk::start(&ports, &ports, wanted(What::Close), ports.now()).await;
        let id = started.expect("it is started").id;
        let key = format!("campaign/{id}");
        let head = ports
            .read(key.clone(), true)
            .await
            .expect("it works")
            .expect("it is there");
        let mut value = head.value;
        value["held"] = json!({"by": 1, "until": ports.now().0 + 60_000});
        put(&ports, key, value, head.version).await;
        let report = carrier(&ports, &bus).carry_on(SHORT).await;
        assert_eq!((report.alive, report.acted), (1, 0));
        ports.sleep(Millis(60_000)).await;
        assert_eq!(carrier(&ports, &bus).carry_on(SHORT).await.acted, 1);
    });
}

#[test]
fn one_that_an_operator_stops_acts_on_nothing_more_and_goes_on_when_it_is_resumed() {
    run(async |ports: Ports| {
        let workflow = workflow("w", "go");
        publish(&ports, &workflow).await;
        let orders = failed(&ports, &workflow, 10).await;
        let (bus, act) = (Topic::default(), OperatorAct::new("bob", "wait"));
        let started = desk::start(&ports, &ports, wanted(What::Resubmit), ports.now()).await;
        let id = started.expect("it is started").id;
        carrier(&ports, &bus).carry_on(SHORT).await;
        let stopped = desk::stop(&ports, &ports, &id, &act, ports.now()).await;
        assert_eq!(
            View::of(&desk::by_id(&ports, &id).await.expect("there")).end,
            Some("stopped")
        );
        assert!(stopped.is_ok());
        let again = desk::stop(&ports, &ports, &id, &act, ports.now()).await;
        assert!(
            matches!(again, Err(CampaignError::Already { .. })),
            "{again:?}"
        );
        assert_eq!(carrier(&ports, &bus).carry_on(SHORT).await.acted, 0);
        desk::resume(&ports, &ports, &id, &act, ports.now())
            .await
            .expect("it goes on");
        let processed = ProcessState::Processed { at: Timestamp(9) };
        all_become(&ports, &orders, &processed).await;
        let (view, sizes) = to_its_end((&ports, &bus), &id, &orders, &processed).await;
        assert_eq!((view.end, sizes), (Some("finished"), vec![1, 1, 2, 5, 1]));
        assert_eq!((view.orders.done, view.orders.well), (10, 10));
        assert_eq!(
            alerts(&bus),
            [],
            "operators know of what an operator stopped"
        );
    });
}

#[test]
fn an_empty_filter_one_without_an_index_and_the_same_once_more_are_refused() {
    run(async |ports: Ports| {
        let start = async |wanted: Wanted| {
            desk::start(&ports, &ports, wanted, ports.now())
                .await
                .map(|c| c.id)
        };
        let empty = Wanted {
            filter: Filter::default(),
            ..wanted(What::Close)
        };
        assert_eq!(start(empty).await, Err(CampaignError::EmptyFilter));
        let unindexed = Wanted {
            filter: Filter {
                workflow: Some("w".into()),
                ..Filter::default()
            },
            ..wanted(What::Close)
        };
        assert_eq!(start(unindexed).await, Err(CampaignError::NoIndex));
        for share in [0, 101] {
            let mut odd = wanted(What::Close);
            odd.pace.stop_share = share;
            assert_eq!(start(odd).await, Err(CampaignError::StopShare(share)));
        }
        let first = start(wanted(What::Close)).await.expect("it is started");
        assert_eq!(
            start(wanted(What::Close)).await,
            Err(CampaignError::Same(first))
        );
        for n in 1..desk::MAX_ALIVE {
            let mut other = wanted(What::Close);
            other.filter.id = Some(n.to_string());
            start(other).await.expect("it is started");
        }
        assert_eq!(
            start(wanted(What::Cancel)).await,
            Err(CampaignError::TooMany)
        );
    });
}

fn campaign(grown: u32, small: Came) -> Campaign {
    let Wanted {
        what,
        filter,
        operator,
        pace,
    } = wanted(What::Resubmit);
    Campaign {
        id: CampaignId::new(7),
        what,
        filter,
        operator,
        pace,
        started_at: Timestamp(1_000),
        phase: Phase::Watching {
            since: Timestamp(2_000),
        },
        batch: grown,
        grown,
        next: None,
        is_whole: false,
        is_open: true,
        counts: Counts::default(),
        small,
        notes: Vec::new(),
        held: None,
    }
}

/// A batch in which so many ended well, failed again and are under way.
fn batch(well: u32, again: u32, open: u32) -> Batch {
    let then = [
        (Some(Then::Well), well),
        (Some(Then::Again), again),
        (None, open),
    ];
    let entry = |n: usize, then| Entry {
        result: Some(Done::Done),
        then,
        ..Entry::of(OrderId::new(format!("o-{n}")).expect("an id"))
    };
    let orders = then
        .into_iter()
        .flat_map(|(then, count)| (0..count).map(move |_| then));
    Batch {
        orders: orders.enumerate().map(|(n, then)| entry(n, then)).collect(),
        next: None,
        is_whole: false,
    }
}

#[test]
fn batches_have_the_stated_sizes() {
    let sizes: Vec<u32> = (0..10)
        .map(|grown| size(&campaign(grown, Came::default())))
        .collect();
    assert_eq!(sizes, [1, 2, 5, 20, 50, 100, 200, 500, 500, 500]);
    assert!(
        SIZES[..4].iter().sum::<u32>() - 20 < 20,
        "small batches together are few"
    );
}

#[test]
fn a_batch_is_judged_by_the_share_that_fails_again() {
    use Verdict::{GoOn, Over, Watch};
    let fails = |again, of| Over(End::FailsAgain { again, of });
    let none = Came::default();
    let (soon, late) = (Timestamp(21_999), Timestamp(22_000));
    // Batches so far, of the small ones before, this one; before its patience is over, and after it.
    for (grown, small, this, early, then) in [
        (1, none, batch(1, 0, 0), GoOn, GoOn),
        // One alone may have had a trouble of its own.
        (1, none, batch(0, 1, 0), GoOn, GoOn),
        (
            2,
            Came { of: 1, again: 1 },
            batch(1, 1, 0),
            fails(2, 3),
            fails(2, 3),
        ),
        (2, Came { of: 1, again: 1 }, batch(2, 0, 0), GoOn, GoOn),
        // 20 of 100 and no more: 1 of 8 and 4 of 20 are within it, 5 of 20 are beyond it.
        (3, Came { of: 3, again: 1 }, batch(5, 0, 0), GoOn, GoOn),
        (4, Came { of: 8, again: 8 }, batch(16, 4, 0), GoOn, GoOn),
        (4, none, batch(15, 5, 0), fails(5, 20), fails(5, 20)),
        // Beyond it, whatever becomes of those that are under way.
        (4, none, batch(0, 5, 15), fails(5, 5), fails(5, 5)),
        (
            4,
            none,
            batch(0, 4, 16),
            Watch,
            Over(End::Stalled { open: 16 }),
        ),
        (4, none, batch(6, 4, 10), Watch, fails(4, 10)),
        (4, none, batch(10, 0, 10), Watch, GoOn),
        (
            4,
            none,
            batch(9, 0, 11),
            Watch,
            Over(End::Stalled { open: 11 }),
        ),
    ] {
        let campaign = campaign(grown, small);
        let judge = |now| verdict(&campaign, &this, Timestamp(2_000), now);
        assert_eq!(
            (judge(soon), judge(late)),
            (early, then),
            "{:?}",
            this.came()
        );
    }
}

#[test]
fn what_became_of_an_order_depends_on_what_was_wanted() {
    run(async |ports: Ports| {
        let workflow = workflow("w", "go");
        publish(&ports, &workflow).await;
        let id = order(&ports, &workflow, "o", |_| {}).await;
        let at = Timestamp(9);
        let mut order = read(&ports, &id).await;
        let cause = match error(5, "no") {
            ProcessState::Error { cause, .. } => cause,
            _ => unreachable!("it is an error"),
        };
        let states = BTreeMap::from([
            ("processed", ProcessState::Processed { at }),
            ("error", error(5, "no")),
            (
                "compensated",
                ProcessState::Compensated {
                    at,
                    cause: cause.clone(),
                },
            ),
            (
                "compensating",
                ProcessState::Compensating {
                    locked_by: None,
                    complete_by: at,
                    cause,
                },
            ),
            ("pending", ProcessState::Pending { complete_by: None }),
        ]);
        let (well, again) = (Some(Then::Well), Some(Then::Again));
        for (what, state, came) in [
            (What::Resubmit, "processed", well),
            (What::Resubmit, "error", again),
            (What::Resubmit, "compensated", again),
            (What::Resubmit, "compensating", again),
            (What::Resubmit, "pending", None),
            (What::Cancel, "compensated", well),
            (What::Cancel, "compensating", None),
            (What::RetryUndo, "error", again),
            (What::Close, "error", well),
            (
                What::Migrate {
                    to: order.workflow.clone(),
                },
                "error",
                well,
            ),
        ] {
            order.state = states[state].clone();
            assert_eq!(came_of(&what, Some(&order)), came, "{what:?} {state}");
        }
        assert_eq!(came_of(&What::Resubmit, None), well);
    });
}

#[test]
fn what_is_stored_is_as_in_the_golden_files() {
    let mut head = campaign(2, Came { of: 1, again: 0 });
    head.held = Some(Held {
        by: 3,
        until: Timestamp(62_000),
    });
    head.notes = vec![form::Note {
        at: Timestamp(1_500),
        what: "stopped".into(),
        operator: OperatorAct::new("bob", "wait"),
    }];
    let golden = include_str!("../golden/campaign.json");
    assert_eq!(
        serde_json::from_str::<Campaign>(golden).expect("it is read"),
        head
    );
    let written: serde_json::Value = serde_json::from_str(golden).expect("JSON");
    assert_eq!(serde_json::to_value(&head).expect("JSON"), written);
    let mut orders = batch(1, 1, 1);
    orders.orders.push(Entry {
        result: Some(Done::Refused),
        text: Some("it is closed already".into()),
        ..Entry::of(OrderId::new("o-3").expect("an id"))
    });
    let golden = include_str!("../golden/campaign-batch.json");
    assert_eq!(
        serde_json::from_str::<Batch>(golden).expect("it is read"),
        orders
    );
    let written: serde_json::Value = serde_json::from_str(golden).expect("JSON");
    assert_eq!(serde_json::to_value(&orders).expect("JSON"), written);
}
