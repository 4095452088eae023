//! The run of the Scheduler: orders from wake to end, orders that it must read again, records that cannot be handled,
//! orders that wait for room, and the admission of a set-aside order after another one's end.

use std::collections::BTreeSet;

use triad_core::topics;
use triad_runtime::InputRecord;
use triad_runtime::scheduler::Scheduler;
use triad_runtime::system::SystemEntropy;
use triad_workflow::Millis;

use crate::checked_bus::CheckedBus;
use crate::policy::{Installation, Policy};
use crate::world::{Run, Submitted, World, failed, is_request, poison, reply, succeeded, wake};
use triad_tests::clock::ManualClock;

type Role = Scheduler<triad_bootstrap::Store, CheckedBus, ManualClock, SystemEntropy>;

/// More orders than the first window of a downstream admits.
const MANY: usize = 20;

pub(super) async fn run(installation: &Installation, policy: &Policy) -> Run {
    let world = World::start(installation, "scheduler", policy).await;
    to_the_end(&world).await;
    unread(&world).await;
    take(
        &world,
        &role(&world),
        "no message",
        &[poison(topics::SCHEDULER)],
    )
    .await;
    turned_round(&world).await;
    replaced(&world).await;
    waiting(&world).await;
    world.end()
}

/// A new Scheduler process, which has cached no orders.
fn role(world: &World) -> Role {
    Scheduler::new(
        world.wiring.store.clone(),
        world.line.clone(),
        world.clock.clone(),
        SystemEntropy,
        world.settings(),
    )
}

async fn take(world: &World, role: &Role, what: &str, records: &[InputRecord]) {
    let handled = role.handle(records).await;
    world.note_handled(what, &handled);
}

/// Orders of both lanes, from wake to end.
async fn to_the_end(world: &World) {
    let role = role(world);
    let orders = [
        Submitted::new("a", "shop"),
        Submitted::new("h", "shop").high(),
    ];
    let announced = world.stored(&orders).await;
    take(world, &role, "announcements", &announced).await;
    for request in world.line.taken() {
        if request.topic.starts_with("agent.") {
            let reply = reply(&request, &succeeded());
            take(
                world,
                &role,
                &format!("reply to {}", request.topic),
                &[reply],
            )
            .await;
        }
    }
    world.note_orders(&["a", "h"]).await;
}

/// Orders that this process has not cached: one alone, and several in a batch.
async fn unread(world: &World) {
    let ids = ["b", "c", "d"];
    let _lost = world
        .stored(&ids.map(|id| Submitted::new(id, "shop")))
        .await;
    take(world, &role(world), "one unknown order", &[wake("b")]).await;
    take(
        world,
        &role(world),
        "unknown orders",
        &[wake("c"), wake("d")],
    )
    .await;
    world.note_orders(&ids).await;
}

/// Of two parallel steps, one waits for another attempt and the other is refused. No Scheduler has claimed the order,
/// so a wake is sent to begin its compensation.
async fn turned_round(world: &World) {
    let orders = [
        Submitted::new("e", "shop"),
        Submitted::new("f", "shop").high(),
    ];
    let requests = world.claimed(&orders).await;
    let of = |step| requests.iter().filter(move |r| is_request(r, step));
    let scheduler = world.scheduler();
    for request in of("pack") {
        let _ = scheduler
            .handle(&[reply(request, &failed("transient"))])
            .await;
    }
    world.pass(Millis(10_000));
    let _ = world.supervisor().sweep(Millis(600_000)).await;
    for request in of("pay") {
        let reply = reply(request, &failed("permanent"));
        take(
            world,
            &role(world),
            &format!("refusal on {}", request.topic),
            &[reply],
        )
        .await;
    }
    world.note_orders(&["e", "f"]).await;
}

/// If the workflow has a cap, one order is set aside, and is admitted when the other one ends.
async fn replaced(world: &World) {
    let role = role(world);
    let ids = ["k", "l"];
    let announced = world
        .stored(&ids.map(|id| Submitted::new(id, "small")))
        .await;
    take(
        world,
        &role,
        "announcements of a workflow with a cap",
        &announced,
    )
    .await;
    for request in world
        .line
        .taken()
        .iter()
        .filter(|r| r.topic.starts_with("agent."))
    {
        take(world, &role, "its end", &[reply(request, &succeeded())]).await;
    }
    world.note_orders(&ids).await;
}

/// More orders than the window admits, so the Scheduler writes its report of waiting orders.
async fn waiting(world: &World) {
    let role = role(world);
    let ids: Vec<String> = (0..MANY).map(|n| format!("m-{n}")).collect();
    let orders: Vec<_> = ids.iter().map(|id| Submitted::new(id, "shop")).collect();
    let announced = world.stored(&orders).await;
    take(world, &role, "many announcements", &announced).await;
    // Each process chooses one of these keys at random for its report.
    let keys: Vec<String> = (0..8).map(|n| format!("pressure/{n}")).collect();
    let told: BTreeSet<bool> = world.control(&keys).await.into_iter().collect();
    world.note(format!("what waits is told: {}", told.contains(&true)));
}
