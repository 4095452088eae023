//! Retention: deletes whole segments of the logs, the oldest first, and no unhandled record.
//!
//! Two rules delete records: the bytes that a partition keeps, and, for topics that the installation's own groups
//! read, their age. Both stop at the first record that such a group has not committed: an acknowledged order is never
//! lost, however far the handlers are behind. `max_total_bytes` bounds the disk; beyond it producers are refused.

use std::io;
use std::time::{Duration, SystemTime};

use super::{Doomed, Store, mark_dirty};
use crate::log::flusher::Flush;
use crate::log::meta::{LogId, MetaRecord};
use crate::log::topics::Topic;

/// A segment that is not full is finished when its first record has reached this fraction of the retention, so a
/// record lives at most that much longer.
const ROLL_AT: u32 = 4;

impl Store {
    /// Deletes the oldest segments beyond the bytes that the partition keeps.
    pub(super) fn retain(&mut self, id: LogId) -> io::Result<()> {
        let Some((name, topic, partition)) = self.topics.place(id) else {
            return Ok(());
        };
        let Some(keep) = topic.number("retention.bytes").or(self.retention_bytes) else {
            return Ok(());
        };
        let done = self.done_to(name, partition).unwrap_or(i64::MAX);
        self.delete(id, done, |_, rest| rest >= keep)
    }

    /// Deletes records whose retention is over at `now`.
    ///
    /// # Errors
    /// If a file cannot be written or deleted; a later call continues.
    pub(crate) fn expire(&mut self, now: SystemTime) -> io::Result<()> {
        for (id, done, age) in self.aging() {
            let Some(log) = self.logs.get_mut(&id) else {
                continue;
            };
            let before = log.tail_bytes();
            if let Some(old) = now.checked_sub(age / ROLL_AT) {
                mark_dirty(&mut self.dirty, log.roll_if_older(old)?);
            }
            self.tail_bytes = self.tail_bytes.saturating_sub(before - log.tail_bytes());
            if let Some(over) = now.checked_sub(age) {
                self.delete(id, done, |next_began, _| next_began <= over)?;
            }
        }
        Ok(())
    }

    /// Interval for calls of [`expire`](Self::expire): a small part of the shortest retention, between a second and a
    /// minute.
    pub(crate) fn expire_every(&self) -> Duration {
        let shortest = self.aging().into_iter().map(|(_, _, age)| age).min();
        let every = shortest.map_or(Duration::MAX, |age| age / (4 * ROLL_AT));
        every.clamp(Duration::from_secs(1), Duration::from_secs(60))
    }

    /// The logs whose records expire: the offset up to which they are handled, and their retention.
    fn aging(&self) -> Vec<(LogId, i64, Duration)> {
        let mut aging = Vec::new();
        for (name, topic) in self.topics.iter() {
            for (partition, id) in (0..).zip(&topic.logs) {
                let done = self.done_to(name, partition);
                let age = max_age(topic, self.retention.filter(|_| done.is_some()));
                aging.extend(age.map(|age| (*id, done.unwrap_or(i64::MAX), age)));
            }
        }
        aging
    }

    /// The offset before which the installation's own groups have committed all; `None` for a topic that none of them
    /// reads.
    fn done_to(&self, topic: &str, partition: i32) -> Option<i64> {
        let prefix = self.own_groups.as_deref()?;
        let own = self.offsets.groups().filter(|g| g.starts_with(prefix));
        own.filter_map(|group| self.offsets.position(group, topic, partition))
            .min()
    }

    /// Deletes segments from the front of a log while all records of one are before `done` and `over` accepts it,
    /// given when the next segment was begun and how many bytes would be left. The files are removed when the log's
    /// new start is durable: until then a crash restores the old start.
    fn delete(
        &mut self,
        id: LogId,
        done: i64,
        over: impl Fn(SystemTime, u64) -> bool,
    ) -> io::Result<()> {
        let Some(log) = self.logs.get_mut(&id) else {
            return Ok(());
        };
        let before = log.bytes();
        let gone = log.drop_front(|next, rest| next.base <= done && over(next.born, rest));
        if gone.is_empty() {
            return Ok(());
        }
        self.total_bytes -= before - log.bytes();
        let start = log.start;
        let started = MetaRecord::Started { log: id, start };
        let lsn = self
            .submit(&started, Flush::Soon)
            .map_err(io::Error::other)?;
        let files = gone.into_iter().filter_map(|segment| {
            let path = segment.path()?.to_owned();
            Some((lsn, Doomed::Segment(path)))
        });
        self.doomed.extend(files);
        Ok(())
    }
}

/// Retention of a topic's records; the default is `usual`.
fn max_age(topic: &Topic, usual: Option<Duration>) -> Option<Duration> {
    match topic.configs.get("retention.ms") {
        Some(own) => own.parse().ok().map(Duration::from_millis),
        None => usual,
    }
}
