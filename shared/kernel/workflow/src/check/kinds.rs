//! Checks of what a step does: it calls an agent, waits for a moment, waits for events, or runs orders; exactly one of
//! them.

use std::collections::BTreeSet;

use chrono_tz::Tz;
use serde_json::Value;

use crate::check::{MAX_DECIDERS, MAX_EVENTS, MAX_REMINDERS};
use crate::details::DetailsSchema;
use crate::duration::Millis;
use crate::model::{
    AwaitDefinition, CompensationDefinition, DecisionDefinition, Definition,
    FinishesLaterDefinition, NoCompensation, StepDefinition, TimerDefinition,
};
use crate::moment::{moment, zone};
use crate::names::{MAX_NAME_BYTES, check_event};
use crate::problem::{Path, Problem, Problems};
use crate::template::Template;

pub(super) const ONE_OF: &str = "a step calls a service with `agent` and `action`, waits with `wait` or `await`, or runs an order with `run`";

/// Shortest time between two questions to a service, inclusive.
const LEAST_POLL: Millis = Millis(100);

/// Whether a step waits and calls nothing.
pub(super) fn waits(step: &StepDefinition) -> bool {
    step.wait.is_some() || step.awaits.is_some()
}

pub(super) fn check(definition: &Definition, problems: &mut Problems) {
    for (index, step) in definition.steps.iter().enumerate() {
        let at = Path::step(index);
        if !waits(step) {
            // What it does is checked with the orders that it runs.
            if step.runs_orders() {
                continue;
            }
            for (key, is_there) in [
                ("agent", step.agent.is_some()),
                ("action", step.action.is_some()),
            ] {
                if !is_there {
                    let reason = format!("`{key}` is missing");
                    problems.push(Problem::new(at.key(key), reason).missing().hint(ONE_OF));
                }
            }
            if let Some(later) = &step.finishes_later {
                check_later(step, later, &at.key("finishes_later"), problems);
            }
            continue;
        }
        check_keys(step, &at, problems);
        if let Some(timer) = &step.wait {
            check_timer(timer, &at.key("wait"), problems);
        }
        if let Some(events) = &step.awaits {
            check_events(events, &at.key("await"), problems);
        }
    }
}

/// Reports the keys that are there, as those that such a step cannot have.
pub(super) fn refuse(
    such: &str,
    keys: &[(&str, bool)],
    hint: &str,
    at: &Path,
    problems: &mut Problems,
) {
    let there = keys.iter().filter(|(_, is_there)| *is_there);
    let wrong: Vec<&str> = there.map(|(key, _)| *key).collect();
    if let [first, ..] = wrong[..] {
        let reason = format!("{such} cannot have `{}`", wrong.join("`, `"));
        problems.push(Problem::new(at.key(first), reason).on_key().hint(hint));
    }
}

/// Reports keys that only a step that calls a service may have.
fn check_keys(step: &StepDefinition, at: &Path, problems: &mut Problems) {
    let of_calls = [
        ("agent", step.agent.is_some()),
        ("action", step.action.is_some()),
        ("input", !step.input.is_null()),
        ("attempt_timeout", step.attempt_timeout.is_some()),
        ("retry", step.retry.is_some()),
        ("supervisor", step.supervisor.is_some()),
        ("at_most_once", step.at_most_once),
        ("probe", step.probe.is_some()),
        ("finishes_later", step.finishes_later.is_some()),
        ("on_failure", !step.on_failure.is_empty()),
        ("first_of", !step.first_of.is_empty()),
        ("point_of_no_return", step.point_of_no_return),
        ("await", step.wait.is_some() && step.awaits.is_some()),
    ];
    refuse("a step that waits", &of_calls, ONE_OF, at, problems);
    let at = at.key("compensation");
    match (&step.compensation, &step.wait) {
        (Some(CompensationDefinition::Action(_)), Some(_)) => {
            problems.add(
                at,
                "a wait has no effect that could be compensated: remove it",
            );
        }
        (Some(CompensationDefinition::Action(action)), None) if action.agent.is_none() => {
            let reason = "`agent` is missing: a step that waits has none of its own";
            problems.push(Problem::new(at.key("agent"), reason).missing());
        }
        (Some(CompensationDefinition::None(NoCompensation::None)), _)
        | (Some(CompensationDefinition::Action(_)), None)
        | (None, _) => {}
    }
}

fn check_later(
    step: &StepDefinition,
    later: &FinishesLaterDefinition,
    at: &Path,
    problems: &mut Problems,
) {
    if later.within == Millis(0) {
        problems.add(at.key("within"), "leaves no time to finish the work");
    }
    if let Some(heartbeat) = later.heartbeat
        && (heartbeat == Millis(0) || heartbeat >= later.within)
    {
        let reason = format!("{heartbeat} has to be more than nothing and below `within`");
        problems.add(at.key("heartbeat"), reason);
    }
    let Some(poll) = &later.poll else {
        return;
    };
    let at = at.key("poll");
    if step.probe.is_some() {
        let reason = "the step has a `probe`, which asks the same service: declare one of the two";
        problems.push(Problem::new(at.clone(), reason).on_key());
    }
    if poll.action.is_none() && !poll.input.is_null() {
        let reason = "is the input of an action, and the poll has none: it asks the `Location`";
        problems.push(Problem::new(at.key("input"), reason).on_key());
    }
    if let Some(every) = poll.every
        && every < LEAST_POLL
    {
        problems.add(at.key("every"), format!("is below {LEAST_POLL}"));
    }
    if let (Some(every), Some(max)) = (poll.every, poll.max)
        && max < every
    {
        problems.add(at.key("max"), format!("{max} is below `every`"));
    }
}

