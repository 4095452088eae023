//! Services at work on what they have taken: each piece for its own time, with heartbeats and callbacks.

use serde_json::{Value, json};
use triad_core::topics;

use crate::kernel::{OUTSIDE, Owner};
use crate::senders::from_outside;
use crate::service::Arriving;
use crate::world::{State, World};

impl State {
    /// Sends a callback. It may come too late or may be wrong, so it may become a dead letter.
    fn call_back(&mut self, call: &Arriving, token: &str, body: Value) {
        let mut value = body;
        value["step"] = call.step.clone().into();
        value["token"] = token.into();
        let key = Some(call.order.as_str());
        let envelope = from_outside(topics::EVENTS, key, value.to_string().into_bytes());
        let who = OUTSIDE;
        let (partition, offset) = self.bus.append(&mut self.kernel, who, envelope);
        let record = format!("{}/{partition}/{offset}", topics::EVENTS);
        self.sent.forgotten.insert(record);
    }
}

/// Works on what services have taken since the last call of this function, each piece for its own time.
pub(crate) fn work_on_new_jobs(world: &World) {
    let keys = world.state().remote.new_jobs();
    for key in keys {
        let there = world.clone();
        world.state().sent.open += 1;
        world.spawn(Owner::World, async move {
            work(&there, &key).await;
            there.state().sent.open -= 1;
        });
    }
}

async fn work(world: &World, key: &str) {
    let Some(call) = world.state().remote.job(key) else {
        return;
    };
    let token = call.callback.clone().unwrap_or_default();
    let (takes, strangers, beats) = {
        let rng = &mut world.state().kernel.rng;
        (rng.between(20, 9_000), rng.chance(200), rng.chance(400))
    };
    if strangers {
        let wrong = "0".repeat(token.len());
        let body = json!({"data": {"reference": "forged"}, "id": "forged"});
        let mut state = world.state();
        state
            .kernel
            .coverage
            .reach("input: callback with a wrong token");
        state.call_back(&call, &wrong, body);
    }
    if beats {
        world.sleep(takes / 2).await;
        let mut state = world.state();
        state.kernel.coverage.reach("input: heartbeat");
        state.call_back(&call, &token, json!({"heartbeat": true, "id": "beat"}));
    }
    world.sleep(takes).await;
    let ended = {
        let mut state = world.state();
        let State { kernel, remote, .. } = &mut *state;
        remote.end_job(kernel, key)
    };
    let Some(ended) = ended else { return };
    let times = world.state().kernel.rng.below(3);
    for nth in 0..times {
        let pause = world.state().kernel.rng.below(6_000);
        world.sleep(pause).await;
        let data = match &ended {
            Ok(output) => output.clone(),
            Err(()) => json!({"state": "failed"}),
        };
        let mut state = world.state();
        state.kernel.coverage.reach(match nth {
            0 => "input: callback",
            _ => "input: callback again",
        });
        state.call_back(&call, &token, json!({"data": data, "id": "end"}));
    }
}
