//! An OpenAPI file: reads it within bounds, follows its references, and finds its operations.

use std::path::Path;

use serde_json::Value;
use triad_workflow::nearest;

use super::text_of;
use crate::output::Usage;
use crate::user_files::{self, display_path};

/// Largest file, in bytes, inclusive: 16 MiB.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Most references that are followed from one to the next.
const MAX_REFERENCES: usize = 32;
/// Most operations that an error lists.
const MAX_LISTED: usize = 20;
/// The methods that a description can have.
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// An OpenAPI file.
#[derive(Debug)]
pub(super) struct Document(Value);

/// One operation of it.
#[derive(Debug, Clone)]
pub(super) struct Operation<'d> {
    /// Its id, or method and path if it has none.
    pub id: String,
    /// Its method, in lower case.
    pub method: &'static str,
    /// Its path, in which `{NAME}` is a parameter.
    pub path: &'d str,
    /// The part of the file for its path, which all operations of the path share.
    pub item: &'d Value,
    /// The part of the file for the operation itself.
    pub own: &'d Value,
}

impl Document {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Usage`] if it cannot be read, is too large, or is no OpenAPI file of version 3.0 or 3.1.
    pub fn read(file: &Path) -> Result<Self, Usage> {
        let shown = display_path(file);
        let wrong = |why: String| Usage(format!("{shown}: {why}"));
        let bytes = std::fs::metadata(file).map_or(0, |about| about.len());
        if bytes > MAX_BYTES {
            return Err(wrong(format!(
                "has {bytes} bytes, more than the {MAX_BYTES} that are read: remove the paths that are not needed"
            )));
        }
        let text = user_files::text(file)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(wrong(format!("has more than {MAX_BYTES} bytes")));
        }
        Self::parse(&text).map_err(wrong)
    }

    /// Reads a text.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let root: Value = match text
            .trim_start_matches('\u{feff}')
            .trim_start()
            .starts_with('{')
        {
            true => serde_json::from_str(text.trim_start_matches('\u{feff}')).or_else(|e| {
                yaml(text).map_err(|yaml| {
                    format!(
                        "is neither JSON ({e}) nor YAML ({})",
                        yaml.trim_start_matches("is not YAML ")
                    )
                })
            })?,
            false => yaml(text)?,
        };
        let version = root["openapi"].as_str().unwrap_or_default();
        if version.starts_with("3.0") || version.starts_with("3.1") {
            return Ok(Self(root));
        }
        Err(match (&root["swagger"], version) {
            (Value::String(_), _) => "is Swagger 2.0, and only OpenAPI 3.0 and 3.1 are read: convert it, as `npx swagger2openapi FILE` does".to_owned(),
            (_, "") => "is no OpenAPI file: it has no `openapi: 3.…` at its top".to_owned(),
            (_, other) => format!("is OpenAPI {other:?}, and only 3.0 and 3.1 are read"),
        })
    }

    /// The title.
    pub fn title(&self) -> &str {
        text_of(&self.0["info"]["title"]).unwrap_or("A service")
    }

    /// The title, and the version of the API.
    pub fn title_and_version(&self) -> String {
        match text_of(&self.0["info"]["version"]) {
            Some(version) => format!("{} {version}", self.title()),
            None => self.title().to_owned(),
        }
    }

    /// The address of the first server, if it begins with `http://` or `https://`.
    pub fn server(&self) -> Option<String> {
        let server = &self.0["servers"][0];
        let mut url = text_of(&server["url"])?.to_owned();
        for (name, of) in server["variables"].as_object().into_iter().flatten() {
            url = url.replace(
                &format!("{{{name}}}"),
                text_of(&of["default"]).unwrap_or("…"),
            );
        }
        let is_whole = url.starts_with("http://") || url.starts_with("https://");
        let url = url.trim_end_matches('/').to_owned();
        is_whole.then_some(url)
    }

    /// Lines of the agent's settings for the first security scheme that `auth` supports.
    pub fn auth(&self, agent: &str) -> Vec<String> {
        let variable = |of: &str| {
            let agent = agent.to_uppercase().replace('-', "_");
            format!("{{ env: {agent}_{of} }}")
        };
        let schemes = self.0["components"]["securitySchemes"].as_object();
        let lines = schemes.into_iter().flatten().find_map(|(_, scheme)| {
            let scheme = self.resolve(scheme).ok()?;
            let one = match (scheme["type"].as_str()?, scheme["scheme"].as_str()) {
                ("http", Some("basic")) => {
                    format!("basic: {{ user: …, password: {} }}", variable("PASSWORD"))
                }
                ("http", _) => format!("bearer: {}", variable("TOKEN")),
                ("apiKey", _) if scheme["in"] == "header" => format!(
                    "header: {{ name: {}, value: {} }}",
                    text_of(&scheme["name"])?,
                    variable("KEY")
                ),
                ("oauth2", _) => {
                    let url = text_of(&scheme["flows"]["clientCredentials"]["tokenUrl"])?;
                    let secret = variable("SECRET");
                    format!("oauth2: {{ token_url: {url}, client_id: …, client_secret: {secret} }}")
                }
                _ => return None,
            };
            Some(vec![format!("auth: {{ {one} }}")])
        });
        lines.unwrap_or_default()
    }

