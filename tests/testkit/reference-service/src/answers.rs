//! Configured answers, in place of the service's own.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::call::{Answer, Call};

/// Outputs by service and action, which replace those that the service computes. The default has none. They do not
/// change what a call does: a refusal stays a refusal.
///
/// An action has the same answer for every input, so a repeated call has too.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlayedAnswers(
    /// Output of each action, by service and action.
    pub BTreeMap<String, BTreeMap<String, Value>>,
);

impl PlayedAnswers {
    fn of(&self, service: &str, action: &str) -> Option<&Value> {
        self.0.get(service)?.get(action)
    }

    /// Replaces the answer to a call, if there is a configured output.
    pub(crate) fn to_call(&self, call: &Call, answer: Answer) -> Answer {
        match (answer, self.of(&call.head.service, &call.head.action)) {
            (Answer::Output(_), Some(said)) => Answer::Output(said.clone()),
            (answer, _) => answer,
        }
    }

    /// Replaces the answer to a probe, if there is a configured output. `action`: that of the effect, if it happened.
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
