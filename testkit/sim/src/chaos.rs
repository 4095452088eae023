//! What happens to a world from outside: orders arrive, instances die and come back, partitions
//! move, sinks and services go down, and in the end the faults stop.

use std::collections::BTreeSet;

use triad_core::message::StatusMessage;
use triad_core::status::Status;
use triad_core::{OrderId, topics};
use triad_workflow::{Workflow, hash};

use crate::actors::{self, from_outside, give, reads, small_error, somebody, start};
use crate::check;
use crate::definitions::{self, AGENTS, TIMING};
use crate::executor::Owner;
use crate::operators;
use crate::scenario::{self, NewOrder};
use crate::service::Outage;
use crate::world::{InstanceId, Kind, OUTSIDE, State, World};

/// How often those who look after the world look, in virtual milliseconds.
const TICK_MS: u64 = 500;
/// After the faults have stopped, a call that was made may still land for so long.
pub(crate) const LATEST_LANDING_MS: u64 = 45_000;
/// Somebody may wake so long after the faults have stopped.
const LATEST_WAKING_MS: u64 = 240_000;

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

impl Sent {
    /// Whether an order was refused for want of room, and nothing of it is on its way.
    pub(crate) fn rejected(&self, state: &State, id: &OrderId) -> bool {
        let of_order = |s: &&crate::bus::Stored| {
            serde_json::from_slice::<StatusMessage>(&s.envelope.value)
                .is_ok_and(|m| &m.order_id == id && m.status == Status::Rejected)
        };
        state.setup.admission.reject_after.is_some()
            && [topics::STATUS, "reply.app"]
                .iter()
                .any(|t| state.bus.all(t).find(of_order).is_some())
    }
}

fn send(world: &World, topic: &str, key: Option<&str>, value: Vec<u8>, letter: bool) {
    let envelope = from_outside(topic, key, value);
    let mut state = world.state();
    let (partition, offset) = state.append(OUTSIDE, envelope);
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
        calm(&w);
        let other = w.clone();
        w.spawn(Owner::World, async move {
            operators::put_in_order(&other).await;
        });
        watch(&w, landing_ms).await;
    });
}

fn calm(world: &World) {
    let mut state = world.state();
    state.faults = state.faults.calm();
    state.bus.down.clear();
    state.remote.outages.clear();
    state.calm_since = Some(state.now);
    for who in 1..state.instances.len() {
        let error = small_error(&mut state.rng);
        let far = state.instances[who].clock_error_ms.unsigned_abs() > TIMING.skew.0 / 2;
        if far {
            state.instances[who].clock_error_ms = error;
        }
    }
    state.note(OUTSIDE, || "THE FAULTS STOP".into());
}

async fn monkey(world: &World) {
    loop {
        let pause = world.state().rng.between(100, 2_000);
        world.sleep(pause).await;
        let turn = {
            let mut state = world.state();
            if state.calm_since.is_some() || state.faults_left == 0 {
                return;
            }
            let f = state.faults;
            [f.kill, f.rebalance, f.outage, f.freeze, f.jump].map(|p| state.rng.chance(p))
        };
        let spent = turn.iter().filter(|t| **t).count() as u64;
        {
            let mut state = world.state();
            state.faults_left = state.faults_left.saturating_sub(spent);
        }
        let [kill, rebalance, outage, freeze, jump] = turn;
        if kill {
            let victim = some_instance(world);
            world.kill(victim, "fault: killed");
        }
        if rebalance {
            move_a_partition(world);
        }
        if outage {
            take_something_down(world);
        }
        if freeze {
            freeze_an_instance(world);
        }
        if jump {
            move_a_clock(world);
        }
    }
}

fn some_instance(world: &World) -> InstanceId {
    let mut state = world.state();
    let last = state.instances.len() as u64 - 1;
    usize::try_from(state.rng.between(1, last)).unwrap_or(1)
}

/// Nothing of an instance runs for a while, and then it goes on where it was.
fn freeze_an_instance(world: &World) {
    let victim = some_instance(world);
    let mut state = world.state();
    if !state.instances[victim].alive {
        return;
    }
    let span = if state.rng.chance(300) {
        state.rng.between(60_000, 240_000)
    } else {
        state.rng.between(1_000, 20_000)
    };
    state.coverage.reach(if span >= 60_000 {
        "fault: frozen for minutes"
    } else {
        "fault: frozen for seconds"
    });
    state.instances[victim].frozen_until = state.now + span;
    state.note(victim, || format!("FREEZES for {span}"));
}

