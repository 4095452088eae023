//! Fields of payloads that no answer shows.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use triad_core::failure::ANSWERED;
use triad_core::{Failure, Order, ProcessState, Timing};
use triad_workflow::SearchKey;

use crate::correction::{Correction, Set};
use crate::order::OrderView;

/// Text in place of a hidden value.
pub(crate) const SHOWN: &str = "(hidden)";
/// Parts of an order's record that hold what applications and services have sent.
const PAYLOADS: [&str; 5] = ["output", "input", "details", "outputs", "search"];

/// Names of fields whose values are never shown: in the details and search keys of orders, in the inputs and outputs
/// of steps, and in dead letters. A field is hidden at any depth, and in upper or lower case; the text `(hidden)`
/// stands in place of its value. While any name is hidden, two things are hidden as a whole: a payload that is not
/// JSON, and the notes in an order's record. The default hides nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hidden(Vec<String>);

impl Hidden {
    /// Hides the fields with these names. Blanks around a name are dropped, and empty names are left out.
    #[must_use]
    pub fn of(names: impl IntoIterator<Item = String>) -> Self {
        let names = names.into_iter().map(|name| name.trim().to_lowercase());
        Self(names.filter(|name| !name.is_empty()).collect())
    }

    /// Whether nothing is hidden.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the values of a field are hidden.
    pub(crate) fn hides(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.0.contains(&name)
    }

