//! A file of answers by agent and action: outputs that an author writes, and recorded answers.
//!
//! `triad dev`, `triad test` and `triad agent call --record` use the same form. A recorded answer is what the service
//! sent. Each time that it is used, the description decides what it means.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use triad_core::message::MAX_OUTPUT_BYTES;
use triad_http::RecordedAnswer;
use triad_reference_service::{PlayedAnswers, PlayedCall};
use triad_workflow::Workflow;
use triad_workflow::service::{Method, ServiceDefinition};

use crate::output::Usage;
use crate::user_files;

/// Name of the field that marks a recorded answer; a value without it is an output.
const RECORDED: &str = "_recorded";
/// File for recorded answers if the command names none.
pub const FILE: &str = "answers.json";

/// An answer of one action.
#[derive(Debug, Clone, PartialEq)]
pub enum ActionAnswer {
    /// The body of an answer that says that the work is done.
    Output(Value),
    /// A recorded answer.
    Recorded(RecordedAnswer),
}

impl ActionAnswer {
    /// The recorded answer, or for an output an answer 200 with it as JSON.
    pub fn recorded(&self) -> RecordedAnswer {
        let kind = ("content-type".to_owned(), "application/json".to_owned());
        match self {
            Self::Recorded(recorded) => recorded.clone(),
            Self::Output(output) => RecordedAnswer {
                status: 200,
                headers: [kind].into(),
                // The output's JSON as a text, because a body that is a JSON text is sent without its quotes.
                body: output.to_string().into(),
            },
        }
    }
}

/// Answers by agent and action.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answers(pub BTreeMap<String, BTreeMap<String, ActionAnswer>>);

impl Answers {
    /// Reads a file.
    ///
    /// # Errors
    /// Every problem of the file.
    pub fn read(file: &Path) -> Result<Self, Vec<String>> {
        let shown = file.display();
        let text = user_files::text(file).map_err(|Usage(problem)| vec![problem])?;
        let written: BTreeMap<String, BTreeMap<String, Value>> = serde_saphyr::from_str(&text)
            .map_err(|e| {
                vec![format!(
                    "{shown}: does not map agents to actions and these to answers, as `bank: {{ charge: {{ receipt: R-1 }} }}` does: {e}"
                )]
            })?;
        let mut problems = Vec::new();
        let mut answers = Self::default();
        for (agent, actions) in written {
            for (action, value) in actions {
                match answer(&agent, &action, value) {
                    Ok(answer) => {
                        let of_agent = answers.0.entry(agent.clone()).or_default();
                        of_agent.insert(action, answer);
                    }
                    Err(why) => problems.push(format!("{shown}: {why}")),
                }
            }
        }
        match problems.is_empty() {
            true => Ok(answers),
            false => Err(problems),
        }
    }

    /// The answer for an action, if the file has one.
    pub fn of(&self, agent: &str, action: &str) -> Option<&ActionAnswer> {
        self.0.get(agent)?.get(action)
    }

    /// The outputs in the file, which the reference service answers by the contract.
    pub fn outputs(&self) -> PlayedAnswers {
        let of_agent = |actions: &BTreeMap<String, ActionAnswer>| {
            let outputs = actions.iter().filter_map(|(action, answer)| match answer {
                ActionAnswer::Output(output) => Some((action.clone(), output.clone())),
                ActionAnswer::Recorded(_) => None,
            });
            outputs.collect()
        };
        let agents = self.0.iter();
        PlayedAnswers(
            agents
                .map(|(agent, actions)| (agent.clone(), of_agent(actions)))
                .collect(),
        )
    }

    /// The requests that the reference service answers as the file has it: those with a recorded answer, and those of
    /// described actions.
    pub fn calls(&self, workflows: &[Arc<Workflow>]) -> Vec<PlayedCall> {
        let mut calls = Vec::new();
        for (agent, actions) in &self.0 {
            let of_agent = workflows
                .iter()
                .find_map(|workflow| workflow.definition.agents.get(agent));
            for (action, answer) in actions {
                // The reference service answers an action without a description by the contract, with ledger and
                // faults.
                if matches!(answer, ActionAnswer::Output(_)) && of_agent.is_none() {
                    continue;
                }
                let recorded = answer.recorded();
                let (method, path) = request_line(of_agent, action);
                calls.push(PlayedCall {
                    service: agent.clone(),
                    method,
                    path,
                    status: recorded.status,
                    body: recorded.bytes(),
                    headers: recorded.headers.into_iter().collect(),
                });
            }
        }
        // The first path that fits a request is used, so paths with fewer expressions come first.
        calls.sort_by_key(|call| call.path.iter().filter(|part| part.is_none()).count());
        calls
    }
}

