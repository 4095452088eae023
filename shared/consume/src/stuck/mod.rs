//! What could not be done yet, by partition: each waits for its own time, and the others go on.

use std::collections::{BTreeMap, VecDeque};

use tokio::time::Instant;

use crate::aside::{Item, MAX_PANICS};
use crate::note::Partition;
use crate::retry::{FOR_ROOM, wait_before};

/// Why the first of a partition could not be done.
#[derive(Debug)]
pub(crate) enum Why {
    /// There is no room for it yet.
    NoRoom,
    /// Something failed.
    Failed,
    /// The handler panicked, on it or on another of its batch.
    Panicked {
        /// What it said.
        said: String,
        /// Whether the record was the only one that was handed over.
        alone: bool,
    },
}

/// The partitions of which something is to be handed over again.
#[derive(Debug, Default)]
pub(crate) struct Stuck(BTreeMap<Partition, Waiting>);

/// What waits of one partition, in its order.
#[derive(Debug)]
struct Waiting {
    items: VecDeque<Item>,
    tries: u32,
    panics: u32,
    /// One item at a time, by itself: one of them makes the handler panic.
    alone: bool,
    at: Instant,
}

impl From<Instant> for Waiting {
    fn from(at: Instant) -> Self {
        Self {
            items: VecDeque::new(),
            tries: 0,
            panics: 0,
            alone: false,
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

    /// Takes what is due, at most `max`; what is to be handed over alone comes alone.
    pub(crate) fn take_due(&mut self, now: Instant, max: usize) -> Vec<Item> {
        let is_due = |w: &&mut Waiting| w.at <= now && !w.items.is_empty();
        if let Some(one) = self.0.values_mut().filter(is_due).find(|w| w.alone) {
            return one.items.pop_front().into_iter().collect();
        }
        let mut taken = Vec::new();
        for waiting in self.0.values_mut().filter(is_due) {
            let many = waiting.items.len().min(max - taken.len());
            taken.extend(waiting.items.drain(..many));
        }
        taken
    }

    /// Whether what was taken last goes alone.
    pub(crate) fn is_alone(&self, partition: &Partition) -> bool {
        self.0.get(partition).is_some_and(|w| w.alone)
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

    /// Puts an item last of its partition, whose items are handed over one by one from now on.
    /// Whether it is the first of it.
    pub(crate) fn put_alone(&mut self, item: Item, now: Instant) -> bool {
        let partition = item.partition();
        let is_new = !self.0.contains_key(&partition);
        let waiting = self
            .0
            .entry(partition)
            .or_insert_with(|| Waiting::from(now));
        waiting.alone = true;
        waiting.items.push_back(item);
        is_new
    }

    /// All that was handed over of a partition is done; whether nothing more of it waits.
    pub(crate) fn done(&mut self, partition: &Partition, now: Instant) -> bool {
        let Some(waiting) = self.0.get_mut(partition) else {
            return false;
        };
        waiting.tries = 0;
        waiting.panics = 0;
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
            waiting.panics = 0;
        }
        for item in left.into_iter().rev() {
            waiting.items.push_front(item);
        }
        waiting.at = now
            + match why {
                Why::NoRoom => FOR_ROOM,
                Why::Failed => wait_before(&mut waiting.tries),
                Why::Panicked { .. } => wait_before(&mut waiting.tries),
            };
        if let Why::Panicked { said, alone } = why {
            waiting.alone = true;
            waiting.panics += u32::from(*alone);
            if waiting.panics >= MAX_PANICS
                && let Some(Item::Record(record)) = waiting.items.pop_front()
            {
                waiting.items.push_front(Item::panicked(record, said));
                waiting.panics = 0;
                waiting.at = now;
            }
        }
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
