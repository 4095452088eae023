//! A rate limit that all instances share: calls a second, granted in chunks.
//!
//! One record per downstream names the current second and the number of its calls that are granted. An instance takes
//! a chunk at a time, so that the record is written a few times a second at most, whatever the rate. The rest of a
//! chunk at the end of its second is lost: the limit is never exceeded, and at low load not quite reached.

use serde::{Deserialize, Serialize};
use triad_workflow::{AgentName, Millis};

use crate::ids::Timestamp;

/// Chunks that a second is granted in.
const CHUNKS: u32 = 8;
const SECOND: u64 = 1_000;
/// How far ahead the second of a record may lie: more than correct clocks differ.
pub const AHEAD: Millis = Millis(10_000);

/// Key of a downstream's rate record in the control store: `rate/<agent>`.
#[must_use]
pub fn key(agent: &AgentName) -> String {
    format!("rate/{agent}")
}

/// The rate record of a downstream: how many calls of one second are granted. The default is that
/// nothing was ever granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Granted {
    /// Number of the second, counted from the Unix epoch.
    pub second: u64,
    /// How many calls are granted of that second.
    pub calls: u32,
}

/// Some calls of one second, granted to one process: see [`Grant::calls`]. They may be made once
/// [`Grant::record`] has been written by compare-and-set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The rate record with this grant in it.
    pub record: Granted,
    /// How many calls may be made in the second of `record`; at least 1.
    pub calls: u32,
}

impl Granted {
    /// The next chunk of the present second: an eighth of `per_second`, at least 1 call, or what is
    /// left if that is less. A record of a later second, written by a clock that is ahead, counts
    /// as the present second, unless it lies [`AHEAD`] or more ahead: then nothing was granted.
    ///
    /// # Errors
    /// If nothing is left of the second: the beginning of the next one, when the caller is to ask again. With
    /// a `per_second` of 0 that is always so.
    pub fn grant(&self, per_second: u32, now: Timestamp) -> Result<Grant, Timestamp> {
        let present = now.0 / SECOND;
        let begins = Timestamp(self.second.saturating_mul(SECOND));
        let is_wrong = !begins.is_near(now, AHEAD);
        let (second, taken) = if self.second >= present && !is_wrong {
            (self.second, self.calls)
        } else {
            (present, 0)
        };
        let chunk = (per_second / CHUNKS)
            .max(1)
            .min(per_second.saturating_sub(taken));
        if chunk == 0 {
            return Err(Timestamp((second + 1) * SECOND));
        }
        Ok(Grant {
            record: Self {
                second,
                calls: taken + chunk,
            },
            calls: chunk,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_grants_its_rate_in_chunks_and_no_more() {
        let now = Timestamp(5_300);
        let mut record = Granted::default();
        let mut all = 0;
        let mut writes = 0;
        while let Ok(grant) = record.grant(100, now) {
            record = grant.record;
            all += grant.calls;
            writes += 1;
        }
        assert_eq!((all, writes), (100, 9));
        assert_eq!(record.grant(100, now), Err(Timestamp(6_000)));
        assert!(record.grant(100, Timestamp(6_000)).is_ok());
    }

    #[test]
    fn a_rate_of_one_is_one() {
        let record = Granted::default()
            .grant(1, Timestamp(5_000))
            .unwrap()
            .record;
        assert_eq!(record.grant(1, Timestamp(5_999)), Err(Timestamp(6_000)));
    }

    #[test]
    fn a_second_of_tomorrow_holds_nobody() {
        let now = Timestamp(6_900);
        for (second, is_believed) in [(16, true), (17, false), (86_400, false), (u64::MAX, false)] {
            let record = Granted { second, calls: 100 };
            let granted = record.grant(100, now).map(|grant| grant.record.second);
            let expected = match is_believed {
                true => Err(Timestamp((second + 1) * 1_000)),
                false => Ok(6),
            };
            assert_eq!(granted, expected, "{second}");
        }
    }

    #[test]
    fn a_clock_that_is_behind_takes_from_the_later_second() {
        let ahead = Granted {
            second: 7,
            calls: 99,
        };
        let grant = ahead.grant(100, Timestamp(6_900)).unwrap();
        assert_eq!((grant.record.second, grant.calls), (7, 1));
    }
}
