//! Kafka as a broker of the consumer loops.

use std::time::Duration;

use rdkafka::consumer::CommitMode;
use triad_consume::{Assignment, Broker, Consumer, Partition};
use triad_runtime::BusError;

use crate::bus::KafkaBus;
use crate::config::KafkaConfig;
use crate::consumer::{commit, join, store, unread};
use crate::error::KafkaError;
use crate::source::{Source, SourceEvent};

impl Broker for KafkaConfig {
    type Consumer = GroupConsumer;
    type Bus = KafkaBus;
    type Error = KafkaError;

    fn join(&self, group: &str, topic: &str) -> Result<GroupConsumer, KafkaError> {
        join(self, group, topic).map(GroupConsumer)
    }

    fn bus(&self) -> Result<KafkaBus, BusError> {
        KafkaBus::new(self).map_err(|e| BusError::Permanent(e.to_string()))
    }

    fn flush(bus: &KafkaBus, within: Duration) {
        bus.flush(within);
    }

    fn address(&self) -> &str {
        &self.brokers
    }
}

/// A member of a Kafka consumer group that reads one topic, for the loops of `triad-consume`. A
/// [`KafkaConfig`] makes it, by [`Broker::join`](triad_consume::Broker::join).
pub struct GroupConsumer(Source);

impl Consumer for GroupConsumer {
    async fn next(&self) -> triad_consume::Polled {
        loop {
            if let Some(found) = for_loops(self.0.next().await) {
                return found;
            }
        }
    }

    fn at_hand(&self) -> Option<triad_consume::Polled> {
        for_loops(self.0.at_hand()?)
    }

    fn pause(&self, partition: &Partition, paused: bool) {
        self.0.pause(partition, paused);
    }

    fn store(&self, (topic, partition): &Partition, next: i64) {
        store(self.0.consumer(), topic, *partition, next);
    }

    fn commit(&self) {
        commit(self.0.consumer(), CommitMode::Async);
    }

    fn commit_and_wait(&self) {
        commit(self.0.consumer(), CommitMode::Sync);
    }

    fn unread(&self) -> Option<u64> {
        unread(self.0.consumer())
    }

    fn assignment(&self) -> &Assignment {
        use rdkafka::consumer::Consumer as _;
        self.0.consumer().context().assignment()
    }
}

/// Converts an event; a group consumer does not request the ends of partitions.
fn for_loops(found: SourceEvent) -> Option<triad_consume::Polled> {
    Some(match found {
        SourceEvent::Record(record) => triad_consume::Polled::Record(record),
        SourceEvent::Unreadable(unreadable) => triad_consume::Polled::Unreadable(unreadable),
        SourceEvent::End(_) => return None,
        SourceEvent::Failed(failed) => triad_consume::Polled::Failed {
            reason: failed.reason,
            is_fatal: failed.is_fatal,
        },
    })
}
