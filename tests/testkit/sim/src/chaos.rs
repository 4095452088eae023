//! The phases of a world: faults and repairs for a while, and then a calm in which all work must end.

use std::collections::BTreeSet;

use triad_core::OrderId;

use crate::actors::{any_instance, give, reads, small_error, start};
use crate::checks;
use crate::definitions::TIMING;
use crate::fault_injection::monkey;
use crate::kernel::{InstanceId, Kind, OUTSIDE, Owner};
use crate::machine;
use crate::operators;
use crate::senders::publisher;
use crate::world::World;

/// Interval between repairs, in virtual milliseconds.
const TICK_MS: u64 = 500;
/// After the faults have stopped, a call that was made before may still arrive within this time, in milliseconds.
pub(crate) const LATEST_LANDING_MS: u64 = 45_000;

/// Starts the faults and the repairs.
pub(crate) fn unleash(world: &World, calm_after_ms: u64, landing_ms: u64) {
    let w = world.clone();
    world.spawn(Owner::World, async move { monkey(&w).await });
    let w = world.clone();
    world.spawn(Owner::World, async move { medic(&w).await });
    if world.state().setup.publishes {
        let w = world.clone();
        world.spawn(Owner::World, async move { publisher(&w).await });
    }
    let w = world.clone();
    world.spawn(Owner::World, async move {
        w.sleep(calm_after_ms).await;
        come_to_rest(&w, landing_ms).await;
    });
}

/// Stops the faults, does the work that only operators can do, and waits until all work has ended.
pub(crate) async fn come_to_rest(world: &World, landing_ms: u64) {
    calm(world);
    let other = world.clone();
    world.spawn(Owner::World, async move {
        operators::put_in_order(&other).await;
    });
    watch(world, landing_ms).await;
}

fn calm(world: &World) {
    let mut state = world.state();
    state.kernel.faults = state.kernel.faults.calm();
    state.bus.mend();
    state.store.refused = None;
    state.store.unreadable = None;
    state.control.is_denied = false;
    state.remote.outages.clear();
    state.remote.hanging.clear();
    state.remote.refused = None;
    state.kernel.calm_since = Some(state.kernel.now);
    for who in 1..state.kernel.instances.len() {
        let error = small_error(&mut state.kernel.rng);
        let far = state.kernel.instances[who].clock_error_ms.unsigned_abs() > TIMING.skew.0 / 2;
        if far {
            state.kernel.instances[who].clock_error_ms = error;
        }
    }
    state.kernel.note(OUTSIDE, || "THE FAULTS STOP".into());
}

/// Regularly assigns the partitions of dead instances to living ones, and restarts dead instances.
async fn medic(world: &World) {
    loop {
        world.sleep(TICK_MS).await;
        for kind in [Kind::Submission, Kind::Scheduler, Kind::Agent] {
            for (topic, at) in reads(world, kind) {
                let orphan = {
                    let mut state = world.state();
                    let owner = state.bus.partition(&topic, at).and_then(|p| p.owner);
                    let orphan = owner.is_none_or(|o| !state.kernel.is_awake(o));
                    orphan && state.kernel.rng.chance(300)
                };
                if orphan && let Some(to) = any_instance(world, kind) {
                    give(world, &topic, at, to);
                }
            }
        }
        let count = world.state().kernel.instances.len();
        for who in 1..count {
            let rises = {
                let mut state = world.state();
                if machine::rises_with_another(&state, who) {
                    continue;
                }
                let permille = if state.kernel.calm_since.is_some() {
                    1_000
                } else {
                    80
                };
                !state.kernel.instances[who].alive && state.kernel.rng.chance(permille)
            };
            if rises {
                rise(world, who);
            }
        }
    }
}

/// Starts an instance and the others of the same process.
fn rise(world: &World, who: InstanceId) {
    let others = machine::others_of(&world.state(), who);
    if !others.is_empty() {
        machine::begin(&mut world.state());
    }
    start(world, who);
    for other in others {
        start(world, other);
    }
}

/// Waits until all work has ended, or the time limit of G9 has passed; then checks the world against the guarantees.
async fn watch(world: &World, landing_ms: u64) {
    let bound_ms = checks::liveness::bound_ms(&world.state());
    let calm_since = world.now();
    let mut open: BTreeSet<OrderId> = world.state().sent.orders.clone();
    loop {
        world.sleep(TICK_MS).await;
        let waited = world.now() - calm_since;
        let mut state = world.state();
        open.retain(|id| !checks::is_at_rest(&state, id));
        if open.is_empty() && waited >= landing_ms && state.sent.open == 0 {
            // Checked again, because an operator that was frozen may have resubmitted an order.
            let all = state.sent.orders.iter();
            open.extend(all.filter(|id| !checks::is_at_rest(&state, id)).cloned());
            if checks::unfinished(&state, open.iter()).is_empty() {
                break;
            }
        }
        let is_in_time = waited <= landing_ms + bound_ms;
        let seen = match is_in_time {
            true => String::new(),
            false => {
                let unfinished = checks::unfinished(&state, open.iter());
                format!("after {waited} ms: {}", unfinished.join("; "))
            }
        };
        state
            .kernel
            .check("g9-finishes-within-the-bound", is_in_time, || seen);
        if !is_in_time {
            return;
        }
    }
    let mut state = world.state();
    let found = checks::check_final_state(&state);
    found.report_to(&mut state.kernel);
    state.kernel.end();
}