/// An answer from its value in the file. The error is a text to stand behind the file's name.
fn answer(agent: &str, action: &str, value: Value) -> Result<ActionAnswer, String> {
    if let Some(recorded) = value.get(RECORDED) {
        let recorded = serde_json::from_value(recorded.clone());
        return recorded.map(ActionAnswer::Recorded).map_err(|e| {
            format!("`{RECORDED}` of {agent} {action} is not a recorded answer, which has `status`, `headers` and `body`: {e}")
        });
    }
    match value.to_string().len() > MAX_OUTPUT_BYTES {
        true => Err(format!(
            "the output of {agent} {action} has more than {MAX_OUTPUT_BYTES} bytes, the most of a step's output"
        )),
        false => Ok(ActionAnswer::Output(value)),
    }
}

/// Method and path segments of an action's request; `None` is a segment with an expression.
fn request_line(
    service: Option<&ServiceDefinition>,
    action: &str,
) -> (String, Vec<Option<String>>) {
    let described = service.and_then(|service| service.actions.get(action));
    let method = described.and_then(|action| action.method);
    let path = described.and_then(|action| action.path.clone());
    let path = path.unwrap_or_else(|| format!("/{action}"));
    let plain = without_expressions(&path);
    let segments = plain.trim_start_matches('/').split('/');
    let segments = segments.map(|part| (!part.contains('\0')).then(|| part.to_owned()));
    (
        method.unwrap_or(Method::Post).as_str().to_owned(),
        segments.collect(),
    )
}

/// The text with a NUL in place of each `${ … }`.
fn without_expressions(text: &str) -> String {
    let mut plain = String::new();
    let mut depth = 0;
    let mut before = ' ';
    for c in text.chars() {
        match (c, depth) {
            ('{', 0) if before == '$' => {
                plain.pop();
                plain.push('\0');
                depth = 1;
            }
            ('{', 1..) => depth += 1,
            ('}', 1..) => depth -= 1,
            (_, 0) => plain.push(c),
            _ => {}
        }
        before = c;
    }
    plain
}

/// The recordings that a file has; none if there is no such file.
///
/// # Errors
/// [`Usage`] if another answer cannot be added to it.
pub fn recordings(file: &Path) -> Result<Map<String, Value>, Usage> {
    if !file.exists() {
        return Ok(Map::new());
    }
    // A file that is not JSON may have comments, which would be lost.
    serde_json::from_str(&user_files::text(file)?).map_err(|error| {
        let shown = file.display();
        Usage(format!(
            "--record {shown}: exists and is not a JSON object ({error}): name another file"
        ))
    })
}

/// Writes a recorded answer into a file, beside the answers that it has already.
///
/// # Errors
/// [`Usage`] if the file cannot be written, or exists and is not a JSON object.
pub fn record(
    file: &Path,
    agent: &str,
    action: &str,
    answer: &RecordedAnswer,
) -> Result<(), Usage> {
    let shown = file.display();
    let mut all = recordings(file)?;
    let of_agent = all.entry(agent).or_insert_with(|| json!({}));
    let Some(of_agent) = of_agent.as_object_mut() else {
        return Err(Usage(format!(
            "--record {shown}: the value of {agent:?} in it is not an object of actions: name another file"
        )));
    };
    of_agent.insert(action.to_owned(), json!({ RECORDED: answer }));
    user_files::replace(file, &format!("{:#}\n", Value::Object(all))).map_err(|e| {
        let why = user_files::plain(&e);
        Usage(format!("--record {shown}: cannot be written: {why}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_expressions_has_segments_that_are_any() {
        for (path, wanted) in [
            ("/v1/charges", "/v1/charges"),
            ("/a/${input[\"x/y\"]}/b", "/a/\0/b"),
            ("/a/${input.x}.json", "/a/\0.json"),
            ("/a/${ {'a': {}}.a }/b", "/a/\0/b"),
        ] {
            assert_eq!(without_expressions(path), wanted);
        }
    }

    #[test]
    fn recordings_are_kept_beside_each_other_and_are_read_as_they_were() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("answers.json");
        let recorded = |body: Value| RecordedAnswer {
            status: 201,
            headers: [("content-type".to_owned(), "application/json".to_owned())].into(),
            body,
        };
        for (action, body) in [
            ("charge", json!({"id": 1})),
            ("refund", json!("OK")),
            ("charge", json!({"id": 2})),
        ] {
            record(&file, "payment", action, &recorded(body)).expect("it is kept");
        }
        let answers = Answers::read(&file).expect("it is sound");
        assert_eq!(
            answers.of("payment", "charge"),
            Some(&ActionAnswer::Recorded(recorded(json!({"id": 2}))))
        );
        assert!(answers.of("payment", "refund").is_some());
        std::fs::write(&file, "payment: {} # mine\n").expect("a file");
        let refused =
            record(&file, "payment", "charge", &recorded(json!(1))).expect_err("it is YAML");
        assert!(refused.0.contains("name another file"), "{refused}");
        std::fs::write(&file, "a: { b: { _recorded: { status: x } } }").expect("a file");
        let wrong = Answers::read(&file).expect_err("it is no recording");
        assert!(wrong[0].contains("is not a recorded answer"), "{wrong:?}");
    }
}
