//! Injects faults: kills and freezes instances, moves partitions, changes clocks, and makes topics and services fail.

use triad_core::topics;

use crate::actors::{any_instance, give, reads, small_error};
use crate::definitions::AGENTS;
use crate::kernel::{InstanceId, Kind, OUTSIDE, Owner};
use crate::machine;
use crate::service::Outage;
use crate::world::World;

/// Longest time for which a topic refuses Triad's writes, in milliseconds. Like every outage it is shorter than the
/// retention of finished records.
const REFUSED_FOR_MS: u64 = 95_000;

/// Injects faults into a world until the faults stop.
pub(crate) async fn monkey(world: &World) {
    loop {
        let pause = world.state().kernel.rng.between(100, 2_000);
        world.sleep(pause).await;
        let turn = {
            let mut state = world.state();
            if state.kernel.calm_since.is_some() || state.kernel.faults_left == 0 {
                return;
            }
            let f = state.kernel.faults;
            [f.kill, f.rebalance, f.outage, f.freeze, f.jump, f.refuse]
                .map(|p| state.kernel.rng.chance(p))
        };
        let spent = turn.iter().filter(|t| **t).count() as u64;
        {
            let mut state = world.state();
            state.kernel.faults_left = state.kernel.faults_left.saturating_sub(spent);
        }
        let [kill, rebalance, outage, freeze, jump, refuse] = turn;
        if kill {
            let victim = some_instance(world);
            machine::kill(world, victim, "fault: killed");
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
        if refuse {
            refuse_a_topic(world);
        }
    }
}

fn some_instance(world: &World) -> InstanceId {
    let mut state = world.state();
    let last = state.kernel.instances.len() as u64 - 1;
    usize::try_from(state.kernel.rng.between(1, last)).unwrap_or(1)
}

/// Freezes an instance for a while; afterwards it continues where it stopped.
fn freeze_an_instance(world: &World) {
    let victim = some_instance(world);
    let mut state = world.state();
    if !state.kernel.instances[victim].alive {
        return;
    }
    let span = if state.kernel.rng.chance(300) {
        state.kernel.rng.between(60_000, 240_000)
    } else {
        state.kernel.rng.between(1_000, 20_000)
    };
    // A kind with one instance is frozen only for a short time: the last messages of an order are made from its
    // record, which must not expire before.
    let kind = state.kernel.instances[victim].kind;
    let is_only_one = state
        .kernel
        .instances
        .iter()
        .filter(|i| i.kind == kind)
        .count()
        == 1;
    let span = match is_only_one && state.setup.retention_ms.is_some() {
        true => span.min(20_000),
        false => span,
    };
    if state.kernel.instances[victim].frozen_until > state.kernel.now {
        // Already frozen: successive outages could last longer than the shortest retention of a world.
        return;
    }
    state.kernel.coverage.reach(if span >= 60_000 {
        "fault: frozen for minutes"
    } else {
        "fault: frozen for seconds"
    });
    state.kernel.instances[victim].frozen_until = state.kernel.now + span;
    state.kernel.note(victim, || format!("FREEZES for {span}"));
}

/// Changes a clock: within the skew, or in a world of wild clocks far beyond it.
fn move_a_clock(world: &World) {
    let victim = some_instance(world);
    let mut state = world.state();
    let error = if state.setup.wild_clocks && state.kernel.rng.chance(500) {
        state
            .kernel
            .coverage
            .reach("fault: clock jumped beyond the skew");
        i64::try_from(state.kernel.rng.between(0, 180_000)).unwrap_or(0) - 90_000
    } else {
        state
            .kernel
            .coverage
            .reach("fault: clock jumped within the skew");
        small_error(&mut state.kernel.rng)
    };
    state.kernel.instances[victim].clock_error_ms = error;
    state
        .kernel
        .note(victim, || format!("its clock jumps to {error}"));
}

fn move_a_partition(world: &World) {
    let kinds = [Kind::Submission, Kind::Scheduler, Kind::Agent];
    let kind = *world.state().kernel.rng.pick(&kinds);
    let mine = reads(world, kind);
    let (topic, at) = world.state().kernel.rng.pick(&mine).clone();
    let Some(to) = any_instance(world, kind) else {
        return;
    };
    {
        let mut state = world.state();
        let owner = state.bus.partition(&topic, at).and_then(|p| p.owner);
        if owner.is_some_and(|o| o != to && state.kernel.instances[o].alive) {
            state
                .kernel
                .coverage
                .reach("fault: partition moved from a live instance");
        }
    }
    give(world, &topic, at, to);
}

fn take_something_down(world: &World) {
    let (what, span) = {
        let mut state = world.state();
        (
            state.kernel.rng.below(5),
            state.kernel.rng.between(1_000, 60_000),
        )
    };
    match what {
        0 | 1 => take_a_sink_down(world, span),
        2 | 3 => take_a_service_down(world, span),
        _ => hang_a_service(world, span),
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
        let name = *state.kernel.rng.pick(&sinks);
        state.kernel.coverage.reach("fault: sink down");
        state.bus.down.push(name.to_owned());
        state
            .kernel
            .note(OUTSIDE, || format!("{name} goes down for {span}"));
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

/// Makes a topic refuse Triad's writes for more than a minute, as if a permission had been removed.
fn refuse_a_topic(world: &World) {
    let (name, span) = {
        let mut state = world.state();
        let state = &mut *state;
        let mine: Vec<&String> = state.bus.topics.keys().filter(|t| is_ours(t)).collect();
        let name = (*state.kernel.rng.pick(&mine)).clone();
        if !state.bus.refused_before.insert(name.clone()) {
            return;
        }
        let span = state.kernel.rng.between(60_000, REFUSED_FOR_MS);
        state.kernel.coverage.reach("fault: topic refused");
        state.bus.refused.insert(name.clone());
        state
            .kernel
            .note(OUTSIDE, || format!("{name} is refused for {span}"));
        (name, span)
    };
    let w = world.clone();
    world.spawn(Owner::World, async move {
        w.sleep(span).await;
        w.state().bus.refused.remove(&name);
    });
}

/// Whether Triad's instances send to a topic; none of them sends orders.
fn is_ours(topic: &str) -> bool {
    topic != topics::ORDERS && topic != topics::ORDERS_HIGH
}

/// Makes a service give no answer for a while.
fn hang_a_service(world: &World, span: u64) {
    let service = {
        let mut state = world.state();
        let service = *state.kernel.rng.pick(&AGENTS);
        state.remote.hanging.push(service);
        state.kernel.coverage.reach("fault: service hangs");
        state
            .kernel
            .note(OUTSIDE, || format!("{service} hangs for {span}"));
        service
    };
    let w = world.clone();
    world.spawn(Owner::World, async move {
        w.sleep(span).await;
        let mut state = w.state();
        let hanging = &mut state.remote.hanging;
        if let Some(at) = hanging.iter().position(|h| *h == service) {
            hanging.remove(at);
        }
    });
}

fn take_a_service_down(world: &World, span: u64) {
    let outage = {
        let mut state = world.state();
        let service = *state.kernel.rng.pick(&AGENTS);
        let outage = Outage {
            service,
            until: state.kernel.now + span,
            status: match state.kernel.rng.between(0, 999) {
                0..300 => 429,
                300..450 => 401,
                _ => 503,
            },
            says_when: state.kernel.rng.chance(500),
        };
        state.remote.outages.push(outage);
        state.kernel.note(OUTSIDE, || format!("{outage:?}"));
        outage
    };
    let w = world.clone();
    world.spawn(Owner::World, async move {
        w.sleep(span).await;
        let mut state = w.state();
        state.remote.outages.retain(|o| *o != outage);
    });
}
