//! Makes one action of a description from an operation of an OpenAPI file.

use serde_json::Value;

use super::answers::Answers;
use super::document::{Document, Operation};
use super::key::{Key, is_key};
use super::parameters::Parameters;
use super::schema::{Object, Typed, Way, typed};
use super::text_of;
use super::yaml::{self, comment, quoted};

/// An action of the description.
#[derive(Debug)]
pub(super) struct Action {
    pub name: String,
    /// Method and path.
    pub operation: String,
    key: Option<Key>,
    /// Whether its body has fields, one of which can carry a key.
    has_fields: bool,
    /// The YAML lines below its name.
    lines: String,
    summary: Option<String>,
    statuses: Vec<String>,
    conflict: Option<String>,
}

/// The body of a request, in the terms of a description.
struct RequestBody<'d> {
    form: &'static str,
    /// The `content-type` to send, if the form does not imply it.
    content_type: Option<String>,
    schema: &'d Value,
    is_required: bool,
}

impl Action {
    /// The action for an operation.
    ///
    /// # Errors
    /// A reference that cannot be followed, or a body that a description cannot send.
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

    /// The YAML lines of the action.
    pub fn text(&self) -> String {
        let summary = self
            .summary
            .as_ref()
            .map_or_else(String::new, |text| format!(": {text}"));
        let comment = comment("  ", &format!("{}{summary}", self.operation));
        format!("{comment}  {}:\n{}", yaml::text(&self.name), self.lines)
    }

    /// The key that the operation takes, and whether its body has fields.
    pub fn key(&self) -> (Option<&Key>, bool) {
        (self.key.as_ref(), self.has_fields)
    }

    /// The documented statuses that may mean that there is nothing to compensate, with the action's name.
    pub fn absent(&self) -> Option<String> {
        let found = self
            .statuses
            .iter()
            .filter(|status| matches!(status.as_str(), "404" | "410"));
        let found: Vec<&str> = found.map(String::as_str).collect();
        (!found.is_empty()).then(|| format!("{} of {}", found.join(" and "), self.name))
    }

    /// What the file says of a 409, with the action's name.
    pub fn conflict(&self) -> Option<String> {
        self.conflict
            .as_ref()
            .map(|text| format!("{}, {text:?}", self.name))
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
            "it takes {}, but a description can send only JSON, a form or a text: write an agent for it",
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

/// The type of a body, without the field for the idempotency key; that field goes into `key`.
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

/// The type of the input: that of the body alone, or a mapping with the parameters and the body as one more field.
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

#[cfg(test)]
mod tests {
    use triad_workflow::load;

    use super::super::document::Document;
    use super::*;

    /// The description of the operation `go` of a file with these paths, as text; it must be sound.
    fn described(paths: &str) -> Result<String, String> {
        let document = Document::parse(&format!("openapi: 3.1.0\npaths:\n{paths}"))?;
        let operation = document.find("go")?;
        let action = Action::of(&document, &operation, "go".to_owned())?;
        let key = Key::of_all(&[action.key()]).map_or_else(String::new, |key| key.line());
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
    fn alternatives_of_alternatives_are_not_all_looked_at() {
        for way in ["oneOf", "allOf"] {
            let levels: Vec<String> = (0..40)
                .map(|n| {
                    let next = vec![format!("{{ $ref: '#/paths/~1x/s{}' }}", n + 1); 8].join(", ");
                    format!("    s{n}: {{ {way}: [{next}] }}\n")
                })
                .collect();
            let text = described(&format!(
                "  /x:\n{}    s40: {{ type: string }}\n    post: {{ operationId: go, responses: {{ '200': {{ content: {{ application/json: {{ schema: {{ $ref: '#/paths/~1x/s0' }} }} }} }} }} }}\n",
                levels.concat()
            ));
            assert!(text.is_ok(), "{text:?}");
        }
    }

    #[test]
    fn an_operation_that_cannot_be_described_is_refused_with_the_reason() {
        for (paths, wanted) in [
            (
                "  /x: { post: { operationId: go, requestBody: { content: { multipart/form-data: {} } } } }",
                "it takes multipart/form-data",
            ),
            (
                "  /x/{id}: { post: { operationId: go } }",
                "is not a parameter",
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
