//! State of idempotent producers in a partition, to tell a duplicate from a gap.
//!
//! The rules are Kafka's: the last five batches of a producer are kept, because a client may have five requests in
//! flight. An older duplicate is answered with `DUPLICATE_SEQUENCE_NUMBER`, which clients take for a success without
//! an offset.

use std::collections::{HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::TopicError;

/// Batches kept for each producer: the most that a client may have in flight.
const REMEMBERED: usize = 5;
/// Bound: producers kept for each partition. Beyond it the least recently used one is dropped, which loses only the
/// duplicate detection for its earlier batches.
const MAX_PRODUCERS: usize = 1024;

/// What an idempotent producer says of the records of one request for one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequence {
    /// The producer's id.
    pub producer: i64,
    /// The producer's epoch.
    pub epoch: i16,
    /// Number of the first record, counted by the producer for each partition.
    pub first: i32,
    /// How many records follow the first one.
    pub more: i32,
}

/// One accepted batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Accepted {
    first_sequence: i32,
    last_sequence: i32,
    base_offset: i64,
}

/// State of one producer in one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Producer {
    epoch: i16,
    recent: VecDeque<Accepted>,
}

/// What to do with a batch of an idempotent producer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// New and in order.
    Append,
    /// Already appended at this base offset.
    Duplicate(i64),
}

impl Producer {
    /// Judges a batch of a producer that is known by its state.
    fn judge(&self, batch: Sequence) -> Result<Verdict, TopicError> {
        if batch.epoch < self.epoch {
            return Err(TopicError::ProducerEpoch);
        }
        if batch.epoch > self.epoch {
            return match batch.first {
                0 => Ok(Verdict::Append),
                _ => Err(TopicError::OutOfOrder),
            };
        }
        let last_sequence = advance(batch.first, batch.more);
        let same =
            |a: &&Accepted| a.first_sequence == batch.first && a.last_sequence == last_sequence;
        if let Some(seen) = self.recent.iter().find(same) {
            return Ok(Verdict::Duplicate(seen.base_offset));
        }
        let (Some(oldest), Some(newest)) = (self.recent.front(), self.recent.back()) else {
            return Ok(Verdict::Append);
        };
        if batch.first == advance(newest.last_sequence, 1) {
            Ok(Verdict::Append)
        } else if last_sequence < oldest.first_sequence
            && oldest.first_sequence <= newest.last_sequence
        {
            Err(TopicError::Duplicate)
        } else {
            Err(TopicError::OutOfOrder)
        }
    }

    fn record(&mut self, batch: Sequence, base_offset: i64) {
        if self.epoch != batch.epoch {
            self.epoch = batch.epoch;
            self.recent.clear();
        }
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(Accepted {
            first_sequence: batch.first,
            last_sequence: advance(batch.first, batch.more),
            base_offset,
        });
    }
}

/// Judges a batch of a producer with this state, and adds the batch to the state if it is to be appended at
/// `base_offset`. An unknown producer may begin with any sequence: its state may have been deleted with old records.
pub(crate) fn judge(
    known: &mut Option<Producer>,
    batch: Sequence,
    base_offset: i64,
) -> Result<Verdict, TopicError> {
    let verdict = known.as_ref().map(|producer| producer.judge(batch));
    let verdict = verdict.unwrap_or(Ok(Verdict::Append))?;
    if verdict == Verdict::Append {
        let fresh = || Producer {
            epoch: batch.epoch,
            recent: VecDeque::with_capacity(REMEMBERED),
        };
        known.get_or_insert_with(fresh).record(batch, base_offset);
    }
    Ok(verdict)
}

/// The producers of one partition in memory.
#[derive(Debug, Default)]
pub(crate) struct Producers(HashMap<i64, Producer>);

