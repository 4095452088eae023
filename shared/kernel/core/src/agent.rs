//! Time and call limits of an agent's work on one request, and its waits between calls.

use triad_workflow::Millis;

use crate::ids::Timestamp;
use crate::message::StepRequest;

/// What an agent may still do for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// One more call may be made. It must end within this time, in milliseconds, at least 1.
    Call(Millis),
    /// The agent must be silent: [`Span::silent_from`] has come. It makes no call and sends no reply.
    OutOfTime,
    /// The attempt timed out: [`Span::ends`] has come, and [`Span::silent_from`] has not. The agent makes no
    /// call and sends a reply.
    TimedOut,
    /// The allowance is used up and there is time left. The agent makes no call and sends a failed reply.
    OutOfCalls,
}

/// The two moments that end the work on one request, on the agent's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When the attempt has failed because its time is over: the moment of taking plus
    /// attempt timeout, or `silent_from` if that is earlier. No call is made at or after this
    /// moment.
    pub ends: Timestamp,
    /// Complete-by minus the skew, so that a reply is in time on the Scheduler's clock too. At or
    /// after this moment nothing is started or sent. Never before `ends`.
    pub silent_from: Timestamp,
}

impl Span {
    /// The span of a request that the agent takes at `taken`. `skew` is the largest difference
    /// between any two clocks, in milliseconds.
    #[must_use]
    pub fn of(request: &StepRequest, skew: Millis, taken: Timestamp) -> Self {
        let silent_from = request.complete_by.minus(skew);
        let own = taken.plus(Millis(request.attempt_timeout_ms));
        Self {
            ends: own.min(silent_from),
            silent_from,
        }
    }

    /// Whether the request waited in its topic for so long that less than its attempt timeout is
    /// left before `silent_from`.
    ///
    /// False at or after `silent_from`, when the agent must not reply any more.
    #[must_use]
    pub fn is_cut_short(&self, request: &StepRequest, taken: Timestamp) -> bool {
        let whole = taken.plus(Millis(request.attempt_timeout_ms));
        taken < self.silent_from && whole > self.silent_from
    }
}

/// Whether an agent may make one more call for a request, after `calls_made` calls of at most `allowance`.
///
/// Time is checked before calls: if both are used up, the answer is [`Budget::OutOfTime`] or
/// [`Budget::TimedOut`].
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

/// How long to wait before the next call, in milliseconds, after `calls_made` calls have failed:
/// exponential, bounded, with full jitter.
///
/// The wait is from zero to a bound, both inclusive. The bound is `initial` after the first call
/// (0 calls count as 1) and doubles after each further call, up to `max`. Full jitter draws evenly from
/// that range; of the common schemes it spreads competing clients best for the same total of work (AWS
/// Architecture Blog, "Exponential Backoff And Jitter"). `random` is any 64 random bits.
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
