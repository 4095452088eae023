//! Parameters of a query or a form, and the filter of orders in them.

use std::time::UNIX_EPOCH;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use triad_core::{OrderId, Timestamp};
use triad_operator::find::{CausePattern, Filter, StateFilter, UnknownState};
use triad_operator::pages::{Cursor, MAX_PAGE};
use triad_workflow::{Millis, SearchKey};

use crate::hidden::Hidden;
use crate::problem::Problem;
use crate::settings::PAGE;

/// Most parameters in a form or a query.
const MAX_PAIRS: usize = 4_096;
/// Names of the parameters that select orders.
pub(crate) const FILTER: [&str; 6] = ["search", "state", "cause", "workflow", "older_than", "id"];
/// Those of [`FILTER`] that the index of causes supports.
pub(crate) const FILTER_OF_CAUSES: [&str; 5] = ["state", "cause", "workflow", "older_than", "id"];

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

    /// Refuses unknown names, and names that are given twice.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), Problem> {
        for (at, (name, _)) in self.0.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let shown: String = name.chars().take(64).collect();
                let text = format!("unknown query parameter {shown:?}: {}", known.join(", "));
                return Err(Problem::bad("bad-query", text));
            }
            if self.0[..at].iter().any(|(before, _)| before == name) {
                let text = format!("the query parameter {name} is there twice");
                return Err(Problem::bad("bad-query", text));
            }
        }
        Ok(())
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

    /// A moment in RFC 3339; `None` if the parameter is missing.
    pub(crate) fn moment(&self, name: &str) -> Result<Option<Timestamp>, Problem> {
        let Some(text) = self.one(name) else {
            return Ok(None);
        };
        let read = humantime::parse_rfc3339(text).ok();
        let since = read.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let millis = since.and_then(|since| u64::try_from(since.as_millis()).ok());
        let text = format!("{name} is a moment such as 2023-11-14T22:13:20.123Z");
        let millis = millis.ok_or_else(|| Problem::bad("bad-filter", text))?;
        Ok(Some(Timestamp(millis)))
    }

    /// The filter of orders.
    pub(crate) fn filter(&self, hidden: &Hidden) -> Result<Filter, Problem> {
        filter(|name| self.one(name), hidden)
    }

    /// Page size and cursor.
    pub(crate) fn page(&self) -> Result<(usize, Option<Cursor>), Problem> {
        let limit = self.one("limit").map_or(Ok(PAGE), |text| {
            let limit = text.parse().ok().filter(|n| (1..=MAX_PAGE).contains(n));
            let text = format!("limit is a number from 1 to {MAX_PAGE}");
            limit.ok_or_else(|| Problem::bad("bad-limit", text))
        })?;
        let cursor = self.one("cursor").map(read_cursor).transpose()?;
        Ok((limit, cursor))
    }
}

/// Builds a filter. Refuses a hidden search key: the result would confirm its value.
pub(crate) fn filter<'a>(
    part: impl Fn(&str) -> Option<&'a str>,
    hidden: &Hidden,
) -> Result<Filter, Problem> {
    let bad = |text: String| Problem::bad("bad-filter", text);
    let state = part("state").map(str::parse::<StateFilter>).transpose();
    let state = state.map_err(|e: UnknownState| bad(format!("state {:?} {e}", e.0)))?;
    let older_than = part("older_than").map(|text| Millis::try_from(text.to_owned()));
    let older_than = older_than
        .transpose()
        .map_err(|e| bad(format!("older_than {e}")))?;
    let search = part("search").map(str::parse::<SearchKey>).transpose();
    if let Ok(Some(key)) = &search
        && hidden.hides(key.name().as_str())
    {
        let text = format!("search: {} is hidden here", key.name().as_str());
        return Err(bad(text));
    }
    Ok(Filter {
        state,
        cause: part("cause").map(|cause| CausePattern(cause.to_owned())),
        workflow: part("workflow").map(str::to_owned),
        older_than,
        search: search.map_err(|e| {
            bad(format!(
                "search {:?} {e}",
                part("search").unwrap_or_default()
            ))
        })?,
        id: part("id").map(|text| text.trim().to_owned()),
    })
}

