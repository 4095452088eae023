//! Consumers of the simulated bus, in groups with at-least-once delivery. A consumer that has lost its partition
//! continues for a while.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use triad_core::topics;
use triad_runtime::{Handled, InputRecord};

use crate::kernel::{InstanceId, Owner};
use crate::ports::Ports;
use crate::world::{State, World};

/// A partition as it was assigned to an instance.
pub(crate) struct Assignment {
    pub topic: String,
    pub partition: usize,
    /// The number of this assignment; a consumer with an older one reads no more records.
    pub generation: u64,
    /// The first record to read.
    pub from: usize,
}

/// Reads a partition until it is assigned to another instance: passes batches to a handler, commits up to the first
/// unfinished record, and after a pause reads again from there.
pub(crate) async fn consume<F, R>(world: &World, who: InstanceId, handle: F, given: Assignment)
where
    F: Fn(Vec<InputRecord>) -> R,
    R: Future<Output = Vec<Handled>>,
{
    let Assignment {
        topic,
        partition,
        generation,
        from,
    } = given;
    let ports = Ports::new(world.clone(), who);
    let mut position = from;
    loop {
        let fetch = Fetch {
            world: world.clone(),
            who,
            topic: topic.clone(),
            partition,
            generation,
            from: position,
        };
        let Some(batch) = fetch.await else { return };
        let answers = handle(batch).await;
        let done = answers.iter().take_while(|a| a.is_done()).count();
        position += done;
        if done > 0 {
            let number = ports.before("offset commit").await;
            world.commit_offset(who, &topic, partition, generation, position);
            ports.after(number).await;
        }
        if let Some(Handled::Redeliver(why)) = answers.get(done) {
            if why.is_for_room() {
                world.state().kernel.coverage.reach("saw: order held back");
            }
            world.state().kernel.note(who, || {
                format!("{topic}-{partition}@{position} again: {why}")
            });
            let pause = world.state().kernel.rng.between(50, 1_000);
            world.sleep(pause).await;
        }
    }
}

/// A future that waits for records of a partition.
struct Fetch {
    world: World,
    who: InstanceId,
    topic: String,
    partition: usize,
    generation: u64,
    from: usize,
}

impl Future for Fetch {
    /// `None` if the partition has been assigned to another instance.
    type Output = Option<Vec<InputRecord>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.world.state();
        let Some(partition) = state.bus.partition(&self.topic, self.partition) else {
            return Poll::Ready(None);
        };
        if partition.generation != self.generation {
            return Poll::Ready(None);
        }
        let most = state.setup.sizes.batch;
        let State { kernel, bus, .. } = &mut *state;
        let taken = bus.take_batch(
            kernel,
            most,
            self.who,
            &self.topic,
            self.partition,
            self.from,
        );
        match taken {
            Some(batch) => Poll::Ready(Some(batch)),
            None => {
                if let Some(p) = bus.partition(&self.topic, self.partition) {
                    p.waiting.push(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

impl World {
    /// Commits an offset if the assignment is still current.
    pub(crate) fn commit_offset(
        &self,
        who: InstanceId,
        topic: &str,
        at: usize,
        generation: u64,
        position: usize,
    ) {
        let mut state = self.state();
        let lost = state.kernel.faults.lost_offset;
        if state.kernel.fault("fault: offset commit lost", lost) {
            drop(state);
            // The offset is committed later, as by a consumer that commits at intervals.
            let (world, topic) = (self.clone(), topic.to_owned());
            self.spawn(Owner::Instance(who), async move {
                world.sleep(5_000).await;
                world.commit_offset(who, &topic, at, generation, position);
            });
            return;
        }
        let mut advanced = false;
        let mut before = 0;
        if let Some(p) = state.bus.partition(topic, at)
            && p.generation == generation
            && p.committed < position
        {
            before = std::mem::replace(&mut p.committed, position);
            advanced = true;
        }
        if advanced {
            if !topics::is_between_handlers(topic) {
                let now = state.kernel.now;
                state.bus.lazy.add(now, topic, at, before);
            }
            state
                .kernel
                .note(who, || format!("bus: commits {topic}-{at}@{position}"));
        }
    }

    /// Assigns a partition to an instance. The previous owner continues until its next read.
    pub(crate) fn assign(&self, topic: &str, at: usize, to: InstanceId) -> Option<(u64, usize)> {
        let (given, woken) = {
            let mut state = self.state();
            let State { kernel, bus, .. } = &mut *state;
            let p = bus.partition(topic, at)?;
            p.generation += 1;
            p.owner = Some(to);
            let given = (p.generation, p.committed);
            let woken = std::mem::take(&mut p.waiting);
            kernel.note(to, || format!("bus: is given {topic}-{at}@{}", given.1));
            (given, woken)
        };
        for waker in woken {
            waker.wake();
        }
        Some(given)
    }
}
