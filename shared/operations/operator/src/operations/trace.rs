//! Link to an order's trace, in a tool that stores traces.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Placeholder of the trace's id in a template.
const PLACE: &str = "{trace}";

/// The address at which a tool shows a trace, as a template with `{trace}` in the place of the trace's id. It
/// is parsed from a text such as `https://jaeger.example/trace/{trace}`; blanks around the text are dropped.
///
/// # Example
/// ```
/// use triad_operator::operations::TraceUrl;
/// let at: TraceUrl = "https://jaeger.example/trace/{trace}".parse().unwrap();
/// let id = format!("{:032x}", 7);
/// assert_eq!(at.of(&id), format!("https://jaeger.example/trace/{id}"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceUrl {
    before: String,
    behind: String,
}

/// The error for a text that is not the template of a trace's address. A template begins with `http://` or
/// `https://` and a host, has `{trace}` exactly once, behind the host and a `/`, `?` or `#`, and has no blank
/// or control character in it. The error does not hold the text: a password may be in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "is not the address of a trace: http or https, a host, and {PLACE} once behind it, such as \
     https://jaeger.example/trace/{PLACE}"
)]
pub struct InvalidTraceUrl;

impl TraceUrl {
    /// The address of the trace with this id, which must be 32 hexadecimal digits; this is not checked.
    #[must_use]
    pub fn of(&self, trace_id: &str) -> String {
        format!("{}{trace_id}{}", self.before, self.behind)
    }
}

impl TryFrom<String> for TraceUrl {
    type Error = InvalidTraceUrl;

    fn try_from(text: String) -> Result<Self, InvalidTraceUrl> {
        text.parse()
    }
}

impl From<TraceUrl> for String {
    fn from(url: TraceUrl) -> Self {
        format!("{}{PLACE}{}", url.before, url.behind)
    }
}

impl FromStr for TraceUrl {
    type Err = InvalidTraceUrl;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let (before, behind) = text.split_once(PLACE).ok_or(InvalidTraceUrl)?;
        let schemes = ["https://", "http://"];
        let rest = schemes.iter().find_map(|s| before.strip_prefix(s));
        // The id must not be in the host part: it could lead the browser to another site.
        let host = rest.and_then(|rest| Some(rest.split_once(['/', '?', '#'])?.0));
        let is_plain = !text.contains(|c: char| c.is_control() || c.is_whitespace());
        let is_once = !behind.contains(PLACE);
        match host.is_some_and(|host| !host.is_empty()) && is_plain && is_once {
            true => Ok(Self {
                before: before.to_owned(),
                behind: behind.to_owned(),
            }),
            false => Err(InvalidTraceUrl),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_put_where_the_template_says() {
        for (template, address) in [
            (
                "http://127.0.0.1:16686/trace/{trace}",
                "http://127.0.0.1:16686/trace/0a",
            ),
            (
                "https://t.example?id={trace}&x={y}",
                "https://t.example?id=0a&x={y}",
            ),
        ] {
            let url: TraceUrl = template.parse().expect(template);
            assert_eq!(url.of("0a"), address);
        }
    }

    #[test]
    fn what_is_no_address_with_one_place_for_the_id_is_refused() {
        for wrong in [
            "",
            "https://jaeger.example/trace/",
            "https://jaeger.example/{trace}/{trace}",
            "jaeger.example/trace/{trace}",
            "javascript:alert({trace})",
            "ftp://jaeger.example/{trace}",
            "https://{trace}",
            "https://{trace}.example/",
            "https:///{trace}",
            "https://jaeger.example/a b/{trace}",
        ] {
            assert_eq!(wrong.parse::<TraceUrl>(), Err(InvalidTraceUrl), "{wrong}");
        }
    }
}
