//! An agent's arithmetic: how long it may go on, and how long it waits between calls.

use triad_workflow::Millis;

use crate::ids::Timestamp;
use crate::message::StepRequest;

/// What an agent may still do about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// A call may be made, of at most this length.
    Call(Millis),
    /// Complete-by has come: silence.
    OutOfTime,
    /// The time that the step gives a call is over, and complete-by has not come: answer so.
    TimedOut,
    /// The allowance is used up: answer that it failed.
    OutOfCalls,
}

/// How long the work on one request may go on, from when the agent takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The step's complete-within is over: the attempt has failed.
    pub ends: Timestamp,
    /// Complete-by minus the skew, so that a reply is in time on the Scheduler's clock too: from
    /// here on nothing is started or sent. At or after `ends`.
    pub silent_from: Timestamp,
}

impl Span {
    /// The span of a request that is taken now.
    ///
    /// A request without a complete-within, which an earlier version has sent, has the time until
    /// it falls silent.
    #[must_use]
    pub fn of(request: &StepRequest, skew: Millis, taken: Timestamp) -> Self {
        let silent_from = request.complete_by.minus(skew);
        let own = request.complete_within_ms.map(|ms| taken.plus(Millis(ms)));
        Self {
            ends: own.map_or(silent_from, |own| own.min(silent_from)),
            silent_from,
        }
    }

    /// Whether the request waited for so long that its agent has not the whole complete-within
    /// left, but may still say so.
    #[must_use]
    pub fn is_cut_short(&self, request: &StepRequest, taken: Timestamp) -> bool {
        let whole = |ms: u64| taken.plus(Millis(ms)) > self.silent_from;
        taken < self.silent_from && request.complete_within_ms.is_some_and(whole)
    }
}

/// Whether one more call may be made.
#[must_use]
pub fn budget(calls_made: u32, allowance: u32, span: Span, now: Timestamp) -> Budget {
    let left = span.ends.since(now);
    if now >= span.silent_from {
        Budget::OutOfTime
    } else if left == Millis(0) {
        Budget::TimedOut
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
        let span = Span {
            ends: Timestamp(700),
            silent_from: Timestamp(900),
        };
        let at = |now, made| budget(made, 3, span, Timestamp(now));
        assert_eq!(at(0, 0), Budget::Call(Millis(700)));
        assert_eq!(at(699, 2), Budget::Call(Millis(1)));
        assert_eq!(at(0, 3), Budget::OutOfCalls);
        assert_eq!(at(700, 0), Budget::TimedOut);
        assert_eq!(at(899, 3), Budget::TimedOut);
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
