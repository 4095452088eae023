//! One action of a description, from an operation of an OpenAPI file.

use serde_json::Value;

use super::document::{Document, Operation};
use super::schema::{Object, Typed, Way, typed};
use super::text_of;
use super::yaml::{self, comment, quoted};

/// Most names that `keep` has.
const MAX_KEPT: usize = 32;
/// Words of the expression language, which cannot be names behind a point.
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
/// Headers that are no parameters, as OpenAPI has it, or that a description may not have.
const NO_PARAMETERS: [&str; 7] = [
    "accept",
    "content-type",
    "authorization",
    "host",
    "content-length",
    "connection",
    "traceparent",
];
/// Shortest and longest hash that a key can be.
const HASH: std::ops::RangeInclusive<u64> = 16..=64;
/// Characters of a key as it is, at most.
const LONGEST_KEY: u64 = 201;

/// How the operations take an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    header: Option<String>,
    field: Option<String>,
    form: Option<String>,
    /// What a person has to look at.
    question: Option<String>,
}

impl Key {
    /// The key that the operations take: that of the first header, and that of the first field.
    pub fn of_all(actions: &[Action]) -> Option<Self> {
        let keys = || actions.iter().filter_map(|action| action.key.as_ref());
        let mut key = keys()
            .find(|key| key.header.is_some())
            .or_else(|| keys().next())?
            .clone();
        key.field = keys().find_map(|key| key.field.clone());
        // A call without a body has no field.
        if key.field.is_some() && actions.iter().any(|action| !action.has_fields) {
            key.header
                .get_or_insert_with(|| "Idempotency-Key".to_owned());
        }
        Some(key)
    }

    fn of(name: &str, is_field: bool, schema: &Value) -> Self {
        let longest = schema["maxLength"].as_u64().unwrap_or(u64::MAX);
        let (form, question) = match longest {
            _ if schema["format"] == "uuid" => (Some("form: uuid".to_owned()), None),
            LONGEST_KEY.. => (None, None),
            _ if longest >= *HASH.start() => {
                (Some(format!("length: {}", longest.min(*HASH.end()))), None)
            }
            _ => (
                Some("length: 16".to_owned()),
                Some(format!(
                    "DECIDE The service takes a key of {longest} characters at most, and 16 are the fewest that make keys differ for sure."
                )),
            ),
        };
        let name = Some(name.to_owned());
        let (header, field) = if is_field { (None, name) } else { (name, None) };
        Self {
            header,
            field,
            form,
            question,
        }
    }

    /// The line of the description.
    pub fn line(&self) -> String {
        let header = self
            .header
            .as_ref()
            .map(|name| format!("header: {}", yaml::text(name)));
        let field = self
            .field
            .as_ref()
            .map(|name| format!("field: {}", yaml::text(name)));
        let parts: Vec<String> = [header, field, self.form.clone()]
            .into_iter()
            .flatten()
            .collect();
        let question = self
            .question
            .as_ref()
            .map_or_else(String::new, |text| comment("", text));
        format!("{question}key: {{ {} }}\n", parts.join(", "))
    }
}

/// Whether a name is that of an idempotency key.
fn is_key(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = plain.to_lowercase();
    plain.contains("idempoten")
        || matches!(
            plain.as_str(),
            "paypalrequestid" | "requestid" | "xrequestid" | "clientrequestid"
        )
}

/// An action of the description.
#[derive(Debug)]
pub(super) struct Action {
    pub name: String,
    /// Method and path.
    pub operation: String,
    pub key: Option<Key>,
    /// Whether its body has fields, in which a key can be.
    has_fields: bool,
    /// The lines below its name.
    lines: String,
    summary: Option<String>,
    statuses: Vec<String>,
    conflict: Option<String>,
}

/// The parameters of an operation, as the description has them.
#[derive(Default)]
struct Parameters {
    /// Names and types of the input.
    input: Vec<(String, Typed)>,
    path: String,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    key: Option<Key>,
    questions: Vec<String>,
}

