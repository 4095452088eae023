//! Items to redeliver, by partition: each partition has its own wait, and the others continue.

use std::collections::{BTreeMap, VecDeque};

use tokio::time::Instant;

use crate::assignment::Partition;
use crate::dead_lettering::Item;
use crate::retry::{FOR_ROOM, wait_before};

/// Why the first item of a partition is redelivered.
#[derive(Debug)]
pub(crate) enum Why {
    /// There was no room for it.
    NoRoom,
    /// The handler of the item failed.
    Failed,
}

/// The partitions with items to redeliver.
#[derive(Debug, Default)]
pub(crate) struct Stuck(BTreeMap<Partition, Waiting>);

/// The waiting items of one partition, in their order.
#[derive(Debug)]
struct Waiting {
    items: VecDeque<Item>,
    tries: u32,
    at: Instant,
}

impl From<Instant> for Waiting {
    fn from(at: Instant) -> Self {
        Self {
            items: VecDeque::new(),
            tries: 0,
            at,
        }
    }
}

impl Stuck {
    /// Earliest time of a redelivery.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        let waiting = self.0.values().filter(|w| !w.items.is_empty());
        waiting.map(|w| w.at).min()
    }

    /// When the oldest waiting record was written, in milliseconds since 1970.
    pub(crate) fn oldest(&self) -> Option<i64> {
        let waiting = self.0.values().flat_map(|w| &w.items);
        waiting.map(|item| item.record().timestamp_ms).min()
    }

    /// Takes the due items, at most `max`.
    pub(crate) fn take_due(&mut self, now: Instant, max: usize) -> Vec<Item> {
        let is_due = |w: &&mut Waiting| w.at <= now && !w.items.is_empty();
        let mut taken = Vec::new();
        for waiting in self.0.values_mut().filter(is_due) {
            let many = waiting.items.len().min(max - taken.len());
            taken.extend(waiting.items.drain(..many));
        }
        taken
    }

    /// Appends an item to the waiting ones of its partition; returns it if none waits.
    pub(crate) fn put_behind(&mut self, item: Item) -> Option<Item> {
        match self.0.get_mut(&item.partition()) {
            Some(waiting) => {
                waiting.items.push_back(item);
                None
            }
            None => Some(item),
        }
    }

    /// Notes that all redelivered items of a partition are done; true if no more of it wait.
    pub(crate) fn done(&mut self, partition: &Partition, now: Instant) -> bool {
        let Some(waiting) = self.0.get_mut(partition) else {
            return false;
        };
        waiting.tries = 0;
        waiting.at = now;
        if waiting.items.is_empty() {
            self.0.remove(partition);
            return true;
        }
        false
    }

    /// Puts the unfinished items of a partition back, in front of its waiting ones; `moved` if an earlier item was
    /// done. True if it is the first time.
    pub(crate) fn put_back(
        &mut self,
        partition: Partition,
        left: Vec<Item>,
        moved: bool,
        why: &Why,
        now: Instant,
    ) -> bool {
        let is_new = !self.0.contains_key(&partition);
        let waiting = self
            .0
            .entry(partition)
            .or_insert_with(|| Waiting::from(now));
        if moved {
            waiting.tries = 0;
        }
        for item in left.into_iter().rev() {
            waiting.items.push_front(item);
        }
        waiting.at = now
            + match why {
                Why::NoRoom => FOR_ROOM,
                Why::Failed => wait_before(&mut waiting.tries),
            };
        is_new
    }

    /// Drops revoked partitions: their new consumer reads the items again.
    pub(crate) fn forget(&mut self, partitions: &[Partition]) {
        self.0
            .retain(|partition, _| !partitions.contains(partition));
    }
}

#[cfg(test)]
mod tests;
