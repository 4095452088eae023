//! What happens to a world from outside: orders arrive, instances die and come back, partitions
//! move, sinks and services go down, and in the end the faults stop.

use std::collections::BTreeSet;

use triad_core::{OrderId, topics};

use crate::actors::{self, from_outside, give, reads, somebody, start};
use crate::check;
use crate::executor::Owner;
use crate::scenario::{self, NewOrder};
use crate::world::{Kind, OUTSIDE, World};

/// How often those who look after the world look, in virtual milliseconds.
const TICK_MS: u64 = 500;
/// After the faults have stopped, a call that was made may still land for so long.
const LATEST_LANDING_MS: u64 = 45_000;

/// What was sent into a world.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Ids of sound orders.
    pub orders: BTreeSet<OrderId>,
    /// Orders that are still to be sent.
    pub open: usize,
    /// Records that must be dead-lettered: topic, partition, offset.
    pub letters: BTreeSet<String>,
}

fn send(world: &World, topic: &str, key: Option<&str>, value: Vec<u8>, letter: bool) {
    let envelope = from_outside(topic, key, value);
    let mut state = world.state();
    let (partition, offset) = state.append(OUTSIDE, &envelope);
    if letter {
        let id = format!("{topic}/{partition}/{offset}");
        state.sent.letters.insert(id);
    }
}

/// Sends the orders, some of them again, some with other content, and poison between them.
pub(crate) fn send_orders(world: &World, orders: Vec<NewOrder>, over_ms: u64, poison: usize) {
    world.state().sent.open = orders.len() + poison;
    for order in orders {
        let world = world.clone();
        world.clone().spawn(Owner::World, async move {
            let pause = world.state().rng.below(over_ms + 1);
            world.sleep(pause).await;
            let topic = if order.high {
                world.state().coverage.reach("input: high lane");
                topics::ORDERS_HIGH
            } else {
                topics::ORDERS
            };
            let key = Some(order.id.as_str());
            if let Ok(id) = OrderId::new(order.id.clone()) {
                world.state().sent.orders.insert(id);
            }
            send(&world, topic, key, order.value.clone(), false);
            if let Some(other) = order.conflict {
                let pause = world.state().rng.below(8_000);
                world.sleep(pause).await;
                send(&world, topic, key, other, true);
                world
                    .state()
                    .coverage
                    .reach("input: conflicting submission");
            }
            for _ in 0..order.repeats {
                let pause = world.state().rng.below(30_000);
                world.sleep(pause).await;
                send(&world, topic, key, order.value.clone(), false);
                world.state().coverage.reach("input: repeated submission");
            }
            world.state().sent.open -= 1;
        });
    }
    for _ in 0..poison {
        let world = world.clone();
        world.clone().spawn(Owner::World, async move {
            let pause = world.state().rng.below(over_ms + 1);
            world.sleep(pause).await;
            let (topic, value, kind) = scenario::poison(&mut world.state().rng);
            send(&world, topic, None, value, true);
            world.state().coverage.reach(kind);
            world.state().sent.open -= 1;
        });
    }
}

/// Starts those who disturb the world and those who look after it.
pub(crate) fn unleash(world: &World, calm_after_ms: u64, bound_ms: u64) {
    let w = world.clone();
    world.spawn(Owner::World, async move { monkey(&w).await });
    let w = world.clone();
    world.spawn(Owner::World, async move { medic(&w).await });
    let w = world.clone();
    world.spawn(Owner::World, async move {
        w.sleep(calm_after_ms).await;
        calm(&w);
        watch(&w, bound_ms).await;
    });
}

fn calm(world: &World) {
    let mut state = world.state();
    state.faults = state.faults.calm();
    state.bus.down.clear();
    state.remote.down.clear();
    state.calm_since = Some(state.now);
    state.note(OUTSIDE, || "THE FAULTS STOP".into());
}