/// The body of a request, as the description has it.
struct RequestBody<'d> {
    form: &'static str,
    /// The type of its content, if that is not what the form says.
    content_type: Option<String>,
    schema: &'d Value,
    is_required: bool,
}

impl Action {
    /// The action for an operation.
    ///
    /// # Errors
    /// A reference that cannot be followed, or a body that a description cannot have.
    pub fn of(
        document: &Document,
        operation: &Operation<'_>,
        name: String,
    ) -> Result<Self, String> {
        let mut parameters = Parameters::of(document, operation)?;
        let body = body(document, operation)?;
        let mut lines = String::new();
        if operation.method != "post" {
            lines.push_str(&format!(
                "    method: {}\n",
                operation.method.to_uppercase()
            ));
        }
        lines.push_str(&format!("    path: {}\n", path_text(&parameters.path)));
        named(&mut lines, "query", &parameters.query);
        if let Some(content_type) = body.as_ref().and_then(|body| body.content_type.clone()) {
            parameters
                .headers
                .push(("content-type".to_owned(), content_type));
        }
        named(&mut lines, "headers", &parameters.headers);
        let mut key = parameters.key.take();
        let (input, has_fields) = match &body {
            Some(body) => {
                let of_body = body_type(document, body, &mut key)?;
                let has_fields = matches!(body.form, "json" | "form");
                let takes_parameters = !parameters.input.is_empty();
                if body.form != "json" {
                    lines.push_str(&format!("    body: {}\n", body.form));
                }
                (
                    with_body(
                        parameters.input,
                        of_body,
                        body,
                        takes_parameters,
                        &mut lines,
                    ),
                    has_fields,
                )
            }
            None => {
                if !matches!(operation.method, "get" | "delete") {
                    lines.push_str("    body: none\n");
                }
                (Typed::Map(parameters.input), false)
            }
        };
        let answers = Answers::of(document, operation)?;
        for question in parameters.questions.iter().chain(&answers.questions) {
            lines.push_str(&comment("    ", question));
        }
        if !answers.rows.is_empty() {
            let rows = answers.rows.iter().map(|row| format!("      - {row}\n"));
            lines.push_str(&format!("    answers:\n{}", rows.collect::<String>()));
        }
        if !answers.kept.is_empty() {
            lines.push_str(&yaml::list("    ", "keep", &answers.kept));
        }
        lines.push_str("    types:\n");
        lines.push_str(&yaml::typed("      ", "input", &input));
        if let Some(body) = &answers.body {
            lines.push_str(&yaml::typed("      ", "body", body));
        }
        let own = operation.own;
        Ok(Self {
            name,
            operation: operation.spoken(),
            key,
            has_fields,
            lines,
            summary: text_of(&own["summary"]).map(str::to_owned),
            statuses: match operation.method {
                "get" => Vec::new(),
                _ => answers.statuses,
            },
            conflict: answers.conflict,
        })
    }

    /// The lines of the description.
    pub fn text(&self) -> String {
        let summary = self
            .summary
            .as_ref()
            .map_or_else(String::new, |text| format!(": {text}"));
        let comment = comment("  ", &format!("{}{summary}", self.operation));
        format!("{comment}  {}:\n{}", yaml::text(&self.name), self.lines)
    }

    /// Statuses that may say that there is nothing to compensate.
    pub fn absent(&self) -> Option<String> {
        let found = self
            .statuses
            .iter()
            .filter(|status| matches!(status.as_str(), "404" | "410"));
        let found: Vec<&str> = found.map(String::as_str).collect();
        (!found.is_empty()).then(|| format!("{} of {}", found.join(" and "), self.name))
    }

    /// What a 409 means.
    pub fn conflict(&self) -> Option<String> {
        self.conflict
            .as_ref()
            .map(|text| format!("{}, {text:?}", self.name))
    }
}

