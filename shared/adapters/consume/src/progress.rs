//! Records under way by partition, and the offset that may be committed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::assignment::Partition;
use crate::broker::Consumer;
use crate::dead_lettering::Item;

/// Records under way, by partition.
#[derive(Debug, Default)]
pub(crate) struct UnderWay(Mutex<BTreeMap<Partition, Progress>>);

#[derive(Debug, Default)]
struct Progress {
    /// When each record was written, in milliseconds since 1970, by offset.
    open: BTreeMap<i64, i64>,
    /// The last seen offset plus one.
    next: i64,
    /// The last stored offset.
    stored: i64,
}

impl UnderWay {
    /// Adds a record.
    pub(crate) fn begin(&self, item: &Item) {
        let mut all = self.lock();
        let progress = all.entry(item.partition()).or_default();
        let offset = item.record().offset;
        progress.open.insert(offset, item.record().timestamp_ms);
        // After a rebalance a partition may start at an earlier offset, and its stored offset is void.
        progress.next = item.next();
        progress.stored = progress.stored.min(offset);
    }

    /// Drops the tracking of revoked partitions.
    pub(crate) fn forget(&self, partitions: &[Partition]) {
        self.lock().retain(|at, _| !partitions.contains(at));
    }

    /// Notes that a record is done.
    pub(crate) fn end(&self, item: &Item) {
        let mut all = self.lock();
        if let Some(progress) = all.get_mut(&item.partition()) {
            progress.open.remove(&item.record().offset);
        }
    }

    /// Stores, for each partition, the offset before which all is done; true if any has moved.
    pub(crate) fn store(&self, consumer: &impl Consumer) -> bool {
        let moved = self.moved();
        for (partition, done) in &moved {
            consumer.store(partition, *done);
        }
        !moved.is_empty()
    }

    /// The partitions whose offset has moved, with the new offset; marks them as stored.
    fn moved(&self) -> Vec<(Partition, i64)> {
        let mut moved = Vec::new();
        for (partition, progress) in self.lock().iter_mut() {
            let done = progress.done();
            if done != progress.stored {
                progress.stored = done;
                moved.push((partition.clone(), done));
            }
        }
        moved
    }

    /// When the oldest record under way was written, in milliseconds since 1970.
    pub(crate) fn oldest(&self) -> Option<i64> {
        let all = self.lock();
        all.values().flat_map(|p| p.open.values()).min().copied()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Partition, Progress>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    /// The offset before which all records are done.
    fn done(&self) -> i64 {
        self.open
            .first_key_value()
            .map_or(self.next, |(offset, _)| *offset)
    }
}

#[cfg(test)]
mod tests {
    use triad_runtime::InputRecord;

    use super::*;

    fn record(offset: i64) -> Item {
        Item::Record(InputRecord {
            topic: "t".into(),
            offset,
            ..InputRecord::default()
        })
    }

    fn done(under_way: &UnderWay) -> i64 {
        under_way.lock()[&("t".to_owned(), 0)].done()
    }

    #[test]
    fn an_offset_is_done_when_all_before_it_are() {
        let under_way = UnderWay::default();
        for offset in 5..9 {
            under_way.begin(&record(offset));
        }
        assert_eq!(done(&under_way), 5);
        under_way.end(&record(6));
        under_way.end(&record(8));
        assert_eq!(done(&under_way), 5);
        under_way.end(&record(5));
        assert_eq!(done(&under_way), 7);
        under_way.end(&record(7));
        assert_eq!(done(&under_way), 9);
    }

    #[test]
    fn what_comes_again_is_stored_again() {
        let under_way = UnderWay::default();
        let at = ("t".to_owned(), 0);
        // The second time it is done before the first check.
        for _ in 0..2 {
            under_way.begin(&record(5));
            under_way.end(&record(5));
            assert_eq!(under_way.moved(), [(at.clone(), 6)]);
            assert_eq!(under_way.moved(), []);
        }
    }

    #[test]
    fn what_has_gone_is_not_waited_for_when_its_partition_comes_back() {
        let under_way = UnderWay::default();
        under_way.begin(&record(5));
        under_way.forget(&[("t".to_owned(), 0)]);
        under_way.begin(&record(90));
        under_way.end(&record(90));
        assert_eq!(done(&under_way), 91);
    }
}