    /// Names of the headers with credentials, in lower case.
    pub fn secret_headers(&self) -> Vec<String> {
        let schemes = self.0["components"]["securitySchemes"].as_object();
        let schemes = schemes.into_iter().flatten().map(|(_, scheme)| scheme);
        let in_header = schemes.filter(|scheme| scheme["in"] == "header");
        in_header
            .filter_map(|scheme| text_of(&scheme["name"]).map(str::to_lowercase))
            .collect()
    }

    /// The part itself, or the part that its reference leads to.
    ///
    /// # Errors
    /// A reference to another file, to nothing, or in a circle.
    pub fn resolve<'d>(&'d self, part: &'d Value) -> Result<&'d Value, String> {
        let mut found = part;
        for _ in 0..MAX_REFERENCES {
            let Some(reference) = found["$ref"].as_str() else {
                return Ok(found);
            };
            let Some(pointer) = reference.strip_prefix('#') else {
                return Err(format!(
                    "the reference {reference:?} is to another file: put all files into one, as `npx @redocly/cli bundle FILE` does"
                ));
            };
            found = self.0.pointer(&decoded(pointer)).ok_or_else(|| {
                format!("the reference {reference:?} is to a part that the file does not have")
            })?;
        }
        Err(format!("the reference {} leads in a circle", part["$ref"]))
    }

    /// The operation with this id, or of this method and path.
    ///
    /// # Errors
    /// There is no such operation; the text lists the file's operations, the nearest first.
    pub fn find(&self, name: &str) -> Result<Operation<'_>, String> {
        let all = self.operations()?;
        let is_it = |operation: &&Operation<'_>| {
            operation.id == name || operation.spoken().eq_ignore_ascii_case(name)
        };
        if let Some(found) = all.iter().find(is_it) {
            return Ok(found.clone());
        }
        Err(match all.is_empty() {
            true => "has no operation".to_owned(),
            false => format!(
                "there is no such operation; there are\n{}",
                listed(name, &all)
            ),
        })
    }

    fn operations(&self) -> Result<Vec<Operation<'_>>, String> {
        let mut found = Vec::new();
        for (path, item) in self.0["paths"].as_object().into_iter().flatten() {
            let item = self.resolve(item)?;
            for method in METHODS {
                let Some(own) = item.get(method).filter(|own| own.is_object()) else {
                    continue;
                };
                let id = text_of(&own["operationId"]).map_or_else(
                    || format!("{} {path}", method.to_uppercase()),
                    str::to_owned,
                );
                found.push(Operation {
                    id,
                    method,
                    path,
                    item,
                    own,
                });
            }
        }
        Ok(found)
    }
}

impl Operation<'_> {
    /// Method and path.
    pub fn spoken(&self) -> String {
        format!("{} {}", self.method.to_uppercase(), self.path)
    }
}

/// Reads YAML, with bounds for nesting, nodes and expanded aliases.
fn yaml(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_nodes: 2_000_000,
            max_events: 6_000_000,
        },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|e| {
        let place = e.location().map_or_else(String::new, |at| {
            format!(" in line {}, column {}", at.line(), at.column())
        });
        match is_too_much(&e) {
            true => format!(
                "is too large{place}: it is nested deeper than 64 levels, or its aliases (`*name`) expand to far more text than the file has"
            ),
            false => format!("is not YAML{place}: {}", e.without_snippet()),
        }
    })
}

/// Whether the error says that a text exceeds a bound of reading.
fn is_too_much(error: &serde_saphyr::Error) -> bool {
    use serde_saphyr::Error;
    match error.without_snippet() {
        Error::AliasError { error, .. } => is_too_much(error),
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::AliasReplayCounterOverflow { .. } => true,
        _ => false,
    }
}