impl Parameters {
    fn of(document: &Document, operation: &Operation<'_>) -> Result<Self, String> {
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
                "the path {path} has a part in braces that is no parameter: add it to `parameters`"
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
                    "DECIDE The query's `{name}` is an object, which a description cannot send whole: name its fields in `query`."
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
                    "DECIDE It needs the cookie `{name}`, which a description cannot send; a header `cookie` can."
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
        // A name may be in the path and in the query.
        if !self.input.iter().any(|(known, _)| *known == name) {
            self.input.push((name, of));
        }
        Ok(())
    }
}

/// The way to a name of a value in an expression.
fn way(of: &str, name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    match begins && name.chars().all(is_plain) && !RESERVED.contains(&name) {
        true => format!("{of}.{name}"),
        false => format!("{of}[{}]", quoted(name)),
    }
}

fn path_text(path: &str) -> String {
    match path.contains([' ', '#', '"', '\'']) {
        true => quoted(path),
        false => path.to_owned(),
    }
}

fn named(lines: &mut String, key: &str, values: &[(String, String)]) {
    if values.is_empty() {
        return;
    }
    lines.push_str(&format!("    {key}:\n"));
    for (name, value) in values {
        lines.push_str(&format!("      {}: {}\n", yaml::text(name), quoted(value)));
    }
}

/// The body that an operation takes, if it takes one.
fn body<'d>(
    document: &'d Document,
    operation: &Operation<'d>,
) -> Result<Option<RequestBody<'d>>, String> {
    let body = document.resolve(&operation.own["requestBody"])?;
    let Some(kinds) = body["content"]
        .as_object()
        .filter(|kinds| !kinds.is_empty())
    else {
        return Ok(None);
    };
    if matches!(operation.method, "get" | "delete") && body["required"] != true {
        return Ok(None);
    }
    let form_of = |kind: &str| match kind.split(';').next().unwrap_or_default().trim() {
        "application/json" | "*/*" | "application/*" => Some((0, "json")),
        json if json.ends_with("+json") => Some((1, "json")),
        "application/x-www-form-urlencoded" => Some((2, "form")),
        text if text.starts_with("text/") || text.ends_with("xml") => Some((3, "text")),
        _ => None,
    };
    let known = kinds
        .iter()
        .filter_map(|(kind, of)| Some((form_of(kind)?, kind, of)));
    let Some(((rank, form), kind, of)) =
        known.min_by_key(|((rank, _), kind, _)| (*rank, (*kind).clone()))
    else {
        let kinds: Vec<&str> = kinds.keys().map(String::as_str).collect();
        return Err(format!(
            "it takes {}, and a description sends JSON, a form or a text: write an agent for it",
            kinds.join(" or ")
        ));
    };
    Ok(Some(RequestBody {
        form,
        content_type: (rank == 1 || (rank == 3 && kind != "text/plain")).then(|| kind.clone()),
        schema: &of["schema"],
        is_required: body["required"] == true,
    }))
}

/// The type of a body without the field of the key, which is noted.
fn body_type(
    document: &Document,
    body: &RequestBody<'_>,
    key: &mut Option<Key>,
) -> Result<Typed, String> {
    let found = match body.form {
        "text" => Typed::Word("string"),
        _ => typed(document, body.schema, Way::Sent)?,
    };
    let Typed::Map(mut fields) = found else {
        return Ok(found);
    };
    let plain = |name: &str| name.trim_end_matches('?').to_owned();
    if let Some(at) = fields
        .iter()
        .position(|(name, _)| is_key(name) && name.to_lowercase().contains("idempoten"))
    {
        let name = plain(&fields.remove(at).0);
        let object = Object::of(document, body.schema, Way::Sent)?;
        let schema = object.fields.iter().find(|(known, _)| *known == name);
        let schema = schema.map_or(Ok(&Value::Null), |(_, schema)| document.resolve(schema))?;
        let of_field = Key::of(&name, true, schema);
        match key {
            Some(key) => key.field = Some(name),
            None => *key = Some(of_field),
        }
    }
    Ok(Typed::Map(fields))
}

