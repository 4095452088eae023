//! Sends the input of a world: orders, some of them repeatedly or with different content, unreadable records between
//! them, and later versions of the workflows.

use triad_core::{Envelope, OrderId, topics};
use triad_workflow::{Workflow, hash};

use crate::definitions;
use crate::kernel::{OUTSIDE, Owner};
use crate::scenario::{self, NewOrder};
use crate::world::{State, World};

/// A record that is sent from outside of the installation.
fn from_outside(topic: &str, key: Option<&str>, value: Vec<u8>) -> Envelope {
    Envelope {
        topic: topic.to_owned(),
        key: key.map(|k| k.as_bytes().to_vec()),
        value,
        headers: Vec::new(),
        trace: None,
    }
}

fn send(world: &World, topic: &str, key: Option<&str>, value: Vec<u8>, letter: bool) {
    let envelope = from_outside(topic, key, value);
    let mut state = world.state();
    let State { kernel, bus, .. } = &mut *state;
    let (partition, offset) = bus.append(kernel, OUTSIDE, envelope);
    if letter {
        let id = format!("{topic}/{partition}/{offset}");
        state.sent.letters.insert(id);
    }
}

/// Sends the orders, some repeatedly, some with different content, and unreadable records between them.
pub(crate) fn send_orders(world: &World, orders: Vec<NewOrder>, over_ms: u64, poison: usize) {
    world.state().sent.open = orders.len() + poison;
    for order in orders {
        let world = world.clone();
        world.clone().spawn(Owner::World, async move {
            let pause = world.state().kernel.rng.below(over_ms + 1);
            world.sleep(pause).await;
            let topic = if order.high {
                world.state().kernel.coverage.reach("input: high lane");
                topics::ORDERS_HIGH
            } else {
                topics::ORDERS
            };
            if order.hurries {
                let coverage = &mut world.state().kernel.coverage;
                coverage.reach("deadline: asked for by an order");
            }
            let key = Some(order.id.as_str());
            if let Ok(id) = OrderId::new(order.id.clone()) {
                let mut state = world.state();
                if order.misfit {
                    state
                        .kernel
                        .coverage
                        .reach("input: details that do not fit");
                    let told_in = scenario::reply_topic(&order.value);
                    state.sent.misfits.insert(id, told_in);
                } else {
                    state.sent.orders.insert(id);
                }
            }
            send(&world, topic, key, order.value.clone(), order.misfit);
            if let Some(other) = order.conflict {
                let pause = world.state().kernel.rng.below(8_000);
                world.sleep(pause).await;
                send(&world, topic, key, other, true);
                world
                    .state()
                    .kernel
                    .coverage
                    .reach("input: conflicting submission");
            }
            for _ in 0..order.repeats {
                let pause = world.state().kernel.rng.below(30_000);
                world.sleep(pause).await;
                send(&world, topic, key, order.value.clone(), order.misfit);
                world
                    .state()
                    .kernel
                    .coverage
                    .reach("input: repeated submission");
            }
            world.state().sent.open -= 1;
        });
    }
    for _ in 0..poison {
        let world = world.clone();
        world.clone().spawn(Owner::World, async move {
            let pause = world.state().kernel.rng.below(over_ms + 1);
            world.sleep(pause).await;
            let (topic, value, kind) = scenario::poison(&mut world.state().kernel.rng);
            send(&world, topic, None, value, true);
            world.state().kernel.coverage.reach(kind);
            world.state().sent.open -= 1;
        });
    }
}

/// Publishes later versions of workflows while orders run, and sometimes a first version again.
pub(crate) async fn publisher(world: &World) {
    let versions: Vec<_> = definitions::newer()
        .iter()
        .chain(definitions::workflows())
        .collect();
    loop {
        let pause = world.state().kernel.rng.between(500, 6_000);
        world.sleep(pause).await;
        let mut state = world.state();
        if state.kernel.calm_since.is_some() {
            return;
        }
        let newer = definitions::newer().len() as u64;
        let all = versions.len() as u64;
        let n = if state.kernel.rng.chance(700) {
            state.kernel.rng.below(newer)
        } else {
            state.kernel.rng.below(all)
        };
        let version = versions[usize::try_from(n).unwrap_or(0)];
        publish(&mut state, version);
        state
            .kernel
            .coverage
            .reach("input: later version published");
        let name = version.name.clone();
        state
            .kernel
            .note(OUTSIDE, || format!("publishes {name}@{}", version.hash));
    }
}

/// Makes a version the current one of its workflow.
pub(crate) fn publish(state: &mut State, workflow: &Workflow) {
    let json = hash::canonical_json(&workflow.definition);
    let now = state.kernel.now;
    state
        .store
        .publish(&definitions::identity(workflow), json, now);
}
