//! Checks of a definition's numbers and times.

use crate::check::{Limits, MAX_CALLS, MAX_CODES, MAX_THRESHOLD};
use crate::duration::Millis;
use crate::model::{
    CodePolicyDefinition, CompensationDefinition, Definition, PolicyDefinition, RetryDefinition,
    WaitDefinition,
};
use crate::problem::{Path, Problem, Problems};

pub(super) fn check(definition: &Definition, limits: &Limits, problems: &mut Problems) {
    let defaults = &definition.defaults;
    let top = Path::top().key("defaults");
    check_within(&top, defaults.attempt_timeout, limits, problems);
    if let Some(retry) = &defaults.retry {
        check_retry(&top, retry, defaults.attempt_timeout, problems);
    }
    if let Some(policy) = &defaults.supervisor {
        check_policy(&top.key("supervisor"), policy, problems);
    }
    for (index, step) in definition.steps.iter().enumerate() {
        let at = Path::step(index);
        check_within(&at, step.attempt_timeout, limits, problems);
        if let Some(retry) = &step.retry {
            let within = step.attempt_timeout.or(defaults.attempt_timeout);
            check_retry(&at, retry, within, problems);
        }
        if let Some(policy) = &step.supervisor {
            check_policy(&at.key("supervisor"), policy, problems);
        }
        if let Some(probe) = &step.probe {
            check_within(&at.key("probe"), probe.attempt_timeout, limits, problems);
        }
        if let Some(CompensationDefinition::Action(c)) = &step.compensation {
            let at = at.key("compensation");
            check_within(&at, c.attempt_timeout, limits, problems);
            if let Some(retry) = &c.retry {
                check_retry(&at, retry, c.attempt_timeout, problems);
            }
            check_threshold(&at, c.failure_threshold, problems);
        }
    }
}

fn check_within(at: &Path, within: Option<Millis>, limits: &Limits, problems: &mut Problems) {
    let least = Millis(limits.skew.0.saturating_mul(2).saturating_add(10));
    if let Some(within) = within
        && within < least
    {
        problems.add(
            at.key("attempt_timeout"),
            format!(
                "{within} cannot fit: with clocks {} apart it needs at least {least}",
                limits.skew
            ),
        );
    }
}

fn check_retry(
    at: &Path,
    retry: &RetryDefinition,
    within: Option<Millis>,
    problems: &mut Problems,
) {
    let at = at.key("retry");
    let calls = retry.calls_per_attempt;
    if calls == 0 || calls > MAX_CALLS {
        let reason = format!("is {calls}; use 1 to {MAX_CALLS}");
        problems.add(at.key("calls_per_attempt"), reason);
    }
    if let Some(total) = retry.calls_per_run.filter(|t| *t < calls) {
        let reason = format!("is {total}, below retry.calls_per_attempt, which is {calls}");
        problems.add(at.key("calls_per_run"), reason);
    }
    let Some(initial) = retry.initial else {
        return;
    };
    if let Some(max) = retry.max.filter(|max| initial > *max) {
        problems.add(
            at.key("initial"),
            format!("{initial} is above retry.max {max}"),
        );
    }
    if let Some(within) = within.filter(|within| initial >= *within)
        && calls > 1
    {
        let reason = format!("{initial} cannot fit in attempt_timeout {within}");
        problems.add(at.key("initial"), reason);
    }
}

fn check_policy(at: &Path, policy: &PolicyDefinition, problems: &mut Problems) {
    check_threshold(at, policy.failure_threshold, problems);
    if policy.retry_at_once && policy.delay.is_some_and(|d| d > Millis(0)) {
        let reason = "supervisor.retry_at_once and supervisor.delay exclude one another";
        problems.push(Problem::new(at.key("retry_at_once"), reason).hint("remove one of the two"));
    }
    check_extra(at, policy.wait.as_ref(), problems);
    let at = at.key("by_code");
    if policy.by_code.len() > MAX_CODES {
        let reason = format!("{} codes; {MAX_CODES} are allowed", policy.by_code.len());
        problems.add(at.clone(), reason);
    }
    for (code, after) in &policy.by_code {
        let at = at.key(code);
        check_threshold(&at, after.failure_threshold, problems);
        check_extra(&at, after.wait.as_ref(), problems);
        if *after == CodePolicyDefinition::default() {
            let problem = Problem::new(at, "says nothing").on_key();
            problems.push(problem.hint("write `failure_threshold`, `delay`, `wait` or `then`"));
        }
    }
}

fn check_extra(at: &Path, wait: Option<&WaitDefinition>, problems: &mut Problems) {
    if let Some(wait) = wait
        && wait.attempts > MAX_THRESHOLD
    {
        let reason = format!("is {}, above {MAX_THRESHOLD}", wait.attempts);
        problems.add(at.keys("wait.attempts"), reason);
    }
}

fn check_threshold(at: &Path, threshold: Option<u32>, problems: &mut Problems) {
    if let Some(threshold) = threshold.filter(|t| *t > MAX_THRESHOLD) {
        let reason = format!("is {threshold}, above {MAX_THRESHOLD}");
        problems.add(at.key("failure_threshold"), reason);
    }
}

/// Steps whose effect may not be repeated.
pub(super) fn check_repeat(definition: &Definition, problems: &mut Problems) {
    for (index, step) in definition.steps.iter().enumerate() {
        let at = Path::step(index);
        if step.at_most_once && step.probe.is_some() {
            problems.add(
                at.key("at_most_once"),
                "stops for an operator, and probe asks the service: declare one of the two",
            );
        }
        let once = step.at_most_once || step.probe.is_some();
        if once && step.retry.as_ref().is_some_and(|r| r.calls_per_attempt > 1) {
            problems.add(
                at.keys("retry.calls_per_attempt"),
                "the effect may not be repeated, so an attempt is one call: write retry.calls_per_attempt: 1",
            );
        }
        let retry = step.retry.as_ref().or(definition.defaults.retry.as_ref());
        if step.probe.is_some() && retry.and_then(|r| r.calls_per_run) == Some(1) {
            problems.add(
                at.keys("retry.calls_per_run"),
                "1 leaves no call to ask whether the effect happened: write at_most_once, or a larger total",
            );
        }
    }
}
