//! How the operations of an OpenAPI file take an idempotency key.

use serde_json::Value;

use super::yaml::{self, comment};

/// Shortest and longest hash that a key can be, in characters.
const HASH: std::ops::RangeInclusive<u64> = 16..=64;
/// Longest key in the form `as-is`, in characters.
const LONGEST_KEY: u64 = 201;

/// How the operations take an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    header: Option<String>,
    pub field: Option<String>,
    form: Option<String>,
    /// A question for the author.
    question: Option<String>,
}

impl Key {
    /// One key for all operations: the first header and the first field that one of them takes. Each item is an
    /// operation's key, and whether its body has fields.
    pub fn of_all(operations: &[(Option<&Self>, bool)]) -> Option<Self> {
        let keys = || operations.iter().filter_map(|(key, _)| *key);
        let with_header = keys().find(|key| key.header.is_some());
        let mut key = with_header.or_else(|| keys().next())?.clone();
        key.field = keys().find_map(|key| key.field.clone());
        // A request without a body has no field for the key, so a header carries it there.
        if key.field.is_some() && operations.iter().any(|(_, has_fields)| !has_fields) {
            key.header
                .get_or_insert_with(|| "Idempotency-Key".to_owned());
        }
        Some(key)
    }

    pub fn of(name: &str, is_field: bool, schema: &Value) -> Self {
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
                    "DECIDE The service takes a key of at most {longest} characters, and Triad's shortest has 16, because shorter hashes of two effects could be equal. Does the service take 16?"
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

    /// The description's line for the key, below its question.
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

/// Whether a header or field with this name carries an idempotency key.
pub(super) fn is_key(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = plain.to_lowercase();
    plain.contains("idempoten")
        || matches!(
            plain.as_str(),
            "paypalrequestid" | "requestid" | "xrequestid" | "clientrequestid"
        )
}
