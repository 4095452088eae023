//! Sends the input of a world: orders, some of them repeatedly or with different content, unreadable records between
//! them, and later versions of the workflows.

use serde_json::json;
use triad_core::{Envelope, OrderId, topics};
use triad_workflow::{Workflow, hash};

use crate::definitions;
use crate::kernel::{OUTSIDE, Owner};
use crate::scenario::{self, NewAct, NewEvent, NewOrder, SentEvent};
use crate::world::{State, World};

/// A record that is sent from outside of the installation.
pub(crate) fn from_outside(topic: &str, key: Option<&str>, value: Vec<u8>) -> Envelope {
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
    let events = orders.iter().map(|order| order.events.len()).sum::<usize>();
    let acts = orders.iter().filter(|order| order.act.is_some()).count();
    world.state().sent.open = orders.len() + poison + events + acts;
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
            for event in order.events.clone() {
                match event.after_ms {
                    None => send_event(&world, &order.id, event),
                    Some(_) => send_later(&world, order.id.clone(), event),
                }
            }
            if let Some(act) = order.act.clone() {
                send_act(&world, order.id.clone(), act);
            }
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

/// Sends an event after its time.
fn send_later(world: &World, order: String, event: NewEvent) {
    let world = world.clone();
    world.clone().spawn(Owner::World, async move {
        world.sleep(event.after_ms.unwrap_or(0)).await;
        send_event(&world, &order, event);
    });
}

/// Sends an act of an application after its time.
fn send_act(world: &World, order: String, act: NewAct) {
    let world = world.clone();
    world.clone().spawn(Owner::World, async move {
        world.sleep(act.after_ms).await;
        let value = act.value.to_string().into_bytes();
        let envelope = from_outside(topics::EVENTS, Some(&order), value);
        let mut state = world.state();
        let State {
            kernel, bus, sent, ..
        } = &mut *state;
        let (partition, offset) = bus.append(kernel, OUTSIDE, envelope);
        let record = format!("{}/{partition}/{offset}", topics::EVENTS);
        kernel.coverage.reach("input: act of an application");
        sent.forgotten.insert(record.clone());
        if let Ok(order) = OrderId::new(order) {
            sent.acts.push((order, act.value, record));
        }
        sent.open -= 1;
    });
}

fn send_event(world: &World, order: &str, event: NewEvent) {
    let by = scenario::sender(&event);
    let mut value = json!({"event": event.event, "id": event.id, "data": event.data, "by": by});
    let is_keyed = scenario::is_keyed(&event);
    let key = match is_keyed {
        true => &event.id,
        false => order,
    };
    if is_keyed {
        value["key"] = json!(order);
    }
    let envelope = from_outside(topics::EVENTS, Some(key), value.to_string().into_bytes());
    let mut state = world.state();
    let State {
        kernel, bus, sent, ..
    } = &mut *state;
    let (partition, offset) = bus.append(kernel, OUTSIDE, envelope);
    let record = format!("{}/{partition}/{offset}", topics::EVENTS);
    let known = sent.events.iter().any(|e| {
        e.order.as_str() == order && e.event.id == event.id && e.event.event == event.event
    });
    kernel.coverage.reach(
        match (
            known,
            &event.after_ms,
            event.id.as_str(),
            event.event.as_str(),
        ) {
            (true, ..) => "input: event again",
            (_, None, ..) => "input: event before its order",
            _ if is_keyed => "input: event with a key",
            (_, _, _, "unknown") => "input: event that no step awaits",
            (_, _, "other", _) => "input: event that does not match",
            _ => "input: event",
        },
    );
    sent.forgotten.insert(record.clone());
    if let Ok(order) = OrderId::new(order) {
        sent.events.push(SentEvent {
            order,
            event,
            record,
        });
    }
    sent.open -= 1;
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

/// Makes a version the current one of its workflow, and its parts those of theirs.
pub(crate) fn publish(state: &mut State, workflow: &Workflow) {
    let now = state.kernel.now;
    for published in workflow.with_parts() {
        let json = hash::canonical_json(&published.definition);
        let version = definitions::identity(published);
        state.store.publish(&version, json, now);
    }
}
