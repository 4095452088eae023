//! The handling of a batch until every record is done or given up. This module decides the next step, without IO;
//! `poller` carries it out.
//!
//! - Within a batch, a record is done only after the records before it in its partition.
//! - A batch that fails as a whole is tried again; with bisection it is halved first, and halving does not count as a
//!   retry.
//! - A partial answer completes the records before the first failed one of each partition. An answer that completes
//!   none is a failure of the whole batch, so that bisection finds a bad record at its head, and good records behind it
//!   are not given up with it.

use std::collections::{HashMap, VecDeque};

use triad_core::Timestamp;
use triad_runtime::InputRecord;

use crate::settings::Settings;
use crate::verdict::{Verdict, name};

/// Why records were given up. The names are those of AWS's invocation records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The batch failed once more than the mapping has retries.
    RetryAttemptsExhausted,
    /// The batch failed, and a record in it is older than the mapping allows.
    EventAgeExceeded,
    /// One record alone is larger than the payload of an invocation may be.
    PayloadTooLarge,
}

/// Records that were given up together.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenUp {
    /// The records, in the order of the batch.
    pub records: Vec<InputRecord>,
    /// Why they were given up.
    pub why: Why,
    /// How often the function was invoked with these records, alone or together with others of their batch.
    /// Invocations whose payload was too large are not counted.
    pub invocations: u32,
    /// The reason for which the last invocation failed, as text. Empty if the records alone were too large for an
    /// invocation.
    pub cause: String,
}

/// Result of one invocation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Resolved {
    /// Records that are done.
    pub done: Vec<InputRecord>,
    /// Records that are given up, which must be stored before their offsets are committed. `None` if none
    /// are.
    pub given_up: Option<GivenUp>,
    /// Whether the next invocation has records that have just failed. If so, the caller must wait before it.
    pub again: bool,
}

#[derive(Debug)]
struct Chunk {
    records: Vec<InputRecord>,
    failures: u32,
    invocations: u32,
}

/// One batch, split into parts that are neither done nor given up, with the rules for each part.
#[derive(Debug)]
pub struct Work {
    chunks: VecDeque<Chunk>,
    bisect: bool,
    retries: Option<u32>,
    max_age_ms: Option<u64>,
}

impl Work {
    /// A batch of these records, in the order in which they were read.
    #[must_use]
    pub fn new(records: Vec<InputRecord>, settings: &Settings) -> Self {
        let chunk = Chunk {
            records,
            failures: 0,
            invocations: 0,
        };
        Self {
            chunks: VecDeque::from([chunk]),
            bisect: settings.bisect,
            retries: settings.retries,
            max_age_ms: settings.record_age.map(|age| age.as_millis() as u64),
        }
    }

    /// The records of the next invocation; `None` once all are done or given up.
    #[must_use]
    pub fn next(&self) -> Option<&[InputRecord]> {
        self.chunks.front().map(|chunk| &*chunk.records)
    }

    /// Number of failures counted for the records of the next invocation; 0 if there are none.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.chunks.front().map_or(0, |chunk| chunk.failures)
    }

    /// Applies the result of an invocation with the records of [`next`](Self::next); returns those that are now done
    /// or given up. The records' age is measured at `now`. Does nothing if no records are left.
    pub fn resolve(&mut self, verdict: Verdict, now: Timestamp) -> Resolved {
        let Some(mut chunk) = self.chunks.pop_front() else {
            return Resolved::default();
        };
        chunk.invocations += 1;
        match verdict {
            Verdict::Success => Resolved {
                done: chunk.records,
                ..Resolved::default()
            },
            Verdict::From(from) => {
                let (left, done) = part(chunk.records, &from);
                let moved = !done.is_empty();
                chunk.records = left;
                let cause = "named in the partial batch response".to_owned();
                let mut resolved = if chunk.records.is_empty() {
                    Resolved::default()
                } else if moved {
                    // The part begins with another record now, so its failures count from zero.
                    chunk.failures = 0;
                    self.count(chunk, cause, now)
                } else {
                    self.fail(chunk, cause, now)
                };
                resolved.done = done;
                resolved
            }
            Verdict::Failure(cause) => self.fail(chunk, cause, now),
        }
    }

    /// Notes that the event with the records of [`next`](Self::next) is too large. Several records are split into
    /// halves, of which the first comes next; none is resolved then. A single record is given up, in
    /// [`Resolved::given_up`] with [`Why::PayloadTooLarge`]. Does nothing if no records are left.
    pub fn too_large(&mut self) -> Resolved {
        match self.chunks.pop_front() {
            None => Resolved::default(),
            Some(chunk) if chunk.records.len() > 1 => {
                self.halve(chunk);
                Resolved::default()
            }
            Some(chunk) => give_up(chunk, Why::PayloadTooLarge, String::new()),
        }
    }

    fn fail(&mut self, chunk: Chunk, cause: String, now: Timestamp) -> Resolved {
        if self.bisect && chunk.records.len() > 1 && !self.too_old(&chunk, now) {
            self.halve(chunk);
            return Resolved {
                again: true,
                ..Resolved::default()
            };
        }
        self.count(chunk, cause, now)
    }

    fn count(&mut self, mut chunk: Chunk, cause: String, now: Timestamp) -> Resolved {
        chunk.failures += 1;
        if self.too_old(&chunk, now) {
            return give_up(chunk, Why::EventAgeExceeded, cause);
        }
        if self.retries.is_some_and(|retries| chunk.failures > retries) {
            return give_up(chunk, Why::RetryAttemptsExhausted, cause);
        }
        self.chunks.push_front(chunk);
        Resolved {
            again: true,
            ..Resolved::default()
        }
    }

    fn too_old(&self, chunk: &Chunk, now: Timestamp) -> bool {
        // A record without a timestamp has no age.
        let age = |r: &InputRecord| {
            let written = u64::try_from(r.timestamp_ms).ok()?;
            Some(now.0.saturating_sub(written))
        };
        let oldest = chunk.records.iter().filter_map(age).max();
        matches!((oldest, self.max_age_ms), (Some(age), Some(most)) if age > most)
    }

    fn halve(&mut self, mut chunk: Chunk) {
        let second = Chunk {
            records: chunk.records.split_off(chunk.records.len() / 2),
            failures: chunk.failures,
            invocations: chunk.invocations,
        };
        self.chunks.push_front(second);
        self.chunks.push_front(chunk);
    }
}

/// Splits records into those to deliver again and those that are done.
fn part(
    records: Vec<InputRecord>,
    from: &HashMap<String, i64>,
) -> (Vec<InputRecord>, Vec<InputRecord>) {
    let again = |r: &InputRecord| from.get(&name(r)).is_some_and(|first| r.offset >= *first);
    records.into_iter().partition(again)
}

fn give_up(chunk: Chunk, why: Why, cause: String) -> Resolved {
    Resolved {
        given_up: Some(GivenUp {
            records: chunk.records,
            why,
            invocations: chunk.invocations,
            cause,
        }),
        ..Resolved::default()
    }
}

#[cfg(test)]
mod tests;
