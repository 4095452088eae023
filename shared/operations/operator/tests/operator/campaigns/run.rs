//! Runs campaigns over the simulated ports.

use serde_json::json;
use triad_core::message::{Alert, AlertKind};
use triad_core::{CampaignId, Envelope, OperatorAct, OrderId, ProcessState, Timestamp, topics};
use triad_operator::Rate;
use triad_operator::address::PageAddress;
use triad_operator::campaign::commands::{self, CampaignError, CampaignRequest, is_left_behind};
use triad_operator::campaign::form::Done;
use triad_operator::campaign::{CampaignAct, CampaignCounts, Campaigns, View};
use triad_operator::find::Filter;
use triad_runtime::operator::Operator;
use triad_runtime::ports::Written;
use triad_runtime::settings::Settings;
use triad_runtime::{Bus, BusError, Clock, ControlStore, ControlWrite, StateStore, Write};
use triad_sim::Ports;
use triad_workflow::{Millis, Workflow};

use super::super::letters::Topic;
use super::super::support::{error, order, publish, run, workflow};
use super::{read, wanted};

type Carrier = Campaigns<Ports, Topic, Ports, Ports>;

fn carrier(ports: &Ports, bus: &Topic) -> Carrier {
    let all = || ports.clone();
    let operator = Operator::new(all(), bus.clone(), all(), all(), Settings::default());
    Campaigns::new(operator, all(), bus.clone(), all(), all())
}

/// The alerts that were sent.
fn alerts(bus: &Topic) -> Vec<Alert> {
    let all = bus.all().into_iter().filter(|m| m.topic == topics::ALERTS);
    all.map(|m| serde_json::from_slice(&m.value).expect("an alert"))
        .collect()
}

/// The time given to one pass: shorter than the wait for a batch, so that the pass ends instead of waiting.
const SHORT: Millis = Millis(2_000);