/// The type of the input: the body alone, or the parameters and the body as one of its fields.
fn with_body(
    mut parameters: Vec<(String, Typed)>,
    of_body: Typed,
    body: &RequestBody<'_>,
    takes_parameters: bool,
    lines: &mut String,
) -> Typed {
    if !takes_parameters {
        return of_body;
    }
    let is_taken = |name: &str| {
        parameters
            .iter()
            .any(|(known, _)| known.trim_end_matches('?') == name)
    };
    let name = if is_taken("body") { "content" } else { "body" };
    let is_empty_fine = match &of_body {
        Typed::Map(fields) => fields
            .iter()
            .all(|(name, _)| name.ends_with('?') || name == "*"),
        _ => false,
    };
    let needs_it = body.is_required && !is_empty_fine;
    let content = match (needs_it, body.form) {
        (true, _) => format!("${{input.{name}}}"),
        (false, "text") => format!("${{coalesce(input.{name}, '')}}"),
        (false, _) => format!("${{coalesce(input.{name}, {{}})}}"),
    };
    lines.push_str(&format!("    content: {}\n", quoted(&content)));
    let mark = if needs_it { "" } else { "?" };
    parameters.push((format!("{name}{mark}"), of_body));
    Typed::Map(parameters)
}

/// What the answers of an operation say.
#[derive(Default)]
struct Answers {
    statuses: Vec<String>,
    body: Option<Typed>,
    kept: Vec<String>,
    rows: Vec<String>,
    questions: Vec<String>,
    conflict: Option<String>,
}

impl Answers {
    fn of(document: &Document, operation: &Operation<'_>) -> Result<Self, String> {
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
                    "DECIDE It may answer 202, accepted and not yet done, which counts as done: no step can wait for that yet. Is there an action that answers when the work is done?".to_owned(),
                ),
                "409" => {
                    found.conflict = Some(one_line(says));
                    if ["in progress", "processing", "idempoten", "concurren"].iter().any(|word| lower.contains(word)) {
                        found.rows.push("{ status: 409, means: in-progress }".to_owned());
                    }
                }
                "423" => found.rows.push("{ status: 423, means: may-pass }".to_owned()),
                // Those that the caller is the cause of, and those that may pass, are understood.
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

