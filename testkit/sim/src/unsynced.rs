//! What the log of one machine has acknowledged before it was durable.
//!
//! All of that log is one file: once anything in it is durable, all before it is. So a loss of power takes
//! back the last of it, of messages that can be made again and of commits of offsets, in the order in
//! which they were made.

use std::collections::VecDeque;

use triad_core::Envelope;

/// Most that a loss of power takes back: what is older has become durable by itself.
const MOST: usize = 64;

/// One thing that may be taken back.
#[derive(Debug)]
pub(crate) enum TakeBack {
    /// The last record of a partition.
    Appended { topic: String, partition: usize },
    /// A commit, and what was committed before.
    Committed {
        topic: String,
        partition: usize,
        before: usize,
    },
}

/// What is acknowledged and not durable yet, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Unsynced(VecDeque<TakeBack>);

impl Unsynced {
    /// A message has been appended. One that nobody can make again is durable when it is acknowledged.
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

    /// An offset has been committed where `before` was.
    pub(crate) fn committed(&mut self, topic: &str, partition: usize, before: usize) {
        self.push(TakeBack::Committed {
            topic: topic.to_owned(),
            partition,
            before,
        });
    }

    /// All of it is durable now.
    pub(crate) fn made_durable(&mut self) {
        self.0.clear();
    }

    fn push(&mut self, change: TakeBack) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(change);
    }

    /// How much may be lost.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// All but the first `kept`, the last first; nothing is left.
    pub(crate) fn lose(&mut self, kept: usize) -> impl Iterator<Item = TakeBack> {
        let lost = self.0.split_off(kept.min(self.0.len()));
        self.0.clear();
        lost.into_iter().rev()
    }
}
