//! Durations as authors write them (`250ms`, `10s`, `2h`) and as the core counts them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A span of time in whole milliseconds.
///
/// In definitions it is written as `250ms`, `10s`, `5m` or `2h 30m`. It is printed in one such form, so that a
/// definition's canonical form does not depend on how its author spelled a span. Reading any other text, or a span
/// above [`MAX_SPAN`], is an error; fractions of a millisecond are cut off.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Millis(pub u64);

/// Longest span that a definition may name, inclusive: 366 days.
pub const MAX_SPAN: Millis = Millis(366 * 24 * 3_600_000);

impl Millis {
    /// The same span as a [`Duration`] of the standard library.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl From<Duration> for Millis {
    fn from(d: Duration) -> Self {
        Self(u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Why a text is not read as a span of time. The text is the first field.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidSpan {
    /// The text is not a span; the second field says why.
    #[error("{0:?} is not a duration such as 250ms, 10s or 5m: {1}")]
    Form(String, humantime::DurationError),
    /// The text has `M`, which is months and hardly ever meant.
    #[error("{0:?} would be months: write `m` for minutes")]
    Months(String),
    /// The span is longer than [`MAX_SPAN`].
    #[error("{0:?} is longer than 366 days")]
    TooLong(String),
}

impl FromStr for Millis {
    type Err = InvalidSpan;

    fn from_str(text: &str) -> Result<Self, InvalidSpan> {
        if text.contains('M') {
            return Err(InvalidSpan::Months(text.to_owned()));
        }
        let span = humantime::parse_duration(text);
        let span = Self::from(span.map_err(|e| InvalidSpan::Form(text.to_owned(), e))?);
        match span > MAX_SPAN {
            true => Err(InvalidSpan::TooLong(text.to_owned())),
            false => Ok(span),
        }
    }
}

impl TryFrom<String> for Millis {
    type Error = InvalidSpan;

    fn try_from(text: String) -> Result<Self, InvalidSpan> {
        text.parse()
    }
}

impl From<Millis> for String {
    fn from(span: Millis) -> String {
        span.to_string()
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.as_duration()).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_span_have_one_canonical_form() {
        let a = Millis::try_from("1500ms".to_owned()).unwrap();
        let b = Millis::try_from("1s 500ms".to_owned()).unwrap();
        assert_eq!(a, b);
        assert_eq!(a.to_string(), "1s 500ms");
    }

    #[test]
    fn nonsense_and_the_boundless_are_refused() {
        assert!(Millis::try_from("soon".to_owned()).is_err());
        assert!(Millis::try_from("10".to_owned()).is_err());
        assert!(Millis::try_from("400days".to_owned()).is_err());
        let months = Millis::try_from("5M".to_owned()).unwrap_err();
        assert_eq!(
            months.to_string(),
            "\"5M\" would be months: write `m` for minutes"
        );
        let long = Millis(40 * 24 * 3_600_000);
        assert_eq!(
            Millis::try_from(long.to_string()),
            Ok(long),
            "what is printed is read"
        );
    }
}
