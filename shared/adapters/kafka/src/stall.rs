//! Finds partitions without progress although they hold more records.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use rdkafka::Offset;
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::context::Context;
use crate::native::{RecordPosition, high_watermark};

/// Interval between two checks, and the shortest stall.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const STILL_FOR: Duration = Duration::from_secs(15);

/// Positions of a consumer's partitions at the last check, and since when.
#[derive(Default)]
pub(crate) struct Stalls {
    looked: Option<Instant>,
    at: HashMap<(String, i32), StalledSince>,
    paused: HashSet<(String, i32)>,
}

struct StalledSince {
    position: i64,
    since: Instant,
}

impl Stalls {
    /// Notes that a partition is paused on purpose, or resumed.
    pub(crate) fn pause(&mut self, partition: &(String, i32), paused: bool) {
        match paused {
            true => self.paused.insert(partition.clone()),
            false => self.paused.remove(partition),
        };
        self.at.remove(partition);
    }

    /// A partition that has made no progress for 15 s and holds more, and again after every 15 s more; offset -1 if
    /// nothing of it was read yet. Call it when the consumer has no event.
    pub(crate) fn find_stalled(
        &mut self,
        consumer: &BaseConsumer<Context>,
        now: Instant,
    ) -> Option<RecordPosition> {
        if self.looked.is_some_and(|at| now - at < LOOK_EVERY) {
            return None;
        }
        self.looked = Some(now);
        let positions = consumer.position().ok()?;
        let mut seen = HashMap::new();
        let mut stalled = None;
        for one in positions.elements() {
            let partition = (one.topic().to_owned(), one.partition());
            if self.paused.contains(&partition) {
                continue;
            }
            let position = match one.offset() {
                Offset::Offset(position) => position,
                _ => -1,
            };
            let at = match self.at.remove(&partition) {
                Some(at) if at.position == position => at,
                _ => StalledSince {
                    position,
                    since: now,
                },
            };
            let stands_still = stalled.is_none()
                && now - at.since >= STILL_FOR
                && high_watermark(consumer, &partition).is_some_and(|high| high > position.max(0));
            let mut since = at.since;
            if stands_still {
                // Reported again if the stall lasts, because the probe may find nothing.
                since = now;
                stalled = Some(RecordPosition {
                    topic: partition.0.clone(),
                    partition: partition.1,
                    offset: position,
                });
            }
            seen.insert(partition, StalledSince { position, since });
        }
        self.at = seen;
        stalled
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::TopicPartitionList;
    use rdkafka::mocking::MockCluster;

    use super::*;
    use crate::config::KafkaConfig;
    use crate::native::{Polled, Polling};

    #[test]
    fn an_empty_partition_does_not_stand_still() {
        let mock = MockCluster::new(1).expect("a mock cluster");
        mock.create_topic("t", 1, 1).expect("a topic");
        let config = KafkaConfig::new(mock.bootstrap_servers());
        let consumer: BaseConsumer<Context> = config
            .reading(&[("group.id", "g"), ("enable.partition.eof", "true")])
            .create_with_context(config.context())
            .expect("a consumer");
        let mut all = TopicPartitionList::new();
        all.add_partition_offset("t", 0, Offset::Offset(0))
            .and_then(|()| consumer.assign(&all))
            .expect("it is assigned");
        let polling = Polling::new(consumer).expect("its queue");
        let is_at_its_end = || matches!(polling.poll(), Polled::Failed(_));
        for _ in 0..1_000 {
            if is_at_its_end() {
                break;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        let consumer = polling.consumer();
        assert_eq!(high_watermark(consumer, &("t".to_owned(), 0)), Some(0));

        let (mut stalls, began) = (Stalls::default(), Instant::now());
        assert!(stalls.find_stalled(consumer, began).is_none());
        assert!(
            stalls
                .find_stalled(consumer, began + 2 * STILL_FOR)
                .is_none()
        );
    }
}
