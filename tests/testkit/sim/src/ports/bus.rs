//! The bus as one instance reaches it.

use triad_core::message::{Reply, ReplyOutcome, SchedulerMessage};
use triad_core::{Envelope, Timestamp, topics};
use triad_runtime::{Bus, BusError};

use super::Ports;
use crate::bus::Sending;
use crate::kernel::{Kernel, OUTSIDE};
use crate::machine::owner_of_late;
use crate::world::State;

/// Longest time for which a publish waits without any acknowledgement, in milliseconds, as in the Kafka adapter
/// (`triad_kafka::PUBLISH_WITHIN`).
pub(crate) const PUBLISH_WITHIN_MS: u64 = 10_000;
/// Longest time for which a process cannot replace a lost producer, in milliseconds.
const LOST_FOR_MS: u64 = 60_000;

impl Bus for Ports {
    async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
        self.enter().await;
        let mut sending = Sending::default();
        let mut results = Vec::with_capacity(messages.len());
        let lost_at = self.takes_a_producer(messages.len());
        for (at, message) in messages.into_iter().enumerate() {
            let number = self.before("send").await;
            if lost_at == Some(at) {
                self.lose_producer();
            }
            let result = {
                let State { kernel, bus, .. } = &mut *self.world.state();
                let message = as_earlier(message, kernel);
                bus.send_one(kernel, self.who, message, &mut sending)
            };
            results.push(result);
            self.after(number).await;
        }
        if sending.hung {
            self.world.sleep(PUBLISH_WITHIN_MS).await;
        }
        self.land_late(sending.late);
        self.leave().await;
        results
    }
}

impl Ports {
    /// Makes the producer usable. Returns the number of the message before which it will be lost, if it will.
    fn takes_a_producer(&self, messages: usize) -> Option<usize> {
        let State { kernel, bus, .. } = &mut *self.world.state();
        bus.make_sound(kernel, self.who);
        let permille = kernel.faults.producer;
        let lost = self.who != OUTSIDE && kernel.fault("fault: producer lost", permille);
        lost.then(|| usize::try_from(kernel.rng.below(messages as u64)).unwrap_or(0))
    }

    /// Loses the producer: for this publish only or, as if the brokers refused the process, for a while.
    fn lose_producer(&self) {
        let State { kernel, bus, .. } = &mut *self.world.state();
        let span = match kernel.rng.chance(300) {
            true => kernel.rng.between(1_000, LOST_FOR_MS),
            false => 0,
        };
        let until = kernel.now + span;
        bus.lose_producer(kernel, self.who, until);
    }

    /// Appends the unacknowledged messages later.
    fn land_late(&self, late: Vec<Envelope>) {
        if late.is_empty() {
            return;
        }
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
        let owner = owner_of_late(&world.state(), who);
        self.world.spawn(owner, async move {
            world.sleep(after).await;
            let mut state = world.state();
            for message in late {
                let message = sent_now(message, state.kernel.clock_of(who));
                let State { kernel, bus, .. } = &mut *state;
                bus.append(kernel, who, message);
            }
        });
    }
}

/// A reply that arrives late may also have been sent late, because a third-party agent need not stop at complete-by.
fn sent_now(message: Envelope, now: Timestamp) -> Envelope {
    with_reply(message, |reply| {
        reply.sent_at = reply.sent_at.and(Some(now));
    })
}

/// Removes the newer fields from some replies, as if an agent of an earlier version had sent them.
fn as_earlier(message: Envelope, kernel: &mut Kernel) -> Envelope {
    if kernel.faults.earlier == 0 || !topics::is_scheduler(&message.topic) {
        return message;
    }
    with_reply(message, |reply| {
        if kernel.fault("fault: reply of an earlier version", kernel.faults.earlier) {
            reply.sent_at = None;
            reply.pace = None;
            if let ReplyOutcome::Deferred { opens, .. } = &mut reply.outcome {
                *opens = None;
            }
        }
    })
}

/// The message with its reply changed; any other message stays as it is.
fn with_reply(mut message: Envelope, change: impl FnOnce(&mut Reply)) -> Envelope {
    if let Ok(SchedulerMessage::Reply(mut reply)) = serde_json::from_slice(&message.value) {
        change(&mut reply);
        if let Ok(value) = serde_json::to_vec(&SchedulerMessage::Reply(reply)) {
            message.value = value;
        }
    }
    message
}
