//! Acknowledged items in the log of one machine that are not durable yet.
//!
//! The log is one file: if an item is durable, so are all earlier ones. So a loss of power reverts the last items,
//! which are restorable messages and commits of offsets, in reverse order.

use std::collections::VecDeque;

use triad_core::{Envelope, topics};

/// Most items that a loss of power can revert; older ones are durable by then.
const MOST: usize = 64;

/// An item that may be reverted.
#[derive(Debug)]
pub(crate) enum TakeBack {
    /// The last record of a partition was appended.
    Appended { topic: String, partition: usize },
    /// An offset was committed; with the offset before it.
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
    /// Adds an appended message. A message that is not restorable is durable when it is acknowledged.
    pub(crate) fn appended(&mut self, message: &Envelope, partition: usize) {
        if !topics::is_between_handlers(&message.topic) {
            self.made_durable();
            return;
        }
        self.push(TakeBack::Appended {
            topic: message.topic.clone(),
            partition,
        });
    }

    /// Adds a committed offset; `before` is the previous one.
    pub(crate) fn committed(&mut self, topic: &str, partition: usize, before: usize) {
        self.push(TakeBack::Committed {
            topic: topic.to_owned(),
            partition,
            before,
        });
    }

    /// Makes all items durable.
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

    /// Takes all items after the first `kept`, the last one first. Afterwards no item is left.
    pub(crate) fn lose(&mut self, kept: usize) -> impl Iterator<Item = TakeBack> {
        let lost = self.0.split_off(kept.min(self.0.len()));
        self.0.clear();
        lost.into_iter().rev()
    }
}
