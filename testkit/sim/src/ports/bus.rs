//! The bus as one instance reaches it.

use triad_core::message::SchedulerMessage;
use triad_core::{Envelope, Timestamp};
use triad_runtime::{Bus, BusError};

use super::Ports;
use crate::bus::Sending;
use crate::kernel::Owner;
use crate::world::State;

impl Bus for Ports {
    async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
        self.enter().await;
        let mut sending = Sending::default();
        let mut results = Vec::with_capacity(messages.len());
        for message in messages {
            let number = self.before("send").await;
            let result = {
                let State { kernel, bus, .. } = &mut *self.world.state();
                bus.send_one(kernel, self.who, message, &mut sending)
            };
            results.push(result);
            self.after(number).await;
        }
        let late = sending.late;
        if !late.is_empty() {
            let (world, who) = (self.world.clone(), self.who);
            let after = {
                let mut state = world.state();
                let most = if state.kernel.rng.chance(300) {
                    40_000
                } else {
                    15_000
                };
                state.kernel.rng.between(50, most)
            };
            self.world.spawn(Owner::World, async move {
                world.sleep(after).await;
                let mut state = world.state();
                for message in late {
                    let message = sent_now(message, state.kernel.clock_of(who));
                    let State { kernel, bus, .. } = &mut *state;
                    bus.append(kernel, who, message);
                }
            });
        }
        self.leave().await;
        results
    }
}

/// A reply that lands late may as well have been sent late, by an agent that is not ours and does
/// not fall silent.
fn sent_now(mut message: Envelope, now: Timestamp) -> Envelope {
    if let Ok(SchedulerMessage::Reply(mut reply)) = serde_json::from_slice(&message.value) {
        reply.sent_at = Some(now);
        if let Ok(value) = serde_json::to_vec(&SchedulerMessage::Reply(reply)) {
            message.value = value;
        }
    }
    message
}
