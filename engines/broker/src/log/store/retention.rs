//! What is deleted from the logs: whole segments, the oldest first, and nothing that is still to be done.
//!
//! Two rules end a record's time: more bytes than its partition keeps, and, of topics that the installation's own
//! groups read, its age. Both stop at what such a group has not committed: an order that was acknowledged is taken in
//! some day, however long the handlers are behind. What then fills the disk is bounded by `max_total_bytes`, at which
//! senders are refused.

use std::io;
use std::time::{Duration, SystemTime};

use super::{Doomed, Store, mark_dirty};
use crate::log::flusher::Flush;
use crate::log::meta::{LogId, MetaRecord};
use crate::log::topics::Topic;

/// A segment that is not full is finished when its first record has reached this part of the age that records may
/// have: so a record lives for at most so much longer than that age.
const ROLL_AT: u32 = 4;

impl Store {
    /// Deletes what a log has beyond the bytes that its partition keeps.
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

    /// Deletes records whose time is over at `now`.
    ///
    /// # Errors
    /// If a file cannot be written or deleted; a later call goes on.
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

    /// How often [`expire`](Self::expire) has something to do: a small part of the shortest age, within a second and a
    /// minute.
    pub(crate) fn expire_every(&self) -> Duration {
        let shortest = self.aging().into_iter().map(|(_, _, age)| age).min();
        let every = shortest.map_or(Duration::MAX, |age| age / (4 * ROLL_AT));
        every.clamp(Duration::from_secs(1), Duration::from_secs(60))
    }

    /// The logs whose records age: up to which offset they are done, and how old they may become.
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

    /// The offset before which the installation's own groups have done all; `None` of a topic that none of them reads.
    fn done_to(&self, topic: &str, partition: i32) -> Option<i64> {
        let prefix = self.own_groups.as_deref()?;
        let own = self.offsets.groups().filter(|g| g.starts_with(prefix));
        own.filter_map(|group| self.offsets.position(group, topic, partition))
            .min()
    }

    /// Deletes segments from the front of a log, as long as all of one is before `done`, and it is `over`: said by when
    /// the next one was begun, and by how many bytes are left without it. Their files go when the log's new start is
    /// durable: until then a crash brings the old one back.
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

/// How old a topic's records may become; without a setting of its own as old as `usual`.
fn max_age(topic: &Topic, usual: Option<Duration>) -> Option<Duration> {
    match topic.configs.get("retention.ms") {
        Some(own) => own.parse().ok().map(Duration::from_millis),
        None => usual,
    }
}
