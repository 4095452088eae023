//! A consumer as a source of events: records, unreadable batches, and errors.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};
use triad_consume::{Partition, Unreadable};
use triad_runtime::InputRecord;

use crate::config::KafkaConfig;
use crate::context::Context;
use crate::error::KafkaError;
use crate::events::Events;
use crate::native::{Failed, Polled, RecordPosition};
use crate::skip_unreadable::{Looks, is_unreadable};
use crate::stall::Stalls;

/// An event of a consumer.
#[derive(Debug)]
pub(crate) enum SourceEvent {
    /// A record.
    Record(InputRecord),
    /// A batch that cannot be read. Reading of its partition goes on with the batch after it.
    Unreadable(Unreadable),
    /// The end of a partition, if the settings request it.
    End(i32),
    /// An error.
    Failed(Failed),
}

/// A consumer of a group, or of assigned partitions, that continues behind unreadable batches. Only one task at a
/// time may read it.
pub(crate) struct Source {
    events: Events,
    config: KafkaConfig,
    group: String,
    looks: Looks,
    stalls: Mutex<Stalls>,
}

impl Source {
    pub(crate) fn new(
        consumer: BaseConsumer<Context>,
        config: &KafkaConfig,
        group: &str,
    ) -> Result<Self, KafkaError> {
        Ok(Self {
            events: Events::new(consumer)?,
            config: config.clone(),
            group: group.to_owned(),
            looks: Looks::default(),
            stalls: Mutex::default(),
        })
    }

    pub(crate) fn consumer(&self) -> &BaseConsumer<Context> {
        self.events.consumer()
    }

    /// The next event. Nothing is lost if the future is dropped.
    pub(crate) async fn next(&self) -> SourceEvent {
        loop {
            match self.probe() {
                ProbeResult::Found(found) => return found,
                ProbeResult::More => tokio::task::yield_now().await,
                ProbeResult::Nothing => self.events.changed().await,
            }
        }
    }

    /// An event if there is one. Never waits.
    pub(crate) fn at_hand(&self) -> Option<SourceEvent> {
        match self.probe() {
            ProbeResult::Found(found) => Some(found),
            ProbeResult::More | ProbeResult::Nothing => None,
        }
    }

    /// Pauses a partition, or resumes it behind the last returned record.
    pub(crate) fn pause(&self, (topic, partition): &Partition, paused: bool) {
        let topic = self.consumer().context().in_kafka(topic).into_owned();
        let place = (topic, *partition);
        self.stalls().pause(&place, paused);
        let (topic, partition) = &place;
        let mut one = TopicPartitionList::with_capacity(1);
        let done = one
            .add_partition_offset(topic, *partition, Offset::Invalid)
            .and_then(|()| match paused {
                true => self.consumer().pause(&one),
                false => self.consumer().resume(&one),
            });
        if let Err(error) = done {
            // The partition has moved to another member.
            tracing::debug!(%error, topic, partition, paused, "a partition was not paused");
        }
    }

    fn probe(&self) -> ProbeResult {
        if let Some(mut unreadable) = self.looks.take(self.revocations())
            && self.go_behind(&unreadable)
        {
            unreadable.topic = self.consumer().context().topic(unreadable.topic);
            return ProbeResult::Found(SourceEvent::Unreadable(unreadable));
        }
        match self.events.poll_events() {
            Polled::Record(mut record) => {
                record.topic = self.consumer().context().topic(record.topic);
                ProbeResult::Found(SourceEvent::Record(record))
            }
            Polled::Failed(failed) => self
                .judge(failed)
                .map_or(ProbeResult::More, ProbeResult::Found),
            Polled::Served => ProbeResult::More,
            Polled::Nothing => {
                self.look_for_stalls();
                ProbeResult::Nothing
            }
        }
    }

    fn judge(&self, failed: Failed) -> Option<SourceEvent> {
        match failed.place.clone() {
            Some(place) if failed.code == RDKafkaErrorCode::PartitionEOF => {
                Some(SourceEvent::End(place.partition))
            }
            Some(place) if is_unreadable(&failed) => {
                self.begin_look(place, Some(failed.reason));
                None
            }
            _ => Some(SourceEvent::Failed(failed)),
        }
    }

    fn begin_look(&self, place: RecordPosition, reason: Option<String>) {
        let with = (&self.config, self.group.as_str());
        let wake = self.events.wake();
        self.looks
            .begin(with, place, reason, self.revocations(), wake);
    }

    fn revocations(&self) -> u64 {
        self.consumer().context().assignment().revocations()
    }

    /// Seeks behind an unreadable batch; false if the partition may have been revoked.
    fn go_behind(&self, unreadable: &Unreadable) -> bool {
        let Unreadable {
            topic,
            partition,
            next,
            ..
        } = unreadable;
        let consumer = self.consumer();
        let is_ours = consumer
            .assignment()
            .is_ok_and(|all| all.find_partition(topic, *partition).is_some());
        // The seek does not wait: it is under way when this returns.
        is_ours
            && consumer
                .seek(topic, *partition, Offset::Offset(*next), Duration::ZERO)
                .inspect_err(|error| tracing::warn!(%error, topic, partition, "no way behind it"))
                .is_ok()
    }

    fn look_for_stalls(&self) {
        if let Some(place) = self.stalls().find_stalled(self.consumer(), Instant::now()) {
            self.begin_look(place, None);
        }
    }

    #[cfg(test)]
    pub(crate) fn looks(&self) -> &Looks {
        &self.looks
    }

    fn stalls(&self) -> std::sync::MutexGuard<'_, Stalls> {
        self.stalls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.looks.end();
    }
}

/// Result of a poll.
enum ProbeResult {
    Found(SourceEvent),
    /// Events were handled, and there may be more.
    More,
    Nothing,
}

#[cfg(test)]
mod tests {
    use rdkafka::mocking::MockCluster;

    use super::*;
    use crate::consumer::join;
    use crate::native;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_consumer_that_cannot_go_on_says_so() {
        let mock = MockCluster::new(1).expect("a mock cluster");
        mock.create_topic("t", 1, 1).expect("a topic");
        let config = KafkaConfig::new(mock.bootstrap_servers());
        let source = join(&config, "g", "t").expect("it joins");
        native::end(source.consumer().client());
        loop {
            if let SourceEvent::Failed(failed) = source.next().await
                && failed.is_fatal
            {
                assert!(failed.reason.contains("for a test"), "{failed:?}");
                return;
            }
        }
    }
}
