//! The remote service, reduced to its contract: one effect for each key, and a tombstone for a compensation that
//! comes before its action.

use std::collections::BTreeMap;

use triad_core::Direction;
use triad_core::message::StepRequest;

/// State of the effect under one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// The effect happened, and was not compensated.
    Applied,
    /// The effect happened and was compensated, or it can never happen: its call was refused, or the compensation
    /// came before it.
    Compensated,
}

/// Effects by idempotency key. A key without an entry was neither used successfully nor refused.
pub type Effects = BTreeMap<String, Effect>;

/// How the service answers a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The service has carried out the request, for this call or for an earlier one.
    Done,
    /// Refused; the call had no effect.
    Refused,
}

/// A call arrives at the service and is answered. It takes effect unless the key already has an effect or a
/// compensation.
pub fn call(effects: &mut Effects, request: &StepRequest) -> Answer {
    let key = request
        .compensates
        .as_ref()
        .unwrap_or(&request.idempotency_key);
    let key = key.0.clone();
    match (request.direction, effects.get(&key)) {
        (Direction::Compensate, _) => {
            effects.insert(key, Effect::Compensated);
            Answer::Done
        }
        (_, Some(Effect::Applied)) => Answer::Done,
        (_, Some(Effect::Compensated)) => Answer::Refused,
        (_, None) => {
            effects.insert(key, Effect::Applied);
            Answer::Done
        }
    }
}

/// A call arrives and is refused for good, so that its effect can never happen. If the effect has already happened,
/// the service answers that it is done, because the same key is always answered the same. A refused compensation
/// changes nothing.
pub fn refuse(effects: &mut Effects, request: &StepRequest) -> Answer {
    let key = request.idempotency_key.0.clone();
    if request.direction == Direction::Compensate {
        return Answer::Refused;
    }
    match effects.entry(key).or_insert(Effect::Compensated) {
        Effect::Applied => Answer::Done,
        Effect::Compensated => Answer::Refused,
    }
}

/// How many effects have happened and were not compensated.
pub fn effects_in_place(effects: &Effects) -> usize {
    effects.values().filter(|e| **e == Effect::Applied).count()
}
