//! The run of the Supervisor: orders without a claim, attempts without a reply, orders that stop, orders whose last
//! messages may be unsent, unreadable records, and the admission of set-aside orders.

use serde_json::json;
use triad_core::due::{SHARDS, shard_of};
use triad_core::{Attempt, Direction, Envelope, IdempotencyKey, OperatorAct, OrderId, ledger};
use triad_operator::Rate;
use triad_operator::campaign::commands::{self, CampaignRequest};
use triad_operator::campaign::{CampaignAct, Campaigns, Pace};
use triad_operator::correction::Correction;
use triad_operator::find::Filter;
use triad_runtime::operator::Operator;
use triad_runtime::scheduler::Scheduler;
use triad_runtime::supervisor::{Report, Supervisor};
use triad_runtime::system::SystemEntropy;
use triad_runtime::{Bus, BusError, Clock, ControlStore, ControlWrite, Written};
use triad_workflow::{Millis, StepId};

use crate::checked_bus::CheckedBus;
use crate::policy::{Installation, Policy};
use crate::world::{Run, Submitted, World, failed, reply, succeeded};
use triad_tests::clock::ManualClock;

type Role = Supervisor<triad_bootstrap::Store, CheckedBus, ManualClock, SystemEntropy>;

/// Longer than an attempt, a wake or a confirmation may take.
const LONG: Millis = Millis(150_000);

/// A bus that refuses every message with this error.
struct Deaf(BusError);

impl Bus for Deaf {
    async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
        messages.iter().map(|_| Err(self.0.clone())).collect()
    }
}

pub(super) async fn run(installation: &Installation, policy: &Policy) -> Run {
    let world = World::start(installation, "supervisor", policy).await;
    let role = Supervisor::new(
        world.wiring.store.clone(),
        world.line.clone(),
        world.clock.clone(),
        SystemEntropy,
        world.settings(),
    );
    let [one, two] = alike();
    let high = apart(&one);
    let announced = [
        Submitted::new(&one, "shop"),
        Submitted::new(&two, "shop"),
        Submitted::new(&high, "shop").high(),
    ];
    let _lost = world.stored(&announced).await;
    given_up(&world).await;
    unanswered(&world).await;
    unsent(&world).await;
    let _lost = world.stored(&[Submitted::new("damaged", "shop")]).await;
    world.damage("damaged").await;
    set_aside(&world).await;
    sweep(&world, &role, "the first sweep").await;
    sweep(&world, &role, "the second sweep").await;
    campaign(&world).await;
    let ids = [&*one, &two, &high];
    world.note_orders(&ids).await;
    let ids = [
        "strict",
        "strict-high",
        "taken",
        "untaken",
        "unsent",
        "unsent-well",
        "k",
        "l",
    ];
    world.note_orders(&ids).await;
    world.note_control(&["unreadable/damaged"]).await;
    world.end()
}

async fn sweep(world: &World, role: &Role, what: &str) {
    world.pass(LONG);
    let Report {
        unread,
        admitted,
        failed,
        ..
    } = role.sweep(Millis(600_000)).await;
    world.note(format!(
        "{what}: {unread} shards unread, {failed} failed, {admitted} let in"
    ));
}

/// Runs a campaign that corrects an input of orders in Error, for which it reads the orders' details.
async fn campaign(world: &World) {
    let (store, bus, clock) = (
        world.wiring.store.clone(),
        world.line.clone(),
        world.clock.clone(),
    );
    let settings = world.settings();
    let operator = Operator::new(
        store.clone(),
        bus.clone(),
        clock.clone(),
        SystemEntropy,
        settings,
    );
    let carrier = Campaigns::new(operator, store, bus, clock, SystemEntropy);
    let wanted = CampaignRequest {
        total: None,
        what: CampaignAct::Correct {
            step: StepId::new("pack").expect("an id"),
            correction: Correction::Whole(json!({"n": 2})),
        },
        filter: Filter {
            state: Some("Error".parse().expect("a state")),
            // One order is enough: a second one would wait for the rate, while the clock stands still.
            id: Some("strict-high".to_owned()),
            ..Filter::default()
        },
        operator: OperatorAct::new("ann", "it is mended"),
        pace: Pace {
            rate: Rate::new(1).expect("a rate"),
            stop_share: 100,
            patience: Millis(0),
        },
    };
    let started = commands::start(&world.open(), &SystemEntropy, wanted, world.clock.now()).await;
    started.expect("it is started");
    let report = carrier.carry_on(Millis(600_000)).await;
    world.note(format!("campaigns: {report:?}"));
    world.note_control(&["campaigns"]).await;
}

