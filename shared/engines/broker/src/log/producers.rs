//! State of idempotent producers in a partition, to tell a duplicate from a gap.
//!
//! The rules are Kafka's: the last five batches of a producer are kept, because a client may have five requests in
//! flight. An older duplicate is answered with `DUPLICATE_SEQUENCE_NUMBER`, which clients take for a success without
//! an offset.

use std::collections::HashMap;
use std::collections::VecDeque;

use kafka_protocol::error::ResponseError;
use serde::{Deserialize, Serialize};

use super::batch::BatchHeader;

/// Batches kept for each producer: the most that a client may have in flight.
const REMEMBERED: usize = 5;
/// Bound: producers kept for each partition. Beyond it the least recently used one is dropped, which loses only the
/// duplicate detection for its earlier batches.
const MAX_PRODUCERS: usize = 1024;

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
    id: i64,
    epoch: i16,
    recent: VecDeque<Accepted>,
}

/// What to do with a batch of an idempotent producer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// New and in order.
    Append,
    /// Already in the log at this base offset.
    Duplicate(i64),
}

/// The producers of one partition.
#[derive(Debug, Default)]
pub(crate) struct Producers {
    known: HashMap<i64, Producer>,
}

impl Producers {
    /// Judges a batch without changing anything.
    ///
    /// An unknown producer may start with any sequence: its state may have been deleted with an old segment.
    pub(crate) fn judge(&self, batch: &BatchHeader) -> Result<Verdict, ResponseError> {
        let Some(producer) = self.known.get(&batch.producer_id) else {
            return Ok(Verdict::Append);
        };
        if batch.producer_epoch < producer.epoch {
            return Err(ResponseError::InvalidProducerEpoch);
        }
        if batch.producer_epoch > producer.epoch {
            return match batch.base_sequence {
                0 => Ok(Verdict::Append),
                _ => Err(ResponseError::OutOfOrderSequenceNumber),
            };
        }
        let last_sequence = advance(batch.base_sequence, batch.last_offset_delta);
        let same = |a: &&Accepted| {
            a.first_sequence == batch.base_sequence && a.last_sequence == last_sequence
        };
        if let Some(seen) = producer.recent.iter().find(same) {
            return Ok(Verdict::Duplicate(seen.base_offset));
        }
        let (Some(oldest), Some(newest)) = (producer.recent.front(), producer.recent.back()) else {
            return Ok(Verdict::Append);
        };
        if batch.base_sequence == advance(newest.last_sequence, 1) {
            Ok(Verdict::Append)
        } else if last_sequence < oldest.first_sequence
            && oldest.first_sequence <= newest.last_sequence
        {
            Err(ResponseError::DuplicateSequenceNumber)
        } else {
            Err(ResponseError::OutOfOrderSequenceNumber)
        }
    }

    /// Records a batch that was appended at `base_offset`; also used for replay from the log.
    pub(crate) fn record(&mut self, batch: &BatchHeader, base_offset: i64) {
        if !batch.is_idempotent() {
            return;
        }
        if self.known.len() >= MAX_PRODUCERS && !self.known.contains_key(&batch.producer_id) {
            self.forget_oldest();
        }
        let producer = self
            .known
            .entry(batch.producer_id)
            .or_insert_with(|| Producer {
                id: batch.producer_id,
                epoch: batch.producer_epoch,
                recent: VecDeque::with_capacity(REMEMBERED),
            });
        if producer.epoch != batch.producer_epoch {
            producer.epoch = batch.producer_epoch;
            producer.recent.clear();
        }
        if producer.recent.len() == REMEMBERED {
            producer.recent.pop_front();
        }
        producer.recent.push_back(Accepted {
            first_sequence: batch.base_sequence,
            last_sequence: advance(batch.base_sequence, batch.last_offset_delta),
            base_offset,
        });
    }

    fn forget_oldest(&mut self) {
        let newest_offset = |p: &Producer| p.recent.back().map_or(-1, |a| a.base_offset);
        if let Some(id) = self
            .known
            .values()
            .min_by_key(|p| newest_offset(p))
            .map(|p| p.id)
        {
            self.known.remove(&id);
        }
    }

