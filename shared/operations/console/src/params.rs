//! Names and values of a query or a form.

use triad_operator::operations::Problem;

/// Most parameters in a form or a query.
const MAX_PAIRS: usize = 4_096;

/// Names and values, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// Parses a query, or the body of a form.
    pub(crate) fn of(text: &[u8]) -> Result<Self, Problem> {
        let pairs: Vec<(String, String)> = form_urlencoded::parse(text)
            .take(MAX_PAIRS + 1)
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        match pairs.len() > MAX_PAIRS {
            true => Err(Problem::bad("bad-query", "there are too many parameters")),
            false => Ok(Self(pairs)),
        }
    }

    /// The first non-empty value of a name.
    pub(crate) fn one(&self, name: &str) -> Option<&str> {
        let mut values = self.0.iter().filter(|(known, _)| known == name);
        let found = values.find(|(_, value)| !value.trim().is_empty());
        found.map(|(_, value)| value.as_str())
    }

    /// The first non-empty value of a name, as a text of its own.
    pub(crate) fn said(&self, name: &str) -> Option<String> {
        self.one(name).map(str::to_owned)
    }

    /// All non-empty values of a name.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        let values = self.0.iter();
        let values = values.filter(|(known, value)| known == name && !value.trim().is_empty());
        values.map(|(_, value)| value.clone()).collect()
    }

    /// Whether a parameter is given and true.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.one(name)
            .is_some_and(|value| !matches!(value, "false" | "0" | "no"))
    }

    /// The parameters of these names, as a query string.
    pub(crate) fn query(&self, names: &[&str]) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for name in names {
            if let Some(value) = self.one(name) {
                query.append_pair(name, value);
            }
        }
        query.finish()
    }
}