/// Ids of two orders in the same shard of the due index, so that their records are read in one batch.
fn alike() -> [String; 2] {
    let of = |n: u32| format!("alike-{n}");
    let shard = |id: String| shard_of(&OrderId::new(id).expect("an id"));
    let first = of(0);
    let second = (1..).map(of).find(|id| shard(id.clone()) == shard(of(0)));
    [first, second.expect("there are few shards")]
}

/// The id of an order that is alone in its shard, so that its record is read by a single read.
fn apart(from: &str) -> String {
    let shard = |id: &str| shard_of(&OrderId::new(id).expect("an id"));
    let others = [
        from,
        "strict",
        "strict-high",
        "taken",
        "untaken",
        "unsent",
        "unsent-well",
        "damaged",
        "k",
        "l",
    ];
    let others: Vec<u32> = others.iter().map(|id| shard(id)).collect();
    assert!(others.len() < SHARDS as usize, "a shard is left");
    let mut ids = (0..).map(|n| format!("apart-{n}"));
    ids.find(|id| !others.contains(&shard(id))).expect("one is")
}

/// Orders that stop in Error, because a step has failed more often than its failure_threshold.
async fn given_up(world: &World) {
    let orders = [
        Submitted::new("strict", "strict"),
        Submitted::new("strict-high", "strict").high(),
    ];
    world.given_up(&orders).await;
}

/// Two attempts with counted calls and without a reply: an agent has taken one, none has taken the other.
async fn unanswered(world: &World) {
    let orders = ["taken", "untaken"].map(|id| Submitted::new(id, "counted"));
    let _unanswered = world.claimed(&orders).await;
    let order = OrderId::new("taken").expect("an id");
    let step = StepId::new("pay").expect("an id");
    let mark = ControlWrite {
        key: ledger::key(
            &IdempotencyKey::of(&order, &step, Direction::Forward, 0),
            Direction::Forward,
            Attempt(1),
        ),
        value: json!({"allowance": 1}),
        expected: None,
        expires: None,
        token: 1,
    };
    assert_eq!(world.open().write(mark).await, Ok(Written::Written));
}

/// Two orders whose last messages are not acknowledged: one has ended in failure and the other one well, with an output
/// whose expiry was not set.
async fn unsent(world: &World) {
    let deaf = |error| {
        Scheduler::new(
            world.open(),
            Deaf(error),
            world.clock.clone(),
            SystemEntropy,
            world.settings(),
        )
    };
    let transient = BusError::Transient("the brokers do not answer".into());
    let late = BusError::Late("it has no leader".into());
    for (id, error, outcome) in [
        ("unsent", transient, failed("permanent")),
        ("unsent-well", late, succeeded()),
    ] {
        let scheduler = deaf(error);
        for request in world.claimed(&[Submitted::new(id, "counted")]).await {
            let _ = scheduler.handle(&[reply(&request, &outcome)]).await;
        }
    }
    world.keep_outputs("unsent-well").await;
}

/// If the workflow has a cap, an order is set aside, and then another order's end makes room for it.
async fn set_aside(world: &World) {
    let announced = world
        .stored(&["k", "l"].map(|id| Submitted::new(id, "small")))
        .await;
    let scheduler = world.scheduler();
    let _ = scheduler.handle(&announced).await;
    let requests = world.told_around();
    for request in requests.iter().filter(|r| r.topic.starts_with("agent.")) {
        let _ = scheduler.handle(&[reply(request, &succeeded())]).await;
    }
}
