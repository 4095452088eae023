//! A batch, until every record of it is done or given up. Pure: what to do next is decided here,
//! done in `poller`.
//!
//! - Within a batch nothing passes a record of its partition that is not done.
//! - A batch that fails as a whole is tried again; with bisection it is halved first, and halving
//!   does not count as a retry.
//! - A partial answer lets go of what is before the first failed record of each partition. One
//!   that lets go of nothing is a failure of the whole batch, so that a bad record at its head is
//!   found by halving, and not given up together with good ones behind it.

use std::collections::{HashMap, VecDeque};

use triad_core::Timestamp;
use triad_runtime::InputRecord;

use crate::settings::Settings;
use crate::verdict::{Verdict, name};

/// Why records were given up; the words of AWS's invocation records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// As many retries as the mapping allows.
    RetryAttemptsExhausted,
    /// Older than the mapping allows.
    EventAgeExceeded,
    /// One record larger than an invocation's payload.
    PayloadTooLarge,
}

/// Records that were given up together.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenUp {
    /// They.
    pub records: Vec<InputRecord>,
    /// Why.
    pub why: Why,
    /// How often they were handed to the function.
    pub invocations: u32,
    /// What the function said last.
    pub cause: String,
}

/// What one invocation has settled.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settled {
    /// Records that are done.
    pub done: Vec<InputRecord>,
    /// Records that are given up: to be kept, then passed.
    pub given_up: Option<GivenUp>,
    /// Whether the next try is one of records that have just failed: wait before it.
    pub again: bool,
}

#[derive(Debug)]
struct Chunk {
    records: Vec<InputRecord>,
    failures: u32,
    invocations: u32,
}

/// One batch under way.
#[derive(Debug)]
pub struct Work {
    chunks: VecDeque<Chunk>,
    bisect: bool,
    retries: Option<u32>,
    max_age_ms: Option<u64>,
}

impl Work {
    /// A batch, in the order in which it was read.
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

    /// What to hand to the function next; `None` when all is settled.
    #[must_use]
    pub fn next(&self) -> Option<&[InputRecord]> {
        self.chunks.front().map(|chunk| &*chunk.records)
    }

    /// How often what is next has failed.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.chunks.front().map_or(0, |chunk| chunk.failures)
    }

    /// Settles what was next, by the function's answer.
    pub fn settle(&mut self, verdict: Verdict, now: Timestamp) -> Settled {
        let Some(mut chunk) = self.chunks.pop_front() else {
            return Settled::default();
        };
        chunk.invocations += 1;
        match verdict {
            Verdict::Success => Settled {
                done: chunk.records,
                ..Settled::default()
            },
            Verdict::From(from) => {
                let (left, done) = part(chunk.records, &from);
                let moved = !done.is_empty();
                chunk.records = left;
                let cause = "named in the partial batch response".to_owned();
                let mut settled = if chunk.records.is_empty() {
                    Settled::default()
                } else if moved {
                    // Another record is at the head of it: counted anew.
                    chunk.failures = 0;
                    self.count(chunk, cause, now)
                } else {
                    self.fail(chunk, cause, now)
                };
                settled.done = done;
                settled
            }
            Verdict::Failure(cause) => self.fail(chunk, cause, now),
        }
    }

    /// Settles what was next and is too large for an invocation: halves it, or gives it up.
    pub fn too_large(&mut self) -> Settled {
        match self.chunks.pop_front() {
            None => Settled::default(),
            Some(chunk) if chunk.records.len() > 1 => {
                self.halve(chunk);
                Settled::default()
            }
            Some(chunk) => give_up(chunk, Why::PayloadTooLarge, String::new()),
        }
    }

    fn fail(&mut self, chunk: Chunk, cause: String, now: Timestamp) -> Settled {
        if self.bisect && chunk.records.len() > 1 && !self.too_old(&chunk, now) {
            self.halve(chunk);
            return Settled {
                again: true,
                ..Settled::default()
            };
        }
        self.count(chunk, cause, now)
    }

    fn count(&mut self, mut chunk: Chunk, cause: String, now: Timestamp) -> Settled {
        chunk.failures += 1;
        if self.too_old(&chunk, now) {
            return give_up(chunk, Why::EventAgeExceeded, cause);
        }
        if self.retries.is_some_and(|retries| chunk.failures > retries) {
            return give_up(chunk, Why::RetryAttemptsExhausted, cause);
        }
        self.chunks.push_front(chunk);
        Settled {
            again: true,
            ..Settled::default()
        }
    }

    fn too_old(&self, chunk: &Chunk, now: Timestamp) -> bool {
        // A record without a time has no age.
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

/// What is to come again, and what is done.
fn part(
    records: Vec<InputRecord>,
    from: &HashMap<String, i64>,
) -> (Vec<InputRecord>, Vec<InputRecord>) {
    let again = |r: &InputRecord| from.get(&name(r)).is_some_and(|first| r.offset >= *first);
    records.into_iter().partition(again)
}

fn give_up(chunk: Chunk, why: Why, cause: String) -> Settled {
    Settled {
        given_up: Some(GivenUp {
            records: chunk.records,
            why,
            invocations: chunk.invocations,
            cause,
        }),
        ..Settled::default()
    }
}

#[cfg(test)]
mod tests;
