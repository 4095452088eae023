//! What a consumer and its loop tell each other of the partitions that come and go.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use triad_runtime::dead_letter::LetterId;
use triad_runtime::deaths::Mark;

use crate::note::{Note, Partition};

/// What a consumer and its loop tell each other after a rebalance: which partitions have gone, with which
/// marks others have come, and for which partitions it is noted that records are in hand.
///
/// The consumer tells what a rebalance has done ([`revoke`](Self::revoke), [`meet`](Self::meet)), and
/// takes the notes back before partitions go ([`take_notes_back`](Self::take_notes_back)); the loop
/// does the rest. Bound: a few entries for each partition of one topic.
#[derive(Debug, Default)]
pub struct Assignment(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Partitions that have gone and of which the loop does not know yet.
    revoked: Vec<Partition>,
    /// How often partitions have gone.
    revocations: u64,
    /// Marks on those that came, of which the loop does not know yet.
    met: Vec<(LetterId, Mark)>,
    /// From which offset on the loop has noted that records are in hand.
    noted: BTreeMap<Partition, i64>,
}

impl Assignment {
    /// Tells the loop that these partitions are no longer its consumer's.
    pub fn revoke(&self, partitions: impl IntoIterator<Item = Partition>) {
        let mut state = self.lock();
        state.revocations += 1;
        state.revoked.extend(partitions);
    }

    /// How often [`revoke`](Self::revoke) was called. What a consumer has found out about a partition before
    /// the last time says nothing of where it reads that partition now.
    pub fn revocations(&self) -> u64 {
        self.lock().revocations
    }

    /// Tells the loop which marks an earlier consumer has left on partitions that have come, each with the
    /// record that it is about.
    pub fn meet(&self, marks: impl IntoIterator<Item = (LetterId, Mark)>) {
        self.lock().met.extend(marks);
    }

    /// Forgets all notes of records that are in hand and not answered yet, and returns the notes that take
    /// them back: each says of its partition that nothing is in hand. The caller has to commit them
    /// ([`Consumer::note`](crate::Consumer::note)).
    pub fn take_notes_back(&self) -> Vec<Note> {
        let noted = std::mem::take(&mut self.lock().noted);
        let back = noted.into_iter().map(|(partition, position)| Note {
            partition,
            position,
            in_hand: None,
        });
        back.collect()
    }

    /// What has gone since the last call.
    pub(crate) fn take_revoked(&self) -> Vec<Partition> {
        std::mem::take(&mut self.lock().revoked)
    }

    /// The marks that were met since the last call.
    pub(crate) fn take_met(&self) -> Vec<(LetterId, Mark)> {
        std::mem::take(&mut self.lock().met)
    }

    /// Keeps that records of a partition are in hand from an offset on, or that none are.
    pub(crate) fn set_noted(&self, partition: Partition, from: Option<i64>) {
        let noted = &mut self.lock().noted;
        match from {
            Some(offset) => noted.insert(partition, offset),
            None => noted.remove(&partition),
        };
    }

    /// From which offset on records of a partition are noted to be in hand.
    pub(crate) fn noted(&self, partition: &Partition) -> Option<i64> {
        self.lock().noted.get(partition).copied()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
