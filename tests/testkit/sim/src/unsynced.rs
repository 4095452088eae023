//! Acknowledged items in the log of one machine that are not durable yet.
//!
//! That log is one file: once an item is durable, all earlier ones are. So a loss of power takes back the last of
//! them, restorable messages and commits of offsets, in the reverse order of their writing.

use std::collections::VecDeque;

use triad_core::Envelope;

/// Most items that a loss of power takes back: older ones are durable by then.
const MOST: usize = 64;

/// One item that may be taken back.
#[derive(Debug)]
pub(crate) enum TakeBack {
    /// The last record of a partition.
    Appended { topic: String, partition: usize },
    /// A commit, and the offset committed before.
    Committed {
        topic: String,
        partition: usize,
        before: usize,
    },
}

/// Acknowledged items that are not durable yet, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Unsynced(VecDeque<TakeBack>);

impl Unsynced {
    /// Notes an appended message. A message that is not restorable is durable when it is acknowledged.
    pub(crate) fn appended(&mut self, message: &Envelope, partition: usize) {
        if !message.is_restorable {
            self.made_durable();
            return;
        }
        self.push(TakeBack::Appended {
            topic: message.topic.clone(),
            partition,
        });
    }

    /// Notes a committed offset; `before` was the one before.
    pub(crate) fn committed(&mut self, topic: &str, partition: usize, before: usize) {
        self.push(TakeBack::Committed {
            topic: topic.to_owned(),
            partition,
            before,
        });
    }

    /// All items are durable now.
    pub(crate) fn made_durable(&mut self) {
        self.0.clear();
    }

    fn push(&mut self, change: TakeBack) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(change);
    }

    /// Number of items that may be lost.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes all but the first `kept` items, the last first; nothing is left.
    pub(crate) fn lose(&mut self, kept: usize) -> impl Iterator<Item = TakeBack> {
        let lost = self.0.split_off(kept.min(self.0.len()));
        self.0.clear();
        lost.into_iter().rev()
    }
}
