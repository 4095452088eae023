//! What the service answers where somebody has said so.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::call::{Answer, Call};

/// Outputs by service and action, which take the place of those that the service makes up. The default
/// has none. They change nothing about what a call does: a refusal stays a refusal.
///
/// The same action is answered the same whatever its input, so a repeated call is, too.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlayedAnswers(
    /// Output of each action, by service and action.
    pub BTreeMap<String, BTreeMap<String, Value>>,
);

impl PlayedAnswers {
    fn of(&self, service: &str, action: &str) -> Option<&Value> {
        self.0.get(service)?.get(action)
    }

    /// The answer to a call that would be answered so.
    pub(crate) fn to_call(&self, call: &Call, answer: Answer) -> Answer {
        match (answer, self.of(&call.head.service, &call.head.action)) {
            (Answer::Output(_), Some(said)) => Answer::Output(said.clone()),
            (answer, _) => answer,
        }
    }

    /// The answer to a probe that would be answered so. `action`: that of the effect, if it happened.
    pub(crate) fn to_probe(&self, service: &str, action: Option<&str>, answer: Answer) -> Answer {
        let said = action.and_then(|action| self.of(service, action));
        match (answer, said) {
            (Answer::Output(mut output), Some(said)) => {
                if let Some(output) = output.get_mut("output") {
                    *output = said.clone();
                }
                Answer::Output(output)
            }
            (answer, _) => answer,
        }
    }
}