    /// What is kept of a good answer. `asks`: whether it may be a refusal.
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
                "DECIDE {more} fields of the answer are not in `keep`, since it has {MAX_KEPT} at most: does a later step read one of them?"
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
        let mut sample = "body.success == false".to_owned();
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
            if let Some(value) = fails {
                sample = format!("{} == '{value}'", way("body", name));
            }
            says.push(match values.is_empty() {
                true => format!("`{name}`"),
                false => format!("`{name}` ({})", values.join(", ")),
            });
        }
        if !says.is_empty() {
            self.questions.push(format!(
                "DECIDE Does a 2xx say no, too? It has {}. If so: fails_when: {}",
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

/// The expression for the code in an answer that refuses, if it is not found where it is looked for already.
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

#[cfg(test)]
mod tests {
    use triad_workflow::load;

    use super::super::document::Document;
    use super::*;

    /// The description of an operation of this file, as text; it has to be sound.
    fn described(paths: &str) -> Result<String, String> {
        let document = Document::parse(&format!("openapi: 3.1.0\npaths:\n{paths}"))?;
        let operation = document.find("go")?;
        let action = Action::of(&document, &operation, "go".to_owned())?;
        let key =
            Key::of_all(std::slice::from_ref(&action)).map_or_else(String::new, |key| key.line());
        let text = format!("{key}actions:\n{}", action.text());
        load::service_from_yaml("x.yaml", &text).map_err(|wrong| format!("{wrong}\n{text}"))?;
        Ok(text)
    }

    const JSON: &str = "requestBody: { required: true, content: { application/json: { schema: { type: object, required: [a], properties: { a: { type: string } } } } } }";

    #[test]
    fn parameters_and_body_have_their_places() {
        let text = described(&format!(
            "  /x/{{id}}/{{the-part}}:\n    parameters: [{{ name: id, in: path, schema: {{ type: string }} }}, {{ name: the-part, in: path, schema: {{ type: integer }} }}]\n    put:\n      operationId: go\n      parameters: [{{ name: q, in: query, schema: {{ type: array, items: {{ type: string }} }} }}, {{ name: X-Shop, in: header, required: true, schema: {{ type: string }} }}, {{ name: Authorization, in: header }}]\n      {JSON}\n"
        ))
        .expect("it is sound");
        for wanted in [
            "    method: PUT\n",
            "    path: \"/x/${input.id}/${input[\\\"the-part\\\"]}\"\n",
            "      q: \"${coalesce(input.q, null)}\"\n",
            "      X-Shop: \"${input[\\\"X-Shop\\\"]}\"\n",
            "    content: \"${input.body}\"\n",
            "input: { q?: [string], X-Shop: string, id: string, the-part: integer, body: { a: string } }\n",
        ] {
            assert!(text.contains(wanted), "{wanted} in\n{text}");
        }
        assert!(!text.contains("Authorization"), "{text}");
    }

    #[test]
    fn a_body_alone_is_the_input_and_a_key_in_it_is_not() {
        let text = described(
            "  /x: { post: { operationId: go, requestBody: { content: { application/json: { schema: { required: [idempotency_key], properties: { idempotency_key: { type: string, maxLength: 45 }, a: { type: [integer, 'null'] } } } } } } } }\n",
        )
        .expect("it is sound");
        assert!(
            text.contains("key: { field: idempotency_key, length: 45 }\n"),
            "{text}"
        );
        assert!(
            text.contains("input: { a?: integer }\n") && !text.contains("content"),
            "{text}"
        );
    }

    #[test]
    fn rows_are_only_for_what_differs() {
        let text = described(
            "  /x: { delete: { operationId: go, responses: { '204': { description: gone }, '423': { description: locked }, '401': { description: who }, '422': { description: no, content: { application/json: { schema: { properties: { errors: { type: array, items: { properties: { code: { type: string } } } } } } } } } } } }\n",
        )
        .expect("it is sound");
        assert!(
            text.contains("- { status: 423, means: may-pass }\n"),
            "{text}"
        );
        assert!(
            text.contains(
                "- { status: [422], means: refused, code: \"${body.errors[0].code}\" }\n"
            ),
            "{text}"
        );
        assert!(!text.contains("401") && !text.contains("keep"), "{text}");
    }

    #[test]
    fn at_most_so_much_is_kept_and_circles_and_wide_schemas_end() {
        let many: Vec<String> = (0..60)
            .map(|n| format!("f{n}: {{ $ref: '#/paths/~1x/x-s' }}"))
            .collect();
        let text = described(&format!(
            "  /x:\n    x-s: {{ required: [f59], properties: {{ {} }} }}\n    post: {{ operationId: go, responses: {{ '200': {{ content: {{ application/json: {{ schema: {{ $ref: '#/paths/~1x/x-s' }} }} }} }} }} }}\n",
            many.join(", ")
        ))
        .expect("it is sound");
        assert!(
            text.contains("keep: [f59, f0,") && text.contains("28 fields of the answer"),
            "{text}"
        );
        assert!(text.len() < 4_000, "{text}");
    }

    #[test]
    fn what_cannot_be_described_is_told() {
        for (paths, wanted) in [
            (
                "  /x: { post: { operationId: go, requestBody: { content: { multipart/form-data: {} } } } }",
                "it takes multipart/form-data",
            ),
            (
                "  /x/{id}: { post: { operationId: go } }",
                "is no parameter",
            ),
            (
                "  /x: { post: { operationId: go, requestBody: { $ref: 'b.yaml' } } }",
                "is to another file",
            ),
        ] {
            let why = described(paths).expect_err(wanted);
            assert!(why.contains(wanted), "{why}");
        }
    }
}
