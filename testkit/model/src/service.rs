//! The remote service, as far as its contract goes: an effect once for each key, an undo that
//! leaves a tombstone where it comes first.

use std::collections::BTreeMap;

use triad_core::Direction;
use triad_core::message::StepRequest;

/// What has become of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It happened.
    Applied,
    /// It happened and was undone, or is never to happen: refused, or undone before it came.
    Undone,
}

/// What the service knows, by the key of the effect.
pub type Effects = BTreeMap<String, Effect>;

/// What the service answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Done, now or before.
    Done,
    /// Refused, with no effect.
    Refused,
}

/// A call arrives.
pub fn call(effects: &mut Effects, request: &StepRequest) -> Answer {
    let key = request.undoes.as_ref().unwrap_or(&request.idempotency_key);
    let key = key.0.clone();
    match (request.direction, effects.get(&key)) {
        (Direction::Compensate, _) => {
            effects.insert(key, Effect::Undone);
            Answer::Done
        }
        (_, Some(Effect::Applied)) => Answer::Done,
        (_, Some(Effect::Undone)) => Answer::Refused,
        (_, None) => {
            effects.insert(key, Effect::Applied);
            Answer::Done
        }
    }
}

/// A call arrives and is refused for good, unless the effect has happened: the same key is answered
/// the same, so what is refused once stays refused.
pub fn refuse(effects: &mut Effects, request: &StepRequest) -> Answer {
    let key = request.idempotency_key.0.clone();
    if request.direction == Direction::Compensate {
        return Answer::Refused;
    }
    match effects.entry(key).or_insert(Effect::Undone) {
        Effect::Applied => Answer::Done,
        Effect::Undone => Answer::Refused,
    }
}

/// Effects that stand.
pub fn standing(effects: &Effects) -> usize {
    effects.values().filter(|e| **e == Effect::Applied).count()
}