impl Producers {
    /// As [`judge`], of the producer that the batch names.
    pub(crate) fn judge(&mut self, batch: Sequence, base: i64) -> Result<Verdict, TopicError> {
        let mut known = self.0.remove(&batch.producer);
        let verdict = judge(&mut known, batch, base);
        if self.0.len() >= MAX_PRODUCERS {
            let last = |p: &Producer| p.recent.back().map_or(-1, |a| a.base_offset);
            let oldest = self.0.iter().min_by_key(|(_, producer)| last(producer));
            if let Some(id) = oldest.map(|(id, _)| *id) {
                self.0.remove(&id);
            }
        }
        self.0.extend(known.map(|known| (batch.producer, known)));
        verdict
    }
}

/// Sequence arithmetic: after `i32::MAX` comes 0.
fn advance(sequence: i32, by: i32) -> i32 {
    let sum = i64::from(sequence) + i64::from(by);
    i32::try_from(sum).unwrap_or_else(|_| i32::try_from(sum - (1 << 31)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(epoch: i16, sequence: i32, records: i32) -> Sequence {
        Sequence {
            producer: 7,
            epoch,
            first: sequence,
            more: records - 1,
        }
    }

    /// A producer whose batches were all appended, one behind the other.
    fn after(batches: &[Sequence]) -> Option<Producer> {
        let (mut known, mut offset) = (None, 0);
        for b in batches {
            assert_eq!(judge(&mut known, *b, offset), Ok(Verdict::Append), "{b:?}");
            offset += i64::from(b.more) + 1;
        }
        known
    }

    fn judged(known: &Option<Producer>, batch: Sequence) -> Result<Verdict, TopicError> {
        judge(&mut known.clone(), batch, 0)
    }

    #[test]
    fn the_last_five_batches_are_known_again_and_older_ones_are_refused_as_duplicates() {
        let sent: Vec<_> = (0..6).map(|i| batch(0, i * 10, 10)).collect();
        let known = after(&sent);
        assert_eq!(judged(&known, sent[1]), Ok(Verdict::Duplicate(10)));
        assert_eq!(judged(&known, sent[5]), Ok(Verdict::Duplicate(50)));
        assert_eq!(judged(&known, sent[0]), Err(TopicError::Duplicate));
    }

    #[test]
    fn a_gap_is_refused_and_so_is_an_older_epoch() {
        let known = after(&[batch(1, 0, 3)]);
        assert_eq!(judged(&known, batch(1, 4, 1)), Err(TopicError::OutOfOrder));
        assert_eq!(
            judged(&known, batch(0, 3, 1)),
            Err(TopicError::ProducerEpoch)
        );
        assert_eq!(judged(&known, batch(2, 3, 1)), Err(TopicError::OutOfOrder));
        assert_eq!(judged(&known, batch(2, 0, 1)), Ok(Verdict::Append));
        assert_eq!(
            judged(&None, batch(0, 3, 1)),
            Ok(Verdict::Append),
            "unknown"
        );
    }

    #[test]
    fn sequences_begin_again_at_zero_behind_the_largest_number() {
        let known = after(&[batch(0, i32::MAX - 1, 2)]);
        assert_eq!(judged(&known, batch(0, 0, 1)), Ok(Verdict::Append));
        let known = after(&[batch(0, i32::MAX, 3)]);
        assert_eq!(judged(&known, batch(0, 2, 1)), Ok(Verdict::Append));
    }

    #[test]
    fn the_producer_that_was_silent_longest_makes_room() {
        let mut producers = Producers::default();
        let of = |producer, first| Sequence {
            producer,
            epoch: 0,
            first,
            more: 0,
        };
        for producer in 0..=MAX_PRODUCERS as i64 {
            let verdict = producers.judge(of(producer, 0), producer);
            assert_eq!(verdict, Ok(Verdict::Append));
        }
        assert_eq!(producers.0.len(), MAX_PRODUCERS);
        assert_eq!(producers.judge(of(1, 0), 9_999), Ok(Verdict::Duplicate(1)));
        assert!(!producers.0.contains_key(&0));
    }
}
