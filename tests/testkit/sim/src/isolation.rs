//! Runs a world with one fault: sends the orders, injects the fault, and checks the orders that do not need the
//! faulty part.

use crate::chaos::{self, LATEST_LANDING_MS};
use crate::checks;
use crate::kernel::{OUTSIDE, Owner};
use crate::lone::{Lone, Sample};
use crate::senders::send_orders;
use crate::world::World;

/// Number of orders sent.
const ORDERS: usize = 30;
/// Number of unreadable records sent with the orders.
const POISON: usize = 2;
/// Time within which all of them are sent, in milliseconds.
const OVER_MS: u64 = 20_000;
/// Fraction of calls that fail in a world with failing calls, in thousandths.
const FAILING: u32 = 250;

/// Sends the orders, begins the fault with this number, and checks G11 for the other work.
pub(crate) fn unleash(world: &World, number: u64) {
    let (lone, samples, orders) = {
        let mut state = world.state();
        let state = &mut *state;
        state.watched.is_on = true;
        state.watched.began = state.kernel.now;
        let lone = Lone::of_number(number, &mut state.kernel.rng, &state.setup, &state.bus);
        state.kernel.coverage.reach(lone.name());
        // Not together with blocked dead letters: orders then wait for room behind blocked ones, each retry would
        // wait again, and the world could take hours.
        if state.kernel.rng.chance(500) && !checks::lone::is_about_letters(&lone) {
            state.kernel.coverage.reach("alone: with failing calls");
            state.kernel.faults.remote_fail = FAILING;
        }
        let needing = lone.needing(ORDERS);
        let all: Vec<_> = (0..ORDERS)
            .map(|n| lone.order(&mut state.kernel.rng, &state.bus, n, n < needing))
            .collect();
        let (samples, orders): (Vec<Sample>, Vec<_>) = all.into_iter().unzip();
        (lone, samples, orders)
    };
    begin(world, &lone);
    send_orders(world, orders, OVER_MS, POISON);
    let w = world.clone();
    world.spawn(Owner::World, async move {
        let bound_ms = checks::lone::longest_ms(&w.state(), &lone, &samples);
        w.sleep(OVER_MS + bound_ms).await;
        checks::lone::meanwhile(&mut w.state(), &lone, &samples, OVER_MS);
        chaos::come_to_rest(&w, LATEST_LANDING_MS).await;
    });
}

fn begin(world: &World, lone: &Lone) {
    let mut state = world.state();
    let state = &mut *state;
    state
        .kernel
        .note(OUTSIDE, || format!("THE FAULT BEGINS: {lone:?}"));
    match lone {
        Lone::Topic(name) => {
            state.bus.refused.insert(name.clone());
        }
        Lone::Partition(topic, at) => {
            state.bus.leaderless.insert((topic.clone(), *at));
        }
        Lone::Service(name) => state.remote.hanging.push(*name),
        Lone::Process(who) => state.bus.lose_producer(&mut state.kernel, *who, u64::MAX),
        Lone::Order(id) => state.store.refused = Some(id.clone()),
        Lone::Refused(id, waits) => state.remote.refused = Some((id.clone(), *waits)),
        Lone::Control(_) => state.control.is_denied = true,
        Lone::Definition(name, older) => state.store.unreadable = Some((name, *older)),
    }
}
