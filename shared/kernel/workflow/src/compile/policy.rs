//! Compilation of what is said about calls that fail: how often they are made again, and what follows then.

use std::collections::BTreeMap;

use crate::duration::Millis;
use crate::model::{PolicyDefinition, RetryDefinition, ThenDefinition};
use crate::workflow::{Above, CodePolicy, Policy, Retry};

const DEFAULT_CALLS: u32 = 3;
const DEFAULT_BACKOFF: (Millis, Millis) = (Millis(100), Millis(5_000));
const DEFAULT_THRESHOLD: u32 = 3;
const DELAY_GROWTH_LIMIT: u64 = 64;
const DEFAULT_DEFER_FOR: Millis = Millis(24 * 3_600_000);

/// The calls of an attempt.
pub(super) fn retry(written: Option<&RetryDefinition>) -> Retry {
    let (initial, max) = DEFAULT_BACKOFF;
    match written {
        None => Retry {
            calls_per_attempt: DEFAULT_CALLS,
            initial,
            max,
        },
        Some(r) => {
            let initial = r.initial.unwrap_or(initial);
            Retry {
                calls_per_attempt: r.calls_per_attempt,
                initial,
                max: r.max.unwrap_or(max).max(initial),
            }
        }
    }
}

/// When failed attempts are followed by others.
pub(super) fn policy(written: Option<&PolicyDefinition>) -> Policy {
    let Some(p) = written else {
        return Policy {
            failure_threshold: DEFAULT_THRESHOLD,
            delay: Millis(0),
            max_delay: Millis(0),
            retry_at_once: false,
            wait: None,
            defer_for: DEFAULT_DEFER_FOR,
        };
    };
    let delay = p.delay.unwrap_or_default();
    Policy {
        failure_threshold: p.failure_threshold.unwrap_or(DEFAULT_THRESHOLD),
        delay,
        max_delay: p
            .max_delay
            .unwrap_or(Millis(delay.0.saturating_mul(DELAY_GROWTH_LIMIT)))
            .max(delay),
        retry_at_once: p.retry_at_once,
        wait: p.wait.as_ref().map(|w| (w.delay, w.attempts)),
        defer_for: p.defer_for.unwrap_or(DEFAULT_DEFER_FOR),
    }
}

/// What holds after failures with certain codes. What is not said of a code is as for all.
pub(super) fn by_code(
    written: Option<&PolicyDefinition>,
    may_be_compensated: bool,
    own: bool,
) -> BTreeMap<String, CodePolicy> {
    let all = written.into_iter().flat_map(|all| {
        let codes = all.by_code.iter();
        codes.map(move |(code, after)| (code.clone(), after, all))
    });
    let merged = all.map(|(code, after, all)| {
        let has_delay = after.delay.is_some();
        let merged = PolicyDefinition {
            failure_threshold: after.failure_threshold.or(all.failure_threshold),
            delay: after.delay.or(all.delay),
            max_delay: after.max_delay.or(all.max_delay.filter(|_| !has_delay)),
            retry_at_once: all.retry_at_once && !has_delay,
            wait: after.wait.clone().or_else(|| all.wait.clone()),
            defer_for: all.defer_for,
            then: after.then.or(all.then),
            by_code: BTreeMap::new(),
        };
        let then = above(Some(&merged), may_be_compensated, own);
        let policy = policy(Some(&merged));
        (code, CodePolicy { policy, then })
    });
    merged.collect()
}

/// The action when no further attempt is made; `own` says whether the step itself sets it.
pub(super) fn above(
    written: Option<&PolicyDefinition>,
    may_be_compensated: bool,
    own: bool,
) -> Above {
    match written.and_then(|p| p.then) {
        Some(ThenDefinition::Error) => Above::Error,
        // The checks refuse a step after the pivot that sets `compensate` itself; a workflow-wide default applies
        // only if the step can be compensated.
        Some(ThenDefinition::Compensate) if own => Above::Compensate,
        Some(ThenDefinition::Compensate) | None if may_be_compensated => Above::Compensate,
        Some(ThenDefinition::Compensate) | None => Above::Error,
    }
}
