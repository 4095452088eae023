//! An agent's arithmetic: how long it may go on, and how long it waits between calls.

use triad_workflow::Millis;

use crate::ids::Timestamp;

/// What an agent may still do about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// A call may be made, of at most this length.
    Call(Millis),
    /// Calls remain but no time: silence.
    OutOfTime,
    /// The allowance is used up: answer that it failed.
    OutOfCalls,
}

/// Whether one more call may be made.
///
/// The agent stops at complete-by minus the skew, so that its reply is in time on the
/// Scheduler's clock too.
#[must_use]
pub fn budget(
    calls_made: u32,
    allowance: u32,
    complete_by: Timestamp,
    skew: Millis,
    now: Timestamp,
) -> Budget {
    let left = complete_by.minus(skew).since(now);
    if left == Millis(0) {
        Budget::OutOfTime
    } else if calls_made >= allowance {
        Budget::OutOfCalls
    } else {
        Budget::Call(left)
    }
}

/// Wait before the call after the `calls_made`-th: exponential, bounded, with full jitter.
///
/// Full jitter draws evenly from zero to the bound; of the common schemes it spreads competing
/// clients best for the same total of work (AWS Architecture Blog, "Exponential Backoff And
/// Jitter"). `random` is any 64 random bits.
#[must_use]
pub fn backoff(calls_made: u32, initial: Millis, max: Millis, random: u64) -> Millis {
    let doublings = calls_made.saturating_sub(1).min(32);
    let bound = initial.0.saturating_mul(1 << doublings).min(max.0);
    // 53 random bits give an even fraction.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a wait need not be exact"
    )]
    Millis(((random >> 11) as f64 / (1_u64 << 53) as f64 * (bound + 1) as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_before_calls() {
        let at = |now, made| budget(made, 3, Timestamp(1_000), Millis(100), Timestamp(now));
        assert_eq!(at(0, 0), Budget::Call(Millis(900)));
        assert_eq!(at(899, 2), Budget::Call(Millis(1)));
        assert_eq!(at(0, 3), Budget::OutOfCalls);
        assert_eq!(at(900, 0), Budget::OutOfTime);
        assert_eq!(at(900, 3), Budget::OutOfTime);
    }

    #[test]
    fn backoff_grows_to_its_bound_and_uses_the_whole_range() {
        let most = |made| backoff(made, Millis(100), Millis(1_000), u64::MAX);
        assert_eq!(
            [most(1), most(2), most(3), most(9)].map(|m| m.0),
            [100, 200, 400, 1_000]
        );
        assert_eq!(backoff(5, Millis(100), Millis(1_000), 0), Millis(0));
    }
}
