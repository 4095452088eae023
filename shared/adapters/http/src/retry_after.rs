//! `Retry-After` (RFC 9110, section 10.2.3).

use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use triad_workflow::Millis;

/// The wait that an answer asks for: seconds, also with a fraction, or a date. A date is compared with the answer's
/// own `Date`, so that a difference of the clocks does not matter, or with `now` if it has none. Rounded up to whole
/// milliseconds; `None` if the header is missing or says neither.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Millis> {
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let asked = text(RETRY_AFTER)?;
    if let Some(wait) = seconds(asked) {
        return Some(wait);
    }
    let until = httpdate::parse_http_date(asked).ok()?;
    let date = text(DATE).and_then(|date| httpdate::parse_http_date(date).ok());
    let wait = until
        .duration_since(date.unwrap_or(now))
        .unwrap_or_default();
    // Dates have whole seconds: the second of the answer's may be almost over.
    let least = match date {
        Some(_) => wait,
        None => wait + Duration::from_millis(1),
    };
    Some(millis(least))
}

fn seconds(text: &str) -> Option<Millis> {
    let is_number = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let begins = text.starts_with(|c: char| c.is_ascii_digit());
    if !is_number || !begins {
        return None;
    }
    let seconds: f64 = text.parse().ok()?;
    // A float above what a `u64` holds becomes its largest value.
    Some(Millis((seconds * 1_000.0).ceil() as u64))
}

fn millis(wait: Duration) -> Millis {
    let up = wait.as_nanos().div_ceil(1_000_000);
    Millis(u64::try_from(up).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_a_wait_and_nothing_else_is() {
        let now = httpdate::parse_http_date("Fri, 27 Nov 2026 10:00:00 GMT").expect("a date");
        let later = "Fri, 27 Nov 2026 10:00:08 GMT";
        for (asked, date, wait) in [
            ("8", None, Some(8_000)),
            (" 8 ", None, Some(8_000)),
            ("7.5", None, Some(7_500)),
            ("0.0001", None, Some(1)),
            ("0", None, Some(0)),
            ("99999999999999999999", None, Some(u64::MAX)),
            (later, None, Some(8_001)),
            (later, Some("Fri, 27 Nov 2026 10:00:02 GMT"), Some(6_000)),
            (later, Some("no date"), Some(8_001)),
            ("Friday, 27-Nov-26 10:00:08 GMT", None, Some(8_001)),
            ("Fri Nov 27 10:00:08 2026", None, Some(8_001)),
            ("Fri, 27 Nov 2026 09:00:00 GMT", None, Some(1)),
            ("soon", None, None),
            ("-5", None, None),
            ("1e3", None, None),
            (".5", None, None),
            ("", None, None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, asked.parse().expect("a value"));
            if let Some(date) = date {
                headers.insert(DATE, date.parse().expect("a value"));
            }
            assert_eq!(
                retry_after(&headers, now),
                wait.map(Millis),
                "{asked:?} {date:?}"
            );
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }
}