/// A JSON pointer, with the percent encoding of a URL removed.
fn decoded(pointer: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = pointer.as_bytes();
    while let [first, others @ ..] = rest {
        let code = match (first, others) {
            (b'%', [high, low, ..]) => std::str::from_utf8(&[*high, *low])
                .ok()
                .and_then(|hex| u8::from_str_radix(hex, 16).ok()),
            _ => None,
        };
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &others[2..] } else { others };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The operations, one a line: first the nearest to the name, then those that share a word with it, then the others.
fn listed(name: &str, all: &[Operation<'_>]) -> String {
    let wanted = words(name);
    let near = nearest(name, all.iter().map(|operation| operation.id.as_str()));
    let far = |operation: &Operation<'_>| {
        let own = words(&format!("{} {}", operation.id, operation.path));
        let common = own.iter().filter(|word| wanted.contains(word)).count();
        (near != Some(operation.id.as_str()), usize::MAX - common)
    };
    let mut sorted: Vec<&Operation<'_>> = all.iter().collect();
    sorted.sort_by_key(|operation| far(operation));
    let line = |operation: &&Operation<'_>| match operation.id == operation.spoken() {
        true => format!("  {}", operation.id),
        false => format!("  {} ({})", operation.id, operation.spoken()),
    };
    let mut lines: Vec<String> = sorted.iter().take(MAX_LISTED).map(line).collect();
    if sorted.len() > MAX_LISTED {
        lines.push(format!("  … and {} more", sorted.len() - MAX_LISTED));
    }
    lines.join("\n")
}

/// The words of a name in lower case, such as `create` and `charge` of `createCharge`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in name.chars() {
        let is_new = c.is_uppercase() || !c.is_alphanumeric();
        if is_new && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
    }
    words
        .iter()
        .filter(|word| !word.is_empty())
        .map(|word| word.trim_end_matches('s').to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Document {
        Document::parse(&format!("openapi: 3.0.3\n{text}")).expect("it is one")
    }

    #[test]
    fn what_is_no_openapi_file_is_refused_with_the_next_step() {
        for (text, wanted) in [
            ("swagger: '2.0'", "is Swagger 2.0"),
            ("a: b", "is no OpenAPI file"),
            ("openapi: 4.0.0", "is OpenAPI \"4.0.0\""),
            ("{\"openapi\": \"3.1.0\",", "nor YAML (in line 1"),
            ("openapi: [", "is not YAML"),
            ("", "is no OpenAPI file"),
        ] {
            let why = Document::parse(text).expect_err(text);
            assert!(why.contains(wanted), "{wanted}: {why}");
        }
    }

    #[test]
    fn aliases_that_come_to_far_more_than_the_file_are_refused() {
        let mut text = "openapi: 3.0.0\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..12 {
            let all = vec![format!("*a{}", n - 1); 10].join(", ");
            text.push_str(&format!("a{n}: &a{n} [{all}]\n"));
        }
        let why = Document::parse(&text).expect_err("it is a bomb");
        assert!(why.contains("is too large"), "{why}");
        let deep = format!(
            "openapi: 3.0.0\na: {}{}",
            "[".repeat(5_000),
            "]".repeat(5_000)
        );
        assert!(Document::parse(&deep).is_err());
        let deep = format!("{{\"a\": {}{}}}", "[".repeat(5_000), "]".repeat(5_000));
        assert!(Document::parse(&deep).is_err());
    }

    #[test]
    fn references_are_followed_within_the_file_and_within_a_bound() {
        let document = document(
            "components:\n  a: { $ref: '#/components/b~1c%7Bd%7D' }\n  'b/c{d}': { type: string }\n  x: { $ref: '#/components/y' }\n  y: { $ref: '#/components/x' }\n  far: { $ref: 'other.yaml#/a' }\n  none: { $ref: '#/components/none-such' }\n",
        );
        let of = |name: &str| document.resolve(&document.0["components"][name]);
        assert_eq!(of("a").expect("it is there")["type"], "string");
        for (name, wanted) in [
            ("x", "leads in a circle"),
            ("far", "is to another file: put all files into one"),
            ("none", "the file does not have"),
        ] {
            let why = of(name).expect_err(name);
            assert!(why.contains(wanted), "{why}");
        }
    }

    #[test]
    fn an_operation_that_there_is_not_is_answered_with_the_nearest_first() {
        let document = document(
            "paths:\n  /v1/charges: { post: { operationId: createCharge }, get: { operationId: listCharges } }\n  /v1/x: { get: {} }\n",
        );
        let of = |name: &str| document.find(name).map(|found| found.id);
        assert_eq!(of("createCharge"), Ok("createCharge".to_owned()));
        assert_eq!(of("post /v1/charges"), Ok("createCharge".to_owned()));
        assert_eq!(of("GET /v1/x"), Ok("GET /v1/x".to_owned()));
        for (name, first) in [
            ("creatCharge", "createCharge"),
            ("charges_list", "listCharges"),
        ] {
            let why = of(name).expect_err(name);
            let line = why.lines().nth(1).expect("a line");
            assert!(line.trim_start().starts_with(first), "{why}");
        }
    }
}