/// A clock jumps: within the skew, or in a world of wild clocks far beyond it.
fn move_a_clock(world: &World) {
    let victim = some_instance(world);
    let mut state = world.state();
    let error = if state.setup.wild_clocks && state.rng.chance(500) {
        state.coverage.reach("fault: clock jumped beyond the skew");
        i64::try_from(state.rng.between(0, 180_000)).unwrap_or(0) - 90_000
    } else {
        state.coverage.reach("fault: clock jumped within the skew");
        small_error(&mut state.rng)
    };
    state.instances[victim].clock_error_ms = error;
    state.note(victim, || format!("its clock jumps to {error}"));
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
    let (is_sink, span) = {
        let mut state = world.state();
        (state.rng.chance(500), state.rng.between(1_000, 60_000))
    };
    if is_sink {
        take_a_sink_down(world, span);
    } else {
        take_a_service_down(world, span);
    }
}

fn take_a_sink_down(world: &World, span: u64) {
    let sinks = [
        topics::STATUS,
        topics::ALERTS,
        topics::DEAD_LETTER,
        "reply.app",
    ];
    let name = {
        let mut state = world.state();
        let name = *state.rng.pick(&sinks);
        state.coverage.reach("fault: sink down");
        state.bus.down.push(name.to_owned());
        state.note(OUTSIDE, || format!("{name} goes down for {span}"));
        name
    };
    let w = world.clone();
    world.spawn(Owner::World, async move {
        w.sleep(span).await;
        let mut state = w.state();
        let down = &mut state.bus.down;
        if let Some(at) = down.iter().position(|d| d == name) {
            down.remove(at);
        }
    });
}

fn take_a_service_down(world: &World, span: u64) {
    let outage = {
        let mut state = world.state();
        let service = *state.rng.pick(&AGENTS);
        let outage = Outage {
            service,
            until: state.now + span,
            status: if state.rng.chance(300) { 429 } else { 503 },
            says_when: state.rng.chance(500),
        };
        state.remote.outages.push(outage);
        state.note(OUTSIDE, || format!("{outage:?}"));
        outage
    };
    let w = world.clone();
    world.spawn(Owner::World, async move {
        w.sleep(span).await;
        let mut state = w.state();
        state.remote.outages.retain(|o| *o != outage);
    });
}

/// Publishes later versions while orders run, and now and then the first one again.
async fn publisher(world: &World) {
    let versions: Vec<_> = definitions::newer()
        .iter()
        .chain(definitions::workflows())
        .collect();
    loop {
        let pause = world.state().rng.between(500, 6_000);
        world.sleep(pause).await;
        let mut state = world.state();
        if state.calm_since.is_some() {
            return;
        }
        let newer = definitions::newer().len() as u64;
        let all = versions.len() as u64;
        let n = if state.rng.chance(700) {
            state.rng.below(newer)
        } else {
            state.rng.below(all)
        };
        let version = versions[usize::try_from(n).unwrap_or(0)];
        publish(&mut state, version);
        state.coverage.reach("input: later version published");
        let name = version.name.clone();
        state.note(OUTSIDE, || format!("publishes {name}@{}", version.hash));
    }
}

/// Makes a version the present one of its workflow.
pub(crate) fn publish(state: &mut State, workflow: &Workflow) {
    let json = hash::canonical_json(&workflow.definition);
    let now = state.now;
    state
        .store
        .publish(&definitions::identity(workflow), json, now);
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
                    let orphan = owner.is_none_or(|o| !state.is_awake(o));
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
async fn watch(world: &World, landing_ms: u64) {
    let bound_ms = definitions::bound_ms(actors::SWEEP_MS * 2);
    let calm_since = world.now();
    let mut open: BTreeSet<OrderId> = world.state().sent.orders.clone();
    loop {
        world.sleep(TICK_MS).await;
        let waited = world.now() - calm_since;
        let mut state = world.state();
        open.retain(|id| !check::is_at_rest(&state, id));
        if open.is_empty() && waited >= landing_ms && state.sent.open == 0 {
            // Somebody who woke late may have set one going again.
            let all = state.sent.orders.iter();
            open.extend(all.filter(|id| !check::is_at_rest(&state, id)).cloned());
            if check::unfinished(&state, open.iter()).is_empty() {
                break;
            }
        }
        if waited > bound_ms + LATEST_LANDING_MS + LATEST_WAKING_MS {
            let unfinished = check::unfinished(&state, open.iter());
            let seen = format!("after {waited} ms: {}", unfinished.join("; "));
            state.breach("g9-finishes-within-the-bound", seen);
            return;
        }
    }
    let mut state = world.state();
    for (invariant, seen) in check::whole(&state) {
        state.breach(invariant, seen);
    }
    state.end();
}