/// Puts every resubmitted order into this state, as the handlers would; returns how many there were.
async fn all_become(ports: &Ports, orders: &[OrderId], state: &ProcessState) -> usize {
    let mut changed = 0;
    for id in orders {
        let order = read(ports, id).await;
        if matches!(order.state, ProcessState::Pending { .. }) {
            let mut next = order.clone();
            next.version = order.version.next();
            next.state = state.clone();
            next.due = None;
            let write = Write::silent(
                order.version,
                std::sync::Arc::new(next),
                order.version.0 + 1_000_000,
            );
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

/// Runs passes of the Supervisor until the campaign is over. After each pass, every resubmitted order gets this
/// state. Returns the campaign and the sizes of its batches.
async fn to_its_end(
    (ports, bus): (&Ports, &Topic),
    id: &CampaignId,
    orders: &[OrderId],
    state: &ProcessState,
) -> (View, Vec<usize>) {
    for _ in 0..200 {
        assert_eq!(carrier(ports, bus).carry_on(SHORT).await.failed, 0);
        let view = View::of(&commands::by_id(ports, id).await.expect("it is there"));
        if view.is_over() {
            let mut sizes = Vec::new();
            for number in 1..=view.batch {
                let batch = commands::batch(ports, id, number).await.expect("it works");
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
        let started =
            commands::start(&ports, &ports, wanted(CampaignAct::Resubmit), ports.now()).await;
        let id = started.expect("it is started").id;
        let processed = ProcessState::Processed { at: Timestamp(9) };
        let (view, sizes) = to_its_end((&ports, &bus), &id, &orders, &processed).await;
        assert_eq!(
            (view.end.as_deref(), sizes),
            (Some("finished"), vec![1, 2, 5, 20, 12])
        );
        let all = 40;
        let counts = CampaignCounts {
            chosen: all,
            done: all,
            well: all,
            ..CampaignCounts::default()
        };
        assert_eq!(view.orders, counts);
        for id in &orders {
            assert_eq!(read(&ports, id).await.run, 1, "{id}");
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
        let started =
            commands::start(&ports, &ports, wanted(CampaignAct::Resubmit), ports.now()).await;
        let id = started.expect("it is started").id;
        // A failure after the campaign's start, so that the campaign does not choose the order again.
        let again = error(2_000_000_000_000, "no");
        let (view, sizes) = to_its_end((&ports, &bus), &id, &orders, &again).await;
        assert_eq!(
            (view.end.as_deref(), sizes),
            (Some("fails-again"), vec![1, 2])
        );
        assert_eq!((view.orders.done, view.orders.again), (3, 3));
        let mut left = Vec::new();
        for number in 1..=view.batch {
            let batch = commands::batch(&ports, &id, number)
                .await
                .expect("it works");
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
        let (id_text, shown) = (id.to_string(), PageAddress::of_alert(&alerts[0]));
        assert_eq!(shown, Some(PageAddress::Campaign(&id_text)), "{alerts:?}");
        // The next pass finds no campaign that is still running.
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
        let started =
            commands::start(&ports, &ports, wanted(CampaignAct::Resubmit), ports.now()).await;
        let id = started.expect("it is started").id;
        let report = carrier(&ports, &bus).carry_on(Millis(60_000)).await;
        assert_eq!((report.acted, report.ended), (1, 1));
        let view = View::of(&commands::by_id(&ports, &id).await.expect("it is there"));
        assert_eq!(view.end.as_deref(), Some("stalled"), "{}", view.text);
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
        let started =
            commands::start(&ports, &ports, wanted(CampaignAct::Resubmit), ports.now()).await;
        let id = started.expect("it is started").id;
        carrier(&ports, &bus).carry_on(SHORT).await;
        let before = read(&ports, &orders[0]).await;
        assert_eq!(before.campaign.as_ref(), Some(&id));
        forget_the_first(&ports, &id).await;
        let report = carrier(&ports, &bus).carry_on(SHORT).await;
        assert_eq!((report.known, report.acted), (1, 0));
        assert_eq!(read(&ports, &orders[0]).await.version, before.version);
    });
}

#[test]
fn what_it_acted_on_is_known_when_another_one_has_acted_on_it_since() {
    run(async |ports: Ports| {
        let workflow = workflow("w", "go");
        publish(&ports, &workflow).await;
        let orders = failed(&ports, &workflow, 1).await;
        let (bus, act) = (Topic::default(), OperatorAct::new("bob", "wait"));
        let started =
            commands::start(&ports, &ports, wanted(CampaignAct::Resubmit), ports.now()).await;
        let id = started.expect("it is started").id;
        carrier(&ports, &bus).carry_on(SHORT).await;
        forget_the_first(&ports, &id).await;
        let stopped = commands::stop(&ports, &ports, &id, &act, ports.now()).await;
        assert!(stopped.is_ok(), "{stopped:?}");
        all_become(&ports, &orders, &error(6, "no")).await;
        let other = commands::start(&ports, &ports, wanted(CampaignAct::Close), ports.now()).await;
        let other = other.expect("it is started").id;
        carrier(&ports, &bus).carry_on(SHORT).await;
        let closed = read(&ports, &orders[0]).await;
        assert_eq!(closed.campaign.as_ref(), Some(&other));
        let resumed = commands::resume(&ports, &ports, &id, &act, ports.now()).await;
        assert!(resumed.is_ok(), "{resumed:?}");
        let report = carrier(&ports, &bus).carry_on(SHORT).await;
        assert_eq!((report.known, report.acted), (1, 0));
        assert_eq!(read(&ports, &orders[0]).await.version, closed.version);
    });
}

/// Stores a campaign as it is after a process died between the act on the first order of the first batch and the
/// record of that act.
async fn forget_the_first(ports: &Ports, id: &CampaignId) {
    let edit = async |key: String, edit: fn(&mut serde_json::Value)| {
        let found = ports.read(key.clone(), true).await.expect("it works");
        let found = found.expect("it is there");
        let mut value = found.value;
        edit(&mut value);
        put(ports, key, value, found.version).await;
    };
    edit(format!("campaign/{id}/1"), |batch| {
        let entry = batch["orders"][0].as_object_mut().expect("an entry");
        entry.remove("result");
    })
    .await;
    edit(format!("campaign/{id}"), |head| {
        head["phase"] = json!({"phase": "acting"});
    })
    .await;
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
        let started =
            commands::start(&ports, &ports, wanted(CampaignAct::Close), ports.now()).await;
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
fn an_operator_who_stops_what_has_stopped_by_itself_does_not_take_its_alert() {
    run(async |ports: Ports| {
        let workflow = workflow("w", "go");
        publish(&ports, &workflow).await;
        failed(&ports, &workflow, 1).await;
        let bus = Topic::default();
        let started =
            commands::start(&ports, &ports, wanted(CampaignAct::Close), ports.now()).await;
        let id = started.expect("it is started").id;
        // The process that ended the campaign died before it sent the alert.
        let key = format!("campaign/{id}");
        let found = ports.read(key.clone(), true).await.expect("it works");
        let mut head = found.expect("it is there");
        head.value["phase"] = json!({"phase": "ended", "at": 9, "end": "stalled", "open": 1});
        put(&ports, key, head.value, head.version).await;
        let bob = OperatorAct::new("bob", "enough");
        let stopped = commands::stop(&ports, &ports, &id, &bob, ports.now()).await;
        assert!(
            matches!(stopped, Err(CampaignError::Already { .. })),
            "{stopped:?}"
        );
        carrier(&ports, &bus).carry_on(SHORT).await;
        let kinds: Vec<_> = alerts(&bus).iter().map(|alert| alert.kind).collect();
        assert_eq!(kinds, [AlertKind::CampaignStopped]);
        carrier(&ports, &bus).carry_on(SHORT).await;
        assert_eq!(alerts(&bus).len(), 1, "once told it is over");
    });
}

#[test]
fn what_came_to_need_an_operator_after_the_start_is_left_out() {
    run(async |ports: Ports| {
        let workflow = workflow("w", "go");
        publish(&ports, &workflow).await;
        failed(&ports, &workflow, 1).await;
        let bus = Topic::default();
        let started =
            commands::start(&ports, &ports, wanted(CampaignAct::Close), ports.now()).await;
        let id = started.expect("it is started").id;
        let late = ports.now().plus(Millis(60_000));
        order(&ports, &workflow, "late", |o| o.state = error(late.0, "no")).await;
        carrier(&ports, &bus).carry_on(SHORT).await;
        let view = View::of(&commands::by_id(&ports, &id).await.expect("it is there"));
        assert_eq!(
            (view.end.as_deref(), view.orders.chosen),
            (Some("finished"), 1)
        );
    });
}

#[test]
fn who_carries_one_on_keeps_others_from_it_for_a_minute() {
    run(async |ports: Ports| {
        let workflow = workflow("w", "go");
        publish(&ports, &workflow).await;
        failed(&ports, &workflow, 1).await;
        let bus = Topic::default();
        let started =
            commands::start(&ports, &ports, wanted(CampaignAct::Close), ports.now()).await;
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
        let started =
            commands::start(&ports, &ports, wanted(CampaignAct::Resubmit), ports.now()).await;
        let id = started.expect("it is started").id;
        carrier(&ports, &bus).carry_on(SHORT).await;
        let stopped = commands::stop(&ports, &ports, &id, &act, ports.now()).await;
        assert_eq!(
            View::of(&commands::by_id(&ports, &id).await.expect("there")).end,
            Some("stopped".to_owned())
        );
        assert!(stopped.is_ok());
        let again = commands::stop(&ports, &ports, &id, &act, ports.now()).await;
        assert!(
            matches!(again, Err(CampaignError::Already { .. })),
            "{again:?}"
        );
        assert_eq!(carrier(&ports, &bus).carry_on(SHORT).await.acted, 0);
        commands::resume(&ports, &ports, &id, &act, ports.now())
            .await
            .expect("it goes on");
        let processed = ProcessState::Processed { at: Timestamp(9) };
        all_become(&ports, &orders, &processed).await;
        let (view, sizes) = to_its_end((&ports, &bus), &id, &orders, &processed).await;
        assert_eq!(
            (view.end.as_deref(), sizes),
            (Some("finished"), vec![1, 1, 2, 5, 1])
        );
        assert_eq!((view.orders.done, view.orders.well), (10, 10));
        assert_eq!(
            alerts(&bus),
            [],
            "operators know of what an operator stopped"
        );
    });
}

#[test]
fn one_that_is_resumed_within_a_batch_acts_on_little_of_it_before_it_sees_whether_that_helps() {
    run(async |ports: Ports| {
        let workflow = workflow("w", "go");
        publish(&ports, &workflow).await;
        let orders = failed(&ports, &workflow, 70).await;
        let (bus, act) = (Topic::default(), OperatorAct::new("bob", "wait"));
        let mut slow = wanted(CampaignAct::Resubmit);
        slow.pace.rate = Rate::new(10).expect("a rate");
        let started = commands::start(&ports, &ports, slow, ports.now()).await;
        let id = started.expect("it is started").id;
        let processed = ProcessState::Processed { at: Timestamp(9) };
        // Runs until four batches have succeeded and a part of the fifth, which has 42 orders, has been acted on.
        for _ in 0..200 {
            let standing = commands::by_id(&ports, &id).await.expect("there");
            if standing.counts.done > 28 {
                break;
            }
            carrier(&ports, &bus).carry_on(SHORT).await;
            all_become(&ports, &orders, &processed).await;
        }
        let standing = commands::by_id(&ports, &id).await.expect("there");
        let before = standing.counts.done;
        assert!((29..60).contains(&before), "within the batch: {before}");
        commands::stop(&ports, &ports, &id, &act, ports.now())
            .await
            .expect("it stops");
        for helps in [false, true] {
            commands::resume(&ports, &ports, &id, &act, ports.now())
                .await
                .expect("it goes on");
            let state = match helps {
                false => error(9, "no"),
                true => processed.clone(),
            };
            let (view, _) = to_its_end((&ports, &bus), &id, &orders, &state).await;
            match helps {
                false => {
                    assert_eq!(view.end.as_deref(), Some("fails-again"));
                    assert_eq!(view.orders.done, before + 3, "one, and two more");
                }
                true => {
                    assert_eq!(view.end.as_deref(), Some("finished"));
                    assert_eq!((view.orders.done, view.orders.again), (70, 3));
                }
            }
        }
        for id in &orders {
            assert_eq!(read(&ports, id).await.run, 1, "{id}");
        }
    });
}

#[test]
fn an_empty_filter_one_without_an_index_and_the_same_once_more_are_refused() {
    run(async |ports: Ports| {
        let start = async |wanted: CampaignRequest| {
            commands::start(&ports, &ports, wanted, ports.now())
                .await
                .map(|c| c.id)
        };
        let empty = CampaignRequest {
            total: None,
            filter: Filter::default(),
            ..wanted(CampaignAct::Close)
        };
        assert_eq!(start(empty).await, Err(CampaignError::EmptyFilter));
        let unindexed = CampaignRequest {
            total: None,
            filter: Filter {
                workflow: Some("w".into()),
                ..Filter::default()
            },
            ..wanted(CampaignAct::Close)
        };
        assert_eq!(start(unindexed).await, Err(CampaignError::NoIndex));
        for share in [0, 101] {
            let mut odd = wanted(CampaignAct::Close);
            odd.pace.stop_share = share;
            assert_eq!(start(odd).await, Err(CampaignError::StopShare(share)));
        }
        let first = start(wanted(CampaignAct::Close))
            .await
            .expect("it is started");
        assert_eq!(
            start(wanted(CampaignAct::Close)).await,
            Err(CampaignError::Same(first))
        );
        for n in 1..commands::MAX_ALIVE {
            let mut other = wanted(CampaignAct::Close);
            other.filter.id = Some(n.to_string());
            start(other).await.expect("it is started");
        }
        assert_eq!(
            start(wanted(CampaignAct::Cancel)).await,
            Err(CampaignError::TooMany)
        );
    });
}

/// A bus with a race: while it sends the first message, another process writes the first batch of the campaign with
/// the result "refused".
#[derive(Clone)]
struct Meddling {
    topic: Topic,
    ports: Ports,
    /// Key of the batch; `None` once the other process has written.
    batch: std::sync::Arc<std::sync::Mutex<Option<String>>>,
}

impl Bus for Meddling {
    async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
        let key = self.batch.lock().expect("nobody panics with it").take();
        if let Some(key) = key {
            let stored = self.ports.read(key.clone(), true).await;
            let stored = stored.expect("it works").expect("it is chosen");
            let mut value = stored.value;
            value["orders"][0]["result"] = json!("refused");
            let write = ControlWrite {
                key,
                value,
                expected: Some(stored.version),
                expires: None,
                token: 7,
            };
            let written = ControlStore::write(&self.ports, write).await;
            assert_eq!(written, Ok(Written::Written));
        }
        self.topic.publish(messages).await
    }
}

#[test]
fn what_a_turn_has_acted_on_is_written_down_though_another_one_has_written_the_batch() {
    run(async |ports: Ports| {
        let workflow = workflow("w", "go");
        publish(&ports, &workflow).await;
        failed(&ports, &workflow, 1).await;
        let started =
            commands::start(&ports, &ports, wanted(CampaignAct::Resubmit), ports.now()).await;
        let id = started.expect("it is started").id;
        let bus = Meddling {
            topic: Topic::default(),
            ports: ports.clone(),
            batch: std::sync::Arc::new(std::sync::Mutex::new(Some(format!("campaign/{id}/1")))),
        };
        let all = || ports.clone();
        let operator = Operator::new(all(), bus.clone(), all(), all(), Settings::default());
        let carrier = Campaigns::new(operator, all(), bus.clone(), all(), all());
        let report = carrier.carry_on(SHORT).await;
        assert_eq!((report.acted, report.failed), (1, 0));
        assert_eq!(*bus.batch.lock().expect("nobody panics with it"), None);
        let batch = commands::batch(&ports, &id, 1).await.expect("it works");
        let entries = batch.expect("it is there").orders;
        assert_eq!(entries[0].result, Some(Done::Done), "{entries:?}");
    });
}

/// A clock with a race: during its first long sleep, a process whose clock is 71 s ahead carries on every campaign
/// and ends it; then the orders fail again.
#[derive(Clone)]
struct Overtaken {
    ports: Ports,
    bus: Topic,
    /// The orders to fail; `None` once they have.
    orders: std::sync::Arc<std::sync::Mutex<Option<Vec<OrderId>>>>,
}

impl Clock for Overtaken {
    fn now(&self) -> Timestamp {
        self.ports.now()
    }

    async fn sleep(&self, span: Millis) {
        self.ports.sleep(span).await;
        // The pauses between two orders of a batch are shorter than this; only a longer sleep triggers the race.
        if span < Millis(400) {
            return;
        }
        let orders = self.orders.lock().expect("nobody panics with it").take();
        if let Some(orders) = orders {
            let all = || self.ports.clone();
            let (bus, clock) = (self.bus.clone(), Fast(all()));
            let operator = Operator::new(
                all(),
                bus.clone(),
                clock.clone(),
                all(),
                Settings::default(),
            );
            let fast = Campaigns::new(operator, all(), bus, clock, all());
            assert_eq!(fast.carry_on(SHORT).await.ended, 1);
            let again = error(2_000_000_000_000, "no");
            assert_eq!(all_become(&self.ports, &orders, &again).await, orders.len());
        }
    }
}

#[derive(Clone)]
struct Fast(Ports);

impl Clock for Fast {
    fn now(&self) -> Timestamp {
        self.0.now().plus(Millis(71_000))
    }

    async fn sleep(&self, span: Millis) {
        self.0.sleep(span).await;
    }
}

#[test]
fn a_batch_that_somebody_else_has_closed_meanwhile_stays_as_it_was_counted() {
    run(async |ports: Ports| {
        let workflow = workflow("w", "go");
        publish(&ports, &workflow).await;
        let orders = failed(&ports, &workflow, 1).await;
        let bus = Topic::default();
        let started =
            commands::start(&ports, &ports, wanted(CampaignAct::Resubmit), ports.now()).await;
        let id = started.expect("it is started").id;
        let clock = Overtaken {
            ports: ports.clone(),
            bus: bus.clone(),
            orders: std::sync::Arc::new(std::sync::Mutex::new(Some(orders))),
        };
        let all = || ports.clone();
        let operator = Operator::new(
            all(),
            bus.clone(),
            clock.clone(),
            all(),
            Settings::default(),
        );
        let slow = Campaigns::new(operator, all(), bus.clone(), clock.clone(), all());
        let report = slow.carry_on(SHORT).await;
        assert_eq!((report.acted, report.ended, report.failed), (1, 0, 0));
        assert_eq!(*clock.orders.lock().expect("nobody panics with it"), None);
        let view = View::of(&commands::by_id(&ports, &id).await.expect("it is there"));
        assert_eq!(view.end.as_deref(), Some("stalled"));
        let counted = CampaignCounts {
            chosen: 1,
            done: 1,
            ..CampaignCounts::default()
        };
        assert_eq!(view.orders, counted);
        let batch = commands::batch(&ports, &id, 1).await.expect("it works");
        let entries = batch.expect("it is there").orders;
        assert_eq!((entries.len(), entries[0].then), (1, None), "{entries:?}");
    });
}