    /// Replaces every hidden value of a payload with [`SHOWN`].
    pub(crate) fn mask(&self, value: &mut Value) {
        match value {
            _ if self.is_empty() => {}
            Value::Object(fields) => {
                for (name, value) in fields {
                    match self.hides(name) {
                        true => *value = SHOWN.into(),
                        false => self.mask(value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask(item)),
            _ => {}
        }
    }

    /// An order's record without what is hidden: the tokens of callbacks, payloads, search keys, notes (they may quote a replaced input) and the
    /// beginnings of answers.
    ///
    /// # Errors
    /// If a part of the record has no form as JSON.
    pub fn record(&self, mut order: Order) -> serde_json::Result<Order> {
        // Who has the token of a step can say that its work is done.
        for step in &mut order.steps {
            step.callback = None;
        }
        if self.is_empty() {
            return Ok(order);
        }
        for line in &mut order.incidents {
            line.note = line.note.as_ref().map(|_| SHOWN.to_owned());
        }
        let of_lines = order
            .incidents
            .iter_mut()
            .filter_map(|line| line.failure.as_mut());
        let of_steps = order
            .steps
            .iter_mut()
            .filter_map(|step| step.error.as_mut());
        for failure in of_lines.chain(of_steps).chain(causes(&mut order.state)) {
            self.cut_answer(&mut failure.message);
        }
        for key in &mut order.search {
            if self.hides(key.name().as_str())
                && let Ok(shown) = SearchKey::new(key.name().clone(), SHOWN)
            {
                *key = shown;
            }
        }
        if let Some(amendment) = &mut order.amendment {
            self.mask(amendment);
        }
        order.steps = self.masked(&order.steps)?;
        order.incidents = self.masked(&order.incidents)?;
        Ok(order)
    }

    /// An order's record as programs read it, without what is hidden.
    ///
    /// # Errors
    /// If the record has no form as JSON.
    pub fn view(&self, order: &Order, timing: &Timing) -> serde_json::Result<Value> {
        let order = self.record(order.clone())?;
        crate::json::line("order", &OrderView::of(&order, timing))
    }

    fn masked<T: Serialize + DeserializeOwned>(&self, part: &T) -> serde_json::Result<T> {
        let mut part = serde_json::to_value(part)?;
        self.mask_record(&mut part);
        serde_json::from_value(part)
    }

    /// Replaces every hidden value of a correction.
    pub(crate) fn correction(&self, correction: &mut Correction) {
        match correction {
            Correction::Whole(value) => self.mask(value),
            Correction::Set(all) => {
                for set in all {
                    let place = set.place();
                    if self.hides_place(&place)
                        && let Ok(shown) = format!("{place}={SHOWN}").parse::<Set>()
                    {
                        *set = shown;
                    }
                }
            }
        }
    }

    /// Replaces every hidden value of the payloads in an order's record, or in a list of its calls, with [`SHOWN`].
    pub(crate) fn mask_record(&self, record: &mut Value) {
        match record {
            _ if self.is_empty() => {}
            Value::Object(fields) => {
                for (name, value) in fields {
                    if PAYLOADS.contains(&name.as_str()) {
                        self.mask(value);
                    } else if ["note", "request"].contains(&name.as_str()) && !value.is_null() {
                        // A note may quote an input that was replaced; a request is made of one.
                        *value = SHOWN.into();
                    } else {
                        self.mask_record(value);
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_record(item)),
            Value::String(text) => self.cut_answer(text),
            _ => {}
        }
    }

    /// Hides the beginning of a service's answer in a text: it may be part of a payload, and too short to be parsed.
    pub(crate) fn cut_answer(&self, text: &mut String) {
        if let Some(at) = text.find(ANSWERED).filter(|_| !self.is_empty()) {
            text.truncate(at + ANSWERED.len());
            text.push_str(SHOWN);
        }
    }

    /// A payload as text: masked if it is JSON, and hidden as a whole if it is not.
    pub(crate) fn text(&self, text: &str) -> String {
        if self.is_empty() {
            return text.to_owned();
        }
        match serde_json::from_str::<Value>(text) {
            Ok(mut value) => {
                self.mask(&mut value);
                value.to_string()
            }
            Err(_) => SHOWN.to_owned(),
        }
    }

    /// Whether a path such as `to.card[0]` is in a hidden field.
    pub(crate) fn hides_place(&self, place: &str) -> bool {
        let parts = place.split(['.', '[', ']', '"']);
        parts.into_iter().any(|part| self.hides(part))
    }
}

/// The causes in a state.
fn causes(state: &mut ProcessState) -> impl Iterator<Item = &mut Failure> {
    let (cause, before) = match state {
        ProcessState::Error { cause, .. }
        | ProcessState::Compensating { cause, .. }
        | ProcessState::Compensated { cause, .. } => (Some(cause), None),
        ProcessState::CompensationFailed {
            cause,
            compensated_for,
            ..
        } => (Some(cause), compensated_for.as_mut()),
        ProcessState::Pending { .. }
        | ProcessState::Processing(_)
        | ProcessState::Processed { .. } => (None, None),
    };
    cause.into_iter().chain(before)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hidden_fields_are_hidden_however_deep_and_nothing_else_is() {
        let hidden = Hidden::of(["card".to_owned(), " IBAN ".to_owned(), String::new()]);
        let mut value = json!({"a": [{"Card": {"number": 1}}, {"iban": null}], "cards": 2});
        hidden.mask(&mut value);
        assert_eq!(
            value,
            json!({"a": [{"Card": SHOWN}, {"iban": SHOWN}], "cards": 2})
        );
        assert!(hidden.hides_place("to.lines[0].card") && !hidden.hides_place("to.cards"));
        assert_eq!(
            hidden.text("{\"iban\":7,\"x\":1}"),
            "{\"iban\":\"(hidden)\",\"x\":1}"
        );
        assert_eq!(hidden.text("card 7"), SHOWN);
        assert_eq!(Hidden::default().text("card 7"), "card 7");
    }

    #[test]
    fn the_hidden_fields_of_amended_details_are_in_no_record_that_is_shown() {
        let workflow = triad_workflow::Workflow::compile(
            serde_json::from_value(
                json!({"workflow": "w", "steps": [{"id": "a", "wait": {"for": "1s"}}]}),
            )
            .unwrap(),
            &triad_workflow::Limits::published(),
        )
        .unwrap();
        let accepted = serde_json::from_value(
            json!({"order_id": "1", "workflow": format!("w@{}", workflow.hash),
            "submitted_at": 0, "due": 1, "details": {}}),
        );
        let mut order = Order::new(&accepted.unwrap(), &workflow, triad_core::Timestamp(1));
        order.amendment = Some(json!({"pay": {"card": 4929}, "to": "Lyon"}));
        let shown = Hidden::of(["card".to_owned()]).record(order).unwrap();
        assert_eq!(
            shown.amendment,
            Some(json!({"pay": {"card": SHOWN}, "to": "Lyon"}))
        );
    }

    #[test]
    fn of_a_record_payloads_alone_are_looked_at() {
        let hidden = Hidden::of(["state".to_owned()]);
        let mut record = json!({"state": "Error", "steps": [{"state": "completed",
            "output": {"state": 7}}], "incidents": [{"note": "x"}], "search": {"state": "x", "of": "y"},
            "calls": [{"request": "POST /pay\n\nstate=7"}]});
        hidden.mask_record(&mut record);
        assert_eq!(
            record,
            json!({"state": "Error", "steps": [{"state": "completed",
                "output": {"state": SHOWN}}], "incidents": [{"note": SHOWN}],
                "search": {"state": SHOWN, "of": "y"}, "calls": [{"request": SHOWN}]})
        );
    }
}
