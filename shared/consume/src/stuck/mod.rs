//! What could not be done yet, by partition: each waits for its own time, and the others go on.

use std::collections::{BTreeMap, VecDeque};

use tokio::time::Instant;

use crate::assignment::Partition;
use crate::dead_lettering::Item;
use crate::retry::{FOR_ROOM, wait_before};

/// Why the first of a partition could not be done.
#[derive(Debug)]
pub(crate) enum Why {
    /// There is no room for it yet.
    NoRoom,
    /// Something failed.
    Failed,
}

/// The partitions of which something is to be handed over again.
#[derive(Debug, Default)]
pub(crate) struct Stuck(BTreeMap<Partition, Waiting>);

/// What waits of one partition, in its order.
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
    /// When something is to be handed over again, at the earliest.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        let waiting = self.0.values().filter(|w| !w.items.is_empty());
        waiting.map(|w| w.at).min()
    }

    /// When the oldest of what waits was written, in milliseconds since 1970.
    pub(crate) fn oldest(&self) -> Option<i64> {
        let waiting = self.0.values().flat_map(|w| &w.items);
        waiting.map(|item| item.record().timestamp_ms).min()
    }

    /// Takes what is due, at most `max`.
    pub(crate) fn take_due(&mut self, now: Instant, max: usize) -> Vec<Item> {
        let is_due = |w: &&mut Waiting| w.at <= now && !w.items.is_empty();
        let mut taken = Vec::new();
        for waiting in self.0.values_mut().filter(is_due) {
            let many = waiting.items.len().min(max - taken.len());
            taken.extend(waiting.items.drain(..many));
        }
        taken
    }

    /// Puts an item behind those of its partition that wait; gives it back if none does.
    pub(crate) fn put_behind(&mut self, item: Item) -> Option<Item> {
        match self.0.get_mut(&item.partition()) {
            Some(waiting) => {
                waiting.items.push_back(item);
                None
            }
            None => Some(item),
        }
    }

    /// All that was handed over of a partition is done; whether nothing more of it waits.
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

    /// Puts back what is left of a partition, in front of what waits of it: `moved` if something
    /// before it was done. Whether it is the first time.
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

    /// Forgets partitions that have gone elsewhere: what waits of them comes again there.
    pub(crate) fn forget(&mut self, partitions: &[Partition]) {
        self.0
            .retain(|partition, _| !partitions.contains(partition));
    }
}

#[cfg(test)]
mod tests;
