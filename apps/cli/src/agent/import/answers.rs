//! Reads the answers of an operation of an OpenAPI file: rows, kept fields and the type of the body.

use serde_json::Value;

use super::document::{Document, Operation};
use super::parameters::way;
use super::schema::{Object, Typed, Way, typed};
use super::text_of;
use super::yaml::quoted;

/// Most names in `keep`, inclusive.
const MAX_KEPT: usize = 32;
/// What a description takes from the answers of an operation.
#[derive(Default)]
pub(super) struct Answers {
    /// The documented statuses.
    pub statuses: Vec<String>,
    /// The type of the body of an answer with 200 to 299.
    pub body: Option<Typed>,
    /// The names of that body for `keep`.
    pub kept: Vec<String>,
    /// Rows for the description's `answers`.
    pub rows: Vec<String>,
    /// Comments with DECIDE: questions for the author.
    pub questions: Vec<String>,
    /// What the file says of a 409.
    pub conflict: Option<String>,
}

impl Answers {
    /// Reads the answers of an operation.
    ///
    /// # Errors
    /// A reference that cannot be followed.
    pub fn of(document: &Document, operation: &Operation<'_>) -> Result<Self, String> {
        let mut found = Self::default();
        let Some(answers) = operation.own["responses"].as_object() else {
            return Ok(found);
        };
        found.statuses = answers.keys().cloned().collect();
        let mut code = None;
        let mut refused: Vec<&str> = Vec::new();
        let mut schema = None;
        for (status, answer) in answers {
            let answer = document.resolve(answer)?;
            let says = text_of(&answer["description"]).unwrap_or_default();
            let lower = says.to_lowercase();
            let of = json_schema(answer);
            let is_good = status.starts_with('2');
            if is_good && schema.is_none() {
                schema = of;
            }
            match status.as_str() {
                "202" => found.questions.push(
                    "DECIDE It may answer 202, which says that the work is accepted and not yet done. Triad takes 202 for done, because no step can wait for the end of such work yet. Is there an action that answers when the work is done?".to_owned(),
                ),
                "409" => {
                    found.conflict = Some(one_line(says));
                    if ["in progress", "processing", "idempoten", "concurren"].iter().any(|word| lower.contains(word)) {
                        found.rows.push("{ status: 409, means: in-progress }".to_owned());
                    }
                }
                "423" => found.rows.push("{ status: 423, means: may-pass }".to_owned()),
                // Triad takes these for a refused caller, or for errors that may pass, without a row.
                "401" | "403" | "407" | "408" | "425" | "429" => {}
                status if status.starts_with('4') && status.bytes().all(|b| b.is_ascii_digit()) => {
                    refused.push(status);
                    if code.is_none() {
                        code = of.map(|of| code_of(document, of)).transpose()?.flatten();
                    }
                }
                _ => {}
            }
        }
        if let (Some(code), false) = (code, refused.is_empty()) {
            let row = format!(
                "{{ status: [{}], means: refused, code: {} }}",
                refused.join(", "),
                quoted(&code)
            );
            found.rows.push(row);
        }
        if let Some(schema) = schema {
            found.good(document, schema, operation.method != "get")?;
        }
        Ok(found)
    }

    /// Takes type and kept names from the schema of an answer with 200 to 299. `asks`: whether to ask if such an answer
    /// can be a refusal.
    fn good(&mut self, document: &Document, schema: &Value, asks: bool) -> Result<(), String> {
        self.body = Some(typed(document, schema, Way::Received)?);
        if !matches!(self.body, Some(Typed::Map(_))) {
            return Ok(());
        }
        let object = Object::of(document, schema, Way::Received)?;
        let names = object.fields.iter().map(|(name, _)| name.clone());
        self.kept = names.take(MAX_KEPT).collect();
        let more = object.fields.len().saturating_sub(MAX_KEPT);
        if more > 0 {
            self.questions.push(format!(
                "DECIDE {more} fields of the answer are not in `keep`, which has at most {MAX_KEPT} names. Does a later step read one of them? Then put it in place of another one."
            ));
        }
        if !asks {
            return Ok(());
        }
        let is_sign = |name: &str| {
            matches!(
                name.to_lowercase().as_str(),
                "status" | "state" | "success" | "ok" | "error" | "errors" | "result" | "outcome"
            )
        };
        let signs = object.fields.iter().filter(|(name, _)| is_sign(name));
        let mut says = Vec::new();
        let mut sample = None;
        for (name, of) in signs {
            let of = document.resolve(of)?;
            let values = of["enum"].as_array().into_iter().flatten();
            let values: Vec<&str> = values.filter_map(Value::as_str).take(12).collect();
            let fails = values.iter().find(|value| {
                let value = value.to_lowercase();
                ["fail", "declin", "reject", "error", "denied", "refus"]
                    .iter()
                    .any(|word| value.contains(word))
            });
            let way = way("body", name);
            let condition = match (fails, &of["type"]) {
                (Some(value), _) => format!("{way} == '{value}'"),
                // No value of the enum is a refusal.
                (None, _) if !values.is_empty() => continue,
                (None, Value::String(kind)) if kind == "boolean" => format!("{way} == false"),
                (None, _) if name.starts_with("error") => format!("has({way})"),
                (None, _) => format!("{way} == 'failed'"),
            };
            sample.get_or_insert(condition);
            says.push(match values.is_empty() {
                true => format!("`{name}`"),
                false => format!("`{name}` ({})", values.join(", ")),
            });
        }
        if let Some(sample) = sample {
            self.questions.push(format!(
                "DECIDE Can an answer with 2xx be a refusal, too? It has {}. If so: fails_when: {}",
                says.join(" and "),
                quoted(&sample)
            ));
        }
        Ok(())
    }
}

fn one_line(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.chars().take(120).collect()
}

fn json_schema(answer: &Value) -> Option<&Value> {
    let kinds = answer["content"].as_object()?;
    let json = kinds
        .iter()
        .find(|(kind, _)| kind.contains("json") || *kind == "*/*");
    json.map(|(_, of)| &of["schema"])
        .filter(|schema| schema.is_object())
}

/// The expression for the code in an answer that refuses; `None` if the code is where Triad looks for it anyway, or if
/// the schema has none.
fn code_of(document: &Document, schema: &Value) -> Result<Option<String>, String> {
    let top = Object::of(document, schema, Way::Received)?;
    let field = |name: &str| {
        top.fields
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, of)| *of)
    };
    if field("code").is_some() {
        return Ok(None);
    }
    if let Some(error) = field("error") {
        let error = Object::of(document, error, Way::Received)?;
        let has = |name: &str| error.fields.iter().any(|(known, _)| known == name);
        let other = ["type", "status", "name"]
            .into_iter()
            .find(|name| has(name));
        return Ok(match has("code") || error.fields.is_empty() {
            true => None,
            false => other.map(|name| format!("${{body.error.{name}}}")),
        });
    }
    if let Some(errors) = field("errors") {
        let errors = document.resolve(errors)?;
        let error = Object::of(document, &errors["items"], Way::Received)?;
        let names = ["code", "error_code", "errorCode", "type"].into_iter();
        let mut has = names.filter(|name| error.fields.iter().any(|(known, _)| known == name));
        return Ok(has.next().map(|name| format!("${{body.errors[0].{name}}}")));
    }
    let names = ["error_code", "errorCode", "name"].into_iter();
    Ok(names
        .filter(|name| field(name).is_some())
        .map(|name| format!("${{body.{name}}}"))
        .next())
}