async fn monkey(world: &World) {
    loop {
        let pause = world.state().rng.between(100, 2_000);
        world.sleep(pause).await;
        let (kill, rebalance, outage) = {
            let mut state = world.state();
            if state.calm_since.is_some() {
                return;
            }
            let f = state.faults;
            let rng = &mut state.rng;
            (
                rng.chance(f.kill),
                rng.chance(f.rebalance),
                rng.chance(f.outage),
            )
        };
        if kill {
            let victim = {
                let mut state = world.state();
                let last = state.instances.len() as u64 - 1;
                usize::try_from(state.rng.between(1, last)).unwrap_or(1)
            };
            world.kill(victim, "fault: killed");
        }
        if rebalance {
            move_a_partition(world);
        }
        if outage {
            take_something_down(world);
        }
    }
}

fn move_a_partition(world: &World) {
    let kinds = [Kind::Submission, Kind::Scheduler, Kind::Agent];
    let kind = *world.state().rng.pick(&kinds);
    let mine = reads(world, kind);
    let (topic, at) = world.state().rng.pick(&mine).clone();
    let Some(to) = somebody(world, kind) else {
        return;
    };
    {
        let mut state = world.state();
        let owner = state.bus.partition(&topic, at).and_then(|p| p.owner);
        if owner.is_some_and(|o| o != to && state.instances[o].alive) {
            state
                .coverage
                .reach("fault: partition moved from a live instance");
        }
    }
    give(world, &topic, at, to);
}

fn take_something_down(world: &World) {
    let sinks = [
        topics::STATUS,
        topics::ALERTS,
        topics::DEAD_LETTER,
        "reply.app",
    ];
    let (name, sink, span) = {
        let mut state = world.state();
        let sink = state.rng.chance(500);
        let name = if sink {
            *state.rng.pick(&sinks)
        } else {
            *state.rng.pick(&scenario::AGENTS)
        };
        let span = state.rng.between(1_000, 60_000);
        let down = if sink {
            state.coverage.reach("fault: sink down");
            &mut state.bus.down
        } else {
            &mut state.remote.down
        };
        down.push(name.to_owned());
        state.note(OUTSIDE, || format!("{name} goes down for {span}"));
        (name, sink, span)
    };
    let w = world.clone();
    world.spawn(Owner::World, async move {
        w.sleep(span).await;
        let mut state = w.state();
        let down = if sink {
            &mut state.bus.down
        } else {
            &mut state.remote.down
        };
        if let Some(at) = down.iter().position(|d| d == name) {
            down.remove(at);
        }
    });
}

/// Moves the partitions of the dead to the living, and starts the dead again.
async fn medic(world: &World) {
    loop {
        world.sleep(TICK_MS).await;
        for kind in [Kind::Submission, Kind::Scheduler, Kind::Agent] {
            for (topic, at) in reads(world, kind) {
                let orphan = {
                    let mut state = world.state();
                    let owner = state.bus.partition(&topic, at).and_then(|p| p.owner);
                    let orphan = owner.is_none_or(|o| !state.instances[o].alive);
                    orphan && state.rng.chance(300)
                };
                if orphan && let Some(to) = somebody(world, kind) {
                    give(world, &topic, at, to);
                }
            }
        }
        let count = world.state().instances.len();
        for who in 1..count {
            let rises = {
                let mut state = world.state();
                let permille = if state.calm_since.is_some() {
                    1_000
                } else {
                    80
                };
                !state.instances[who].alive && state.rng.chance(permille)
            };
            if rises {
                start(world, who);
            }
        }
    }
}

/// Waits until everything has finished, or the bound of G9 has passed; then holds the whole
/// against the guarantees.
async fn watch(world: &World, bound_ms: u64) {
    let calm_since = world.now();
    loop {
        world.sleep(TICK_MS).await;
        let waited = world.now() - calm_since;
        let unfinished = check::unfinished(&world.state());
        if unfinished.is_empty() && waited >= LATEST_LANDING_MS {
            break;
        }
        if waited > bound_ms + LATEST_LANDING_MS {
            let seen = format!("after {waited} ms: {}", unfinished.join("; "));
            world.state().breach("g9-finishes-within-the-bound", seen);
            return;
        }
    }
    let mut state = world.state();
    for (invariant, seen) in check::whole(&state) {
        state.breach(invariant, seen);
    }
    state.end();
}

/// Bound of G9 for a world of these actors.
pub(crate) fn bound_ms() -> u64 {
    scenario::bound_ms(actors::SWEEP_MS * 2)
}
