//! What an answer means, and what of it is kept.

use serde_json::{Map, Value};

use super::form::{AnswerRow, CallForm, Keep};
use super::{AnswerMeaning, CallDirection};
use crate::bounds;
use crate::expr::{Expression, Scope};

/// The field of an output that names what of the answer is missing in it: an object from names to reasons, or a
/// reason if nothing of the answer is left.
pub const LEFT_OUT: &str = "_left_out";
/// Most names that [`LEFT_OUT`] has, and most bytes of each as JSON, both inclusive; others are counted.
const MAX_LEFT_OUT: (usize, usize) = (16, 64);
/// Bytes of an output that are kept free for [`LEFT_OUT`]: more than its names and reasons can take.
const ROOM_FOR_LEFT_OUT: usize = 16 * 128 + 64;

/// An answer of a service, as expressions see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The status of HTTP.
    pub status: u16,
    /// The headers: an object from names in lower case to texts; of a header that comes more than once, the last.
    pub headers: Value,
    /// The body: its JSON, or its text; null if it is empty.
    pub body: Value,
}

/// The meaning of an answer, by a row of a description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// The meaning.
    pub means: AnswerMeaning,
    /// The code that the row names, if it names one that has a value.
    pub code: Option<String>,
}

impl CallForm {
    /// The meaning of an answer by the first row that fits; `None` if none does.
    #[must_use]
    pub fn judged(
        &self,
        answer: &Answer,
        direction: CallDirection,
        input: &Value,
    ) -> Option<Judged> {
        if self.fails_when.is_none() && self.answers.is_empty() {
            return None;
        }
        let scope = scope(answer, input);
        let holds = |condition: &Expression| condition.holds(&scope).unwrap_or(false);
        if (200..300).contains(&answer.status) && self.fails_when.as_ref().is_some_and(holds) {
            return Some(Judged {
                means: AnswerMeaning::Refused,
                code: None,
            });
        }
        let fits = |row: &&AnswerRow| {
            let (status, statuses) = (answer.status, &row.statuses);
            let of_status = |(from, to): &(u16, u16)| (*from..=*to).contains(&status);
            (statuses.is_empty() || statuses.iter().any(of_status))
                && row.direction.is_none_or(|of| of == direction)
                && row.when.as_ref().is_none_or(holds)
        };
        let row = self.answers.iter().find(fits)?;
        let code = row
            .code
            .as_ref()
            .and_then(|code| match code.render(&scope) {
                Ok(Value::String(code)) if !code.is_empty() => Some(code),
                Ok(Value::Number(code)) => Some(code.to_string()),
                _ => None,
            });
        Some(Judged {
            means: row.means,
            code,
        })
    }

    /// What of a good answer becomes the step's output. A part that the answer does not have is named in
    /// [`LEFT_OUT`]. The size is not bounded here: see [`fit`].
    #[must_use]
    pub fn output(&self, answer: &Answer, input: &Value) -> Value {
        let mut kept = Map::new();
        let mut missing = Vec::new();
        match &self.keep {
            Keep::All => return answer.body.clone(),
            Keep::Fields(names) => {
                for name in names {
                    match answer.body.get(name) {
                        Some(value) => drop(kept.insert(name.clone(), value.clone())),
                        None => missing.push((name, "the answer has no such field".to_owned())),
                    }
                }
            }
            Keep::Values(values) => {
                let scope = scope(answer, input);
                for (name, template) in values {
                    match template.render(&scope) {
                        Ok(value) => drop(kept.insert(name.clone(), value)),
                        Err(error) => missing.push((name, error.reason)),
                    }
                }
            }
        }
        if !missing.is_empty() {
            let missing = missing.into_iter();
            let missing = missing.map(|(name, reason)| (name.clone(), reason.into()));
            kept.insert(LEFT_OUT.to_owned(), Value::Object(missing.collect()));
        }
        Value::Object(kept)
    }
}

fn scope(answer: &Answer, input: &Value) -> Scope {
    Scope::of([
        ("status", &Value::from(answer.status)),
        ("headers", &answer.headers),
        ("body", &answer.body),
        ("input", input),
    ])
}

