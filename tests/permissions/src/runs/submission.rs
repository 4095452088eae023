//! The run of Submission: new orders, repeated ones, records that cannot be handled, and the limit on unclaimed
//! orders.

use triad_core::topics;
use triad_runtime::settings::Settings;
use triad_runtime::submission::Submission;
use triad_runtime::{Handled, InputRecord};
use triad_workflow::Millis;

use crate::checked_bus::CheckedBus;
use crate::policy::{Installation, Policy};
use crate::world::{Run, Submitted, World, poison};
use triad_tests::clock::ManualClock;

type Role = Submission<triad_bootstrap::Store, CheckedBus, ManualClock>;

pub(super) async fn run(installation: &Installation, policy: &Policy) -> Run {
    let world = World::start(installation, "submission", policy).await;
    let role = role(&world, world.settings());
    let new = [
        Submitted::new("a", "shop"),
        Submitted::new("b", "shop"),
        Submitted::new("h", "shop").high(),
    ];
    let records = new.map(|order| order.record());
    take(&world, &role, "new orders", &records).await;
    take(&world, &role, "an order again", &records[..1]).await;
    take(&world, &role, "orders again", &records).await;
    take(&world, &role, "no order", &[poison(topics::ORDERS)]).await;
    let stranger = Submitted::new("s", "unknown").record();
    take(
        &world,
        &role,
        "an order of an unknown workflow",
        &[stranger],
    )
    .await;
    // The workflow has a cap of one order in flight, so the second order is set aside.
    let capped = ["c", "d"].map(|id| Submitted::new(id, "small").record());
    take(&world, &role, "orders of a workflow with a cap", &capped).await;
    ahead(&world).await;
    world
        .note_orders(&["a", "b", "h", "c", "d", "f", "g", "i"])
        .await;
    world.end()
}

/// Two orders are admitted and claimed. Before it admits a third one, Submission must read that they were claimed.
async fn ahead(world: &World) {
    let settings = Settings {
        unstarted: 2,
        ..world.settings()
    };
    let role = role(world, settings);
    let first = ["f", "g"].map(|id| Submitted::new(id, "shop").record());
    take(world, &role, "orders as far as it may run ahead", &first).await;
    let announced = world.line.taken();
    let announced = announced.into_iter().filter(|r| {
        topics::is_scheduler(&r.topic) && [Some(&b"f"[..]), Some(b"g")].contains(&r.key.as_deref())
    });
    let announced: Vec<_> = announced.collect();
    let _ = world.scheduler().handle(&announced).await;
    let next = Submitted::new("i", "shop").record();
    take(world, &role, "an order behind them", &[next]).await;
}

fn role(world: &World, settings: Settings) -> Role {
    Submission::new(
        world.wiring.store.clone(),
        world.line.clone(),
        world.clock.clone(),
        settings,
    )
}

/// Submits records. The clock is advanced while Submission waits for room.
async fn take(world: &World, role: &Role, what: &str, records: &[InputRecord]) {
    let push = async {
        loop {
            tokio::task::yield_now().await;
            if world.clock.sleepers(Millis(250)) > 0 {
                world.pass(Millis(250));
            }
        }
    };
    let handled: Vec<Handled> = tokio::select! {
        handled = role.handle(records) => handled,
        () = push => Vec::new(),
    };
    world.note_handled(what, &handled);
}