/// A cursor as an opaque text.
pub(crate) fn sent_cursor(cursor: &Cursor) -> String {
    // Cannot fail: a cursor has only texts and numbers.
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(cursor).unwrap_or_default())
}

fn read_cursor(text: &str) -> Result<Cursor, Problem> {
    let decoded = URL_SAFE_NO_PAD.decode(text).ok();
    let cursor = decoded.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    cursor.ok_or_else(|| Problem::bad("bad-cursor", "the cursor is not one that was sent"))
}

/// An order's id.
pub(crate) fn order_id(text: &str) -> Result<OrderId, Problem> {
    OrderId::new(text).map_err(|e| Problem::bad("bad-order-id", e.to_string()))
}

/// The segments of a path after a prefix, each decoded once. A decoded segment may hold `/`.
pub(crate) fn segments(path: &str) -> Result<Vec<String>, Problem> {
    let is_escape = |rest: &str| {
        let two = rest.as_bytes().get(..2);
        two.is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit))
    };
    let segment = |part: &str| {
        if !part.split('%').skip(1).all(is_escape) {
            let text = "a % in the path has to be followed by two hex digits";
            return Err(Problem::bad("bad-path", text));
        }
        let decoded = percent_encoding::percent_decode_str(part).decode_utf8();
        let decoded = decoded.map_err(|_| Problem::bad("bad-path", "the path is not UTF-8"))?;
        Ok(decoded.into_owned())
    };
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts.map(segment).collect()
}

#[cfg(test)]
mod tests {
    use triad_operator::address::in_path;

    use super::*;

    #[test]
    fn a_part_of_a_path_is_decoded_once_and_encoded_again() {
        let read = |path: &str| segments(path).map_err(|p| p.code);
        assert_eq!(
            read("/orders/a%2Fb%2561"),
            Ok(vec!["orders".into(), "a/b%61".into()])
        );
        for wrong in ["/%", "/%2", "/%zz", "/%FF"] {
            assert_eq!(read(wrong), Err("bad-path"), "{wrong}");
        }
        for text in ["a/b", "<script>", "é ?#%", "plain-1._~"] {
            assert_eq!(
                read(&format!("/{}", in_path(text))),
                Ok(vec![text.to_owned()])
            );
        }
    }

    #[test]
    fn what_is_no_filter_page_or_cursor_is_refused() {
        let code = |query: &str| {
            let params = Params::of(query.as_bytes())?;
            params.filter(&Hidden::default())?;
            params.page().map(|(limit, _)| limit)
        };
        let code = |query: &str| code(query).map_err(|p| p.code);
        assert_eq!(code(""), Ok(100));
        assert_eq!(
            code("state=error&limit=500&id=+x+&older_than=2h&search=customer%3Da%3Db"),
            Ok(500)
        );
        for (query, wrong) in [
            ("state=Erorr", "bad-filter"),
            ("older_than=soon", "bad-filter"),
            ("search=ALFKI", "bad-filter"),
            ("search=customer%3D", "bad-filter"),
            ("limit=0", "bad-limit"),
            ("limit=501", "bad-limit"),
            ("limit=x", "bad-limit"),
            ("cursor=x", "bad-cursor"),
            ("cursor=eyJ4IjoxfQ", "bad-cursor"),
            (&"a=1&".repeat(5_000), "bad-query"),
        ] {
            assert_eq!(code(query), Err(wrong), "{query}");
        }
    }

    #[test]
    fn an_unknown_or_repeated_name_is_refused() {
        let only = |query: &str| Params::of(query.as_bytes()).and_then(|p| p.only(&["a", "b"]));
        assert!(only("a=1&b=2").is_ok());
        assert!(only("a=1&c=2").is_err() && only("a=1&a=2").is_err());
    }
}