fn check_timer(timer: &TimerDefinition, at: &Path, problems: &mut Problems) {
    let hint = "write `for: 3d`, or `until: \"${details.date}\"`";
    match (timer.span, &timer.until) {
        (Some(_), Some(_)) => {
            let reason = "has to have either `for` or `until`";
            problems.push(Problem::new(at.clone(), reason).hint(hint));
        }
        (None, None) => {
            let reason = "`for` or `until` is missing";
            problems.push(Problem::new(at.key("for"), reason).missing().hint(hint));
        }
        (Some(_), None) | (None, Some(_)) => {}
    }
    if timer.span == Some(Millis(0)) {
        problems.add(at.key("for"), "no time is no wait: remove the step");
    }
    let zone = zone(timer.zone.as_deref());
    if let Err(reason) = &zone {
        let hint = "write the name of a place, such as Europe/Paris, or UTC";
        problems.push(Problem::new(at.key("zone"), reason.clone()).hint(hint));
    }
    match &timer.until {
        None if timer.zone.is_some() => {
            problems.add(at.key("zone"), "says something of `until` alone: remove it");
        }
        None => {}
        // What does not compile is reported with the other expressions.
        Some(until) => {
            if let Ok(Template::Constant(Value::String(text))) =
                Template::compiled(&Value::from(until.as_str()))
                && let Err(reason) = moment(&text, zone.unwrap_or(Tz::UTC))
            {
                problems.add(at.key("until"), reason.to_string());
            }
        }
    }
}

fn check_decision(
    events: &AwaitDefinition,
    decision: &DecisionDefinition,
    at: &Path,
    problems: &mut Problems,
) {
    if events.event.is_none() {
        let problem = Problem::new(at.clone(), "is about one event").on_key();
        problems.push(problem.hint("write `event: decided` in place of several"));
    }
    if let Some(every) = decision.remind
        && every.0.saturating_mul(MAX_REMINDERS) < events.within.0
    {
        let reason = format!(
            "{every} is more than {MAX_REMINDERS} times in {}",
            events.within
        );
        problems.add(at.key("remind"), reason);
    }
    let escalate = decision.escalate.as_ref();
    if let Some(later) = escalate {
        let at = at.key("escalate");
        if later.after >= events.within {
            problems.add(at.key("after"), "is not before the end of `within`");
        }
        if decision.by.is_empty() {
            let problem = Problem::new(at, "adds nobody: without `by` whoever may act may decide");
            problems.push(problem.on_key());
        }
    }
    let to = escalate.map(|later| (at.keys("escalate.to"), &later.to));
    for (at, names) in [(at.key("by"), &decision.by)].into_iter().chain(to) {
        let is_bad = |name: &String| name.is_empty() || name.len() > MAX_NAME_BYTES;
        if names.len() > MAX_DECIDERS || names.iter().any(is_bad) {
            let reason =
                format!("has to have at most {MAX_DECIDERS} names of 1 to {MAX_NAME_BYTES} bytes");
            problems.add(at, reason);
        }
    }
    if let Some(Err(reason)) = decision
        .form
        .as_ref()
        .map(|form| DetailsSchema::new(form).check())
    {
        problems.add(at.key("form"), reason.to_string());
    }
}

fn check_events(events: &AwaitDefinition, at: &Path, problems: &mut Problems) {
    let ways = [
        events.event.is_some(),
        !events.first_of.is_empty(),
        !events.all_of.is_empty(),
    ];
    if ways.iter().filter(|is_there| **is_there).count() != 1 {
        let reason = "has to have one of `event`, `first_of` and `all_of`";
        problems.push(Problem::new(at.clone(), reason).hint("write `event: payment-confirmed`"));
    }
    if events.event.is_none() && events.matches.is_some() {
        let reason = "belongs to an event: write it beside the `event` that it is about";
        problems.push(Problem::new(at.key("match"), reason).on_key());
    }
    if events.event.is_none() && events.key.is_some() {
        let reason = "belongs to an event: write it beside the `event` that it is about";
        problems.push(Problem::new(at.key("key"), reason).on_key());
    }
    if events.within == Millis(0) {
        problems.add(at.key("within"), "no time is no wait: remove the step");
    }
    if let Some(decision) = &events.decision {
        check_decision(events, decision, &at.key("decision"), problems);
    }
    let all = events.events();
    if all.len() > MAX_EVENTS {
        let reason = format!("{} events; {MAX_EVENTS} are allowed", all.len());
        problems.add(at.clone(), reason);
    }
    let mut names = BTreeSet::new();
    let several = match (events.first_of.is_empty(), events.all_of.is_empty()) {
        (false, _) => Some(at.key("first_of")),
        (true, false) => Some(at.key("all_of")),
        (true, true) => None,
    };
    for (nth, written) in all.iter().enumerate() {
        let at = several.as_ref().map_or(at.clone(), |list| list.index(nth));
        if let Err(e) = check_event(&written.event) {
            problems.add(at.key("event"), e.to_string());
        } else if !names.insert(&written.event) {
            problems.add(
                at.key("event"),
                format!("{} is there already", written.event),
            );
        }
        if written.key.as_ref().is_some_and(|key| !key.contains("${")) {
            let reason = "is the same for every order: it has to lead to one order";
            let problem = Problem::new(at.key("key"), reason);
            problems.push(problem.hint("write `key: ${steps.charge.payment}`"));
        }
    }
}