/// An output that fits a bound of bytes and the nesting of values. Of an object that does not fit, the largest fields
/// are left out, and [`LEFT_OUT`] names them; of another value nothing is left but that.
#[must_use]
pub fn fit(output: Value, most: usize) -> Value {
    let Err(why) = bounds::check(&output, most) else {
        return output;
    };
    let left_out = |what: Value| Value::Object(Map::from_iter([(LEFT_OUT.to_owned(), what)]));
    let Value::Object(fields) = output else {
        return left_out(format!("the answer {why}").into());
    };
    let mut sized: Vec<(usize, String, Value)> = fields
        .into_iter()
        .map(|(name, value)| (name.len() + value.to_string().len() + 4, name, value))
        .collect();
    sized.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    let mut room = most.saturating_sub(ROOM_FOR_LEFT_OUT);
    let (mut kept, mut names) = (Map::new(), Map::new());
    let mut others = 0_usize;
    for (bytes, name, value) in sized {
        let is_deep = bounds::check_nesting(&Value::Array(vec![value.clone()])).is_err();
        if bytes <= room && !is_deep {
            room -= bytes;
            kept.insert(name, value);
        } else if names.len() < MAX_LEFT_OUT.0
            && Value::from(&*name).to_string().len() <= MAX_LEFT_OUT.1
        {
            let reason = match is_deep {
                true => "nested too deep".to_owned(),
                false => format!("{bytes} bytes"),
            };
            names.insert(name, reason.into());
        } else {
            others += 1;
        }
    }
    if others > 0 {
        names.insert("…".to_owned(), format!("{others} more").into());
    }
    kept.insert(LEFT_OUT.to_owned(), Value::Object(names));
    Value::Object(kept)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::service::{CallDefinition, Judged};

    fn form(action: Value) -> CallForm {
        let definition: CallDefinition =
            serde_json::from_value(json!({ "action": action })).expect("a description");
        CallForm::compile(&definition).expect("it is sound")
    }

    fn answer(status: u16, body: Value) -> Answer {
        let headers = json!({"content-type": "application/json"});
        Answer {
            status,
            headers,
            body,
        }
    }

    #[test]
    fn the_first_row_that_fits_says_what_an_answer_means() {
        let form = form(json!({
            "fails_when": "body.success == false",
            "answers": [
                {"status": 404, "direction": "compensate", "means": "absent"},
                {"status": [409, "42x"], "when": "body.error.code == 'busy'", "means": "in-progress"},
                {"status": "4xx", "means": "refused", "code": "no-${body.error.code}"},
                {"when": "has(body.error)", "means": "may-pass"}
            ]
        }));
        let forward = CallDirection::Forward;
        let busy = json!({"error": {"code": "busy"}});
        for (status, body, direction, wanted) in [
            (
                200,
                json!({"success": false}),
                forward,
                Some((AnswerMeaning::Refused, None)),
            ),
            (200, json!({"success": true}), forward, None),
            (200, json!("OK"), forward, None),
            (
                404,
                json!(null),
                CallDirection::Compensate,
                Some((AnswerMeaning::Absent, None)),
            ),
            (
                404,
                json!(null),
                forward,
                Some((AnswerMeaning::Refused, None)),
            ),
            (
                409,
                busy.clone(),
                forward,
                Some((AnswerMeaning::InProgress, None)),
            ),
            (
                425,
                busy.clone(),
                forward,
                Some((AnswerMeaning::InProgress, None)),
            ),
            (
                430,
                busy.clone(),
                forward,
                Some((AnswerMeaning::Refused, Some("no-busy"))),
            ),
            (500, busy, forward, Some((AnswerMeaning::MayPass, None))),
            (500, json!(null), forward, None),
        ] {
            let judged = form.judged(&answer(status, body.clone()), direction, &json!({}));
            let wanted = wanted.map(|(means, code)| Judged {
                means,
                code: code.map(str::to_owned),
            });
            assert_eq!(judged, wanted, "{status} {body}");
        }
    }

    #[test]
    fn what_is_kept_is_the_output_and_what_is_missing_is_named() {
        let body = json!({"id": "ch_1", "label": "x", "link": {"href": "/ch_1"}});
        let kept = |keep: Value| {
            form(json!({ "keep": keep })).output(&answer(201, body.clone()), &json!({}))
        };
        assert_eq!(kept(json!(["id"])), json!({"id": "ch_1"}));
        assert_eq!(
            kept(
                json!({"ref": "${body.link.href}", "status": "${status}", "type": "${headers['content-type']}"})
            ),
            json!({"ref": "/ch_1", "status": 201, "type": "application/json"})
        );
        let missing = kept(json!(["id", "none"]));
        assert_eq!(missing["id"], "ch_1");
        assert_eq!(missing[LEFT_OUT]["none"], "the answer has no such field");
        let text = form(json!({"keep": ["id"]})).output(&answer(200, json!("OK")), &json!({}));
        assert_eq!(text[LEFT_OUT]["id"], "the answer has no such field");
    }

    #[test]
    fn an_output_that_is_too_large_keeps_what_has_room() {
        let label = "J".repeat(20_000);
        let output = fit(json!({"tracking": "1Z", "label": label}), 8_192);
        assert_eq!(output["tracking"], "1Z");
        assert_eq!(output[LEFT_OUT], json!({"label": "20011 bytes"}));
        for whole in [json!("x".repeat(9_000)), json!(vec![1; 9_000])] {
            let output = fit(whole, 8_192);
            assert!(output[LEFT_OUT].is_string(), "{output}");
        }
        let many: Map<String, Value> = (0..2_000)
            .map(|n| (format!("{n}{}", "é".repeat(100)), json!("y".repeat(50))))
            .collect();
        let output = fit(Value::Object(many), 8_192);
        assert!(
            output.to_string().len() <= 8_192,
            "{}",
            output.to_string().len()
        );
        let deep = (0..bounds::MAX_NESTING + 1).fold(json!(7), |inner, _| json!([inner]));
        let output = fit(json!({"a": 1, "deep": deep}), 8_192);
        assert_eq!(
            output,
            json!({"a": 1, LEFT_OUT: {"deep": "nested too deep"}})
        );
        assert_eq!(fit(json!({"a": 1}), 8_192), json!({"a": 1}));
    }
}
