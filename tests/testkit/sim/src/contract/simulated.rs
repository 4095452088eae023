//! Adapts the simulated bus, with the loop of the simulated instances, to the contract of a bus, and with the store of
//! one machine to that of a store with topics.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use triad_runtime::{Handled, InputRecord, Redelivery};

use super::bus::{Answers, BusUnderTest, Next, PARTITIONS, answer};
use super::topics::StoreWithTopics;
use crate::consumer::{Assignment, consume};
use crate::kernel::{OUTSIDE, Owner};
use crate::ports::Ports;

/// The bus of a simulated world, for the contract of a bus.
pub struct SimulatedBus(Ports);

impl SimulatedBus {
    /// The bus of the world that these ports belong to.
    #[must_use]
    pub fn of(ports: &Ports) -> Self {
        Self(ports.clone())
    }
}

impl StoreWithTopics for SimulatedBus {
    type Store = Ports;

    fn store(&self) -> &Ports {
        &self.0
    }

    async fn records(&self, topic: &str) -> Vec<InputRecord> {
        let state = self.0.world.state();
        let all = state.bus.all(topic);
        all.map(|stored| InputRecord {
            topic: topic.to_owned(),
            key: stored.envelope.key.clone(),
            value: Some(stored.envelope.value.clone()),
            headers: stored.envelope.copied_headers(),
            ..InputRecord::default()
        })
        .collect()
    }
}

/// How a read ended.
#[derive(Default)]
struct Ended {
    left: AtomicBool,
    died: AtomicBool,
}

impl BusUnderTest for SimulatedBus {
    type Bus = Ports;

    fn bus(&self) -> &Ports {
        &self.0
    }

    async fn create(&self, topic: &str) {
        self.0.world.state().bus.add_topic(topic, PARTITIONS);
    }

    async fn read(&self, topic: &str, answers: Answers) {
        let world = &self.0.world;
        let ended = Arc::new(Ended::default());
        for partition in 0..PARTITIONS {
            let Some((generation, from)) = world.assign(topic, partition, OUTSIDE) else {
                continue;
            };
            let assignment = Assignment {
                topic: topic.to_owned(),
                partition,
                generation,
                from,
            };
            let (world, answers, ended) = (world.clone(), answers.clone(), ended.clone());
            world.clone().spawn(Owner::World, async move {
                let handle =
                    |batch: Vec<InputRecord>| handle(batch, answers.clone(), ended.clone());
                consume(&world, OUTSIDE, handle, assignment).await;
            });
        }
        // Each check comes a little later in virtual time; a commit follows its batch immediately.
        while !ended.left.load(Ordering::SeqCst) && !ended.died.load(Ordering::SeqCst) {
            world.sleep(100).await;
        }
        if ended.left.load(Ordering::SeqCst) {
            world.sleep(100).await;
        }
        for partition in 0..PARTITIONS {
            world.assign(topic, partition, OUTSIDE);
        }
    }
}

/// Answers a batch. A reader that dies never answers.
fn handle(
    batch: Vec<InputRecord>,
    answers: Answers,
    ended: Arc<Ended>,
) -> Pin<Box<dyn Future<Output = Vec<Handled>> + Send>> {
    let mut handled = Vec::with_capacity(batch.len());
    for record in &batch {
        if ended.left.load(Ordering::SeqCst) {
            handled.push(Handled::Redeliver(Redelivery::OutOfTime));
            continue;
        }
        match answer(&answers, record) {
            Next::Done => handled.push(Handled::Done),
            Next::Redeliver => handled.push(Handled::Redeliver(Redelivery::Raced)),
            Next::Leave => {
                handled.push(Handled::Done);
                ended.left.store(true, Ordering::SeqCst);
            }
            Next::Die => {
                ended.died.store(true, Ordering::SeqCst);
                return Box::pin(std::future::poll_fn(|_| Poll::Pending));
            }
        }
    }
    Box::pin(std::future::ready(handled))
}
