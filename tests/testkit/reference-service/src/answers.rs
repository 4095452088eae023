//! Configured answers that replace those of the service.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::call::{Answer, Call};

/// Outputs by service and action that replace the computed ones; by default there are none. They do not change what a
/// call does: a refusal stays a refusal.
///
/// The answer of an action does not depend on the input, so a repeated call gets the same one.
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

    /// Replaces the answer to a probe, if there is a configured output. `action` is the action whose effect happened,
    /// if it did.
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

/// A call that is answered as a service once answered it, whatever its input; the ledger has no line for it. For agents
/// whose service is described and does not speak the contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlayedCall {
    /// The service: the first segment of the path.
    pub service: String,
    /// The method, in upper case.
    pub method: String,
    /// The further segments of the path; `None` is any.
    pub path: Vec<Option<String>>,
    /// The status of the answer.
    pub status: u16,
    /// Names and values of its headers.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl PlayedCall {
    /// Whether a call with this method and path is the one.
    pub(crate) fn fits(&self, method: &str, path: &str) -> bool {
        let mut segments = path.trim_start_matches('/').split('/');
        let mut own = self.path.iter();
        self.method == method
            && segments.next() == Some(self.service.as_str())
            && segments.all(|segment| match own.next() {
                Some(Some(own)) => own == segment,
                Some(None) => !segment.is_empty(),
                None => false,
            })
            && own.next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_played_call_has_its_method_and_its_path_with_any_segments() {
        let part = |text: &str| Some(text.to_owned());
        let played = PlayedCall {
            service: "payment".to_owned(),
            method: "POST".to_owned(),
            path: vec![part("v1"), part("charges"), None, part("refunds")],
            status: 200,
            headers: Vec::new(),
            body: Vec::new(),
        };
        for (method, path, fits) in [
            ("POST", "/payment/v1/charges/ch_1/refunds", true),
            ("GET", "/payment/v1/charges/ch_1/refunds", false),
            ("POST", "/other/v1/charges/ch_1/refunds", false),
            ("POST", "/payment/v1/charges//refunds", false),
            ("POST", "/payment/v1/charges/ch_1", false),
            ("POST", "/payment/v1/charges/ch_1/refunds/x", false),
            ("POST", "/payment", false),
        ] {
            assert_eq!(played.fits(method, path), fits, "{method} {path}");
        }
    }
}