    /// A copy for the snapshot, in a stable order.
    pub(crate) fn export(&self) -> Vec<Producer> {
        let mut all: Vec<_> = self.known.values().cloned().collect();
        all.sort_by_key(|p| p.id);
        all
    }

    /// The reverse of [`Producers::export`].
    pub(crate) fn import(all: Vec<Producer>) -> Self {
        Self {
            known: all.into_iter().map(|p| (p.id, p)).collect(),
        }
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

    fn batch(epoch: i16, sequence: i32, records: i32) -> BatchHeader {
        BatchHeader {
            base_offset: 0,
            size: 100,
            attributes: 0,
            last_offset_delta: records - 1,
            base_timestamp: 0,
            max_timestamp: 0,
            producer_id: 7,
            producer_epoch: epoch,
            base_sequence: sequence,
            records,
        }
    }

    fn after(batches: &[BatchHeader]) -> Producers {
        let mut producers = Producers::default();
        let mut offset = 0;
        for b in batches {
            assert_eq!(producers.judge(b), Ok(Verdict::Append), "{b:?}");
            producers.record(b, offset);
            offset += i64::from(b.records);
        }
        producers
    }

    #[test]
    fn the_last_five_batches_are_known_again_and_older_ones_are_refused_as_duplicates() {
        let sent: Vec<_> = (0..6).map(|i| batch(0, i * 10, 10)).collect();
        let producers = after(&sent);
        assert_eq!(producers.judge(&sent[1]), Ok(Verdict::Duplicate(10)));
        assert_eq!(producers.judge(&sent[5]), Ok(Verdict::Duplicate(50)));
        assert_eq!(
            producers.judge(&sent[0]),
            Err(ResponseError::DuplicateSequenceNumber)
        );
    }

    #[test]
    fn a_gap_is_out_of_order_and_an_unknown_producer_may_start_anywhere() {
        let producers = after(&[batch(0, 500, 10)]);
        assert_eq!(producers.judge(&batch(0, 510, 1)), Ok(Verdict::Append));
        assert_eq!(
            producers.judge(&batch(0, 511, 1)),
            Err(ResponseError::OutOfOrderSequenceNumber)
        );
    }

    #[test]
    fn an_older_epoch_is_fenced_and_a_newer_one_starts_at_zero() {
        let producers = after(&[batch(3, 0, 1)]);
        assert_eq!(
            producers.judge(&batch(2, 1, 1)),
            Err(ResponseError::InvalidProducerEpoch)
        );
        assert_eq!(producers.judge(&batch(4, 0, 1)), Ok(Verdict::Append));
        assert_eq!(
            producers.judge(&batch(4, 1, 1)),
            Err(ResponseError::OutOfOrderSequenceNumber)
        );
    }

    #[test]
    fn sequences_wrap_after_the_largest_one() {
        let producers = after(&[batch(0, i32::MAX - 1, 3)]);
        assert_eq!(producers.judge(&batch(0, 1, 1)), Ok(Verdict::Append));
        assert_eq!(
            producers.judge(&batch(0, i32::MAX - 1, 3)),
            Ok(Verdict::Duplicate(0))
        );
    }

    #[test]
    fn the_number_of_producers_is_bounded_and_the_least_recent_makes_room() {
        let mut producers = Producers::default();
        for i in 0..=MAX_PRODUCERS {
            let id = i64::try_from(i).unwrap();
            producers.record(
                &BatchHeader {
                    producer_id: id,
                    ..batch(0, 0, 1)
                },
                id,
            );
        }
        assert_eq!(producers.known.len(), MAX_PRODUCERS);
        assert!(!producers.known.contains_key(&0));
    }

    #[test]
    fn an_export_brings_back_the_same_memory() {
        let producers = after(&[batch(0, 0, 5), batch(0, 5, 5)]);
        let again = Producers::import(producers.export());
        assert_eq!(again.known, producers.known);
    }
}
