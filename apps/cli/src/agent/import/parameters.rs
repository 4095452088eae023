//! The parameters of an operation of an OpenAPI file.

use serde_json::Value;

use super::document::{Document, Operation};
use super::key::{Key, is_key};
use super::schema::{Typed, Way, typed};
use super::text_of;
use super::yaml::quoted;

/// Reserved words of the expression language, which cannot follow a point as a name.
const RESERVED: [&str; 20] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "while",
];
/// Headers that OpenAPI does not count as parameters, or that a description may not have.
const NO_PARAMETERS: [&str; 7] = [
    "accept",
    "content-type",
    "authorization",
    "host",
    "content-length",
    "connection",
    "traceparent",
];
/// The parameters of an operation, as the description has them.
#[derive(Default)]
pub(super) struct Parameters {
    /// Names and types of the input's fields.
    pub input: Vec<(String, Typed)>,
    /// The path, with an expression for each parameter.
    pub path: String,
    /// Names and values of the query.
    pub query: Vec<(String, String)>,
    /// Names and values of the headers.
    pub headers: Vec<(String, String)>,
    /// The idempotency key, if a header carries it.
    pub key: Option<Key>,
    /// Comments with DECIDE: questions for the author.
    pub questions: Vec<String>,
}

impl Parameters {
    /// Reads the parameters of an operation.
    ///
    /// # Errors
    /// A reference that cannot be followed, or a part of the path in braces that is not a parameter.
    pub fn of(document: &Document, operation: &Operation<'_>) -> Result<Self, String> {
        let mut found = Self::default();
        let (path, query) = operation
            .path
            .split_once('?')
            .unwrap_or((operation.path, ""));
        found.path = path.to_owned();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            found.query.push((name.to_owned(), value.to_owned()));
        }
        let secret = document.secret_headers();
        let of = |part: &'_ Value| part["parameters"].as_array().cloned().unwrap_or_default();
        let mut seen: Vec<(String, String)> = Vec::new();
        for parameter in of(operation.own).iter().chain(&of(operation.item)) {
            let parameter = document.resolve(parameter)?;
            let (Some(name), Some(place)) =
                (text_of(&parameter["name"]), text_of(&parameter["in"]))
            else {
                continue;
            };
            let id = (name.to_owned(), place.to_owned());
            if seen.contains(&id) {
                continue;
            }
            seen.push(id);
            found.add(document, name, place, parameter, &secret)?;
        }
        if found.path.contains('{') && found.path.replace("${", "").contains('{') {
            let path = &found.path;
            return Err(format!(
                "the path {path} has a part in braces that is not a parameter: add it to `parameters`"
            ));
        }
        Ok(found)
    }

    fn add(
        &mut self,
        document: &Document,
        name: &str,
        place: &str,
        parameter: &Value,
        secret: &[String],
    ) -> Result<(), String> {
        let schema = match &parameter["schema"] {
            Value::Null => &parameter["content"]["application/json"]["schema"],
            schema => schema,
        };
        let schema = document.resolve(schema)?;
        let is_required = parameter["required"] == true || place == "path";
        let of = typed(document, schema, Way::Sent)?;
        let value = match is_required {
            true => format!("${{{}}}", way("input", name)),
            false => format!("${{coalesce({}, null)}}", way("input", name)),
        };
        match place {
            "path" => {
                let written = format!("{{{name}}}");
                self.path = self.path.replace(&written, &value);
            }
            "query" if matches!(of, Typed::Map(_) | Typed::Word("object")) => {
                self.questions.push(format!(
                    "DECIDE The parameter `{name}` of the query is an object, which a description cannot send as a whole: write each of its fields into `query`."
                ));
                return Ok(());
            }
            "query" => self.query.push((name.to_owned(), value)),
            "header" if is_key(name) => {
                self.key = Some(Key::of(name, false, schema));
                return Ok(());
            }
            "header" => {
                let lower = name.to_lowercase();
                if NO_PARAMETERS.contains(&lower.as_str()) || secret.contains(&lower) {
                    return Ok(());
                }
                self.headers.push((name.to_owned(), value));
            }
            _ if is_required => {
                self.questions.push(format!(
                    "DECIDE It needs the cookie `{name}`. A description has no cookies: send it in a header `cookie`."
                ));
                return Ok(());
            }
            _ => return Ok(()),
        }
        let name = if is_required {
            name.to_owned()
        } else {
            format!("{name}?")
        };
        // One name may be both in the path and in the query; the input has it once.
        if !self.input.iter().any(|(known, _)| *known == name) {
            self.input.push((name, of));
        }
        Ok(())
    }
}

/// The expression that reads a field of a value.
pub(super) fn way(of: &str, name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    match begins && name.chars().all(is_plain) && !RESERVED.contains(&name) {
        true => format!("{of}.{name}"),
        false => format!("{of}[{}]", quoted(name)),
    }
}
