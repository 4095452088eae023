//! Moments as authors and orders write them.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, TimeZone, Timelike};
pub use chrono_tz::Tz;

/// The error of [`moment`]: a text that names no moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoMoment(String);

impl fmt::Display for NoMoment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no moment: write it as 2026-12-24T08:00:00Z, 2026-12-24T08:00 or 2026-12-24",
            self.0
        )
    }
}

impl std::error::Error for NoMoment {}

/// A time zone by its name in the database of the IANA; UTC if there is no name.
pub(crate) fn zone(name: Option<&str>) -> Result<Tz, String> {
    name.map_or(Ok(Tz::UTC), |name| {
        name.parse()
            .map_err(|_| format!("there is no time zone {name:?}"))
    })
}

/// The moment that a text names, in milliseconds since 1970; one before 1970 is 0.
///
/// The text is a date with a time and an offset (RFC 3339), a date with a time, or a date, which means its first moment.
/// One without an offset is of the time zone. A time that a zone passes over, when its clocks are put forward, means the
/// first moment after the gap; one that it has twice means the first of the two.
///
/// # Errors
/// [`NoMoment`] if the text has none of these forms.
///
/// # Example
/// ```
/// use triad_workflow::moment::moment;
/// let paris = "Europe/Paris".parse().unwrap();
/// let utc = moment("2026-07-01T06:00:00Z", paris).unwrap();
/// assert_eq!(moment("2026-07-01T08:00", paris).unwrap(), utc);
/// assert!(moment("tomorrow", paris).is_err());
/// ```
pub fn moment(text: &str, zone: Tz) -> Result<u64, NoMoment> {
    let wrong = || NoMoment(text.chars().take(64).collect());
    let text = text.trim();
    if let Ok(exact) = DateTime::parse_from_rfc3339(text) {
        return Ok(since_1970(exact.timestamp_millis()));
    }
    let forms = [
        "%Y-%m-%dT%H:%M:%S%.f",
        "%Y-%m-%dT%H:%M",
        "%Y-%m-%d %H:%M:%S%.f",
        "%Y-%m-%d %H:%M",
    ];
    let mut read = forms
        .iter()
        .filter_map(|form| NaiveDateTime::parse_from_str(text, form).ok());
    let date = || {
        Some(
            NaiveDate::parse_from_str(text, "%Y-%m-%d")
                .ok()?
                .and_time(NaiveTime::MIN),
        )
    };
    let local = read.next().or_else(date).ok_or_else(wrong)?;
    let found = in_zone(local, zone).ok_or_else(wrong)?;
    Ok(since_1970(found.timestamp_millis()))
}

/// A moment, in milliseconds since 1970, as RFC 3339 has it: in UTC, with three decimals. One behind the year 9999 becomes
/// its end.
#[must_use]
pub fn text(since_1970: u64) -> String {
    let since_1970 = Duration::from_millis(since_1970.min(LAST));
    humantime::format_rfc3339_millis(UNIX_EPOCH + since_1970).to_string()
}

/// The last millisecond of the year 9999, behind which RFC 3339 has no moments.
const LAST: u64 = 253_402_300_799_999;

/// The first moment at which the clocks of a zone show a time, or, if they pass over it, that at which they show more.
fn in_zone(local: NaiveDateTime, zone: Tz) -> Option<DateTime<Tz>> {
    if let Some(at) = zone.from_local_datetime(&local).earliest() {
        return Some(at);
    }
    let whole = local.with_second(0)?.with_nanosecond(0)?;
    let mut minutes =
        (1..=MAX_GAP_MINUTES).map(|n| whole.checked_add_signed(TimeDelta::minutes(n)));
    minutes.find_map(|later| zone.from_local_datetime(&later?).earliest())
}

/// The longest time that a zone has passed over: Samoa left out a day.
const MAX_GAP_MINUTES: i64 = 24 * 60;

fn since_1970(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, zone: &str) -> String {
        let zone = zone.parse().expect("a zone");
        let ms = moment(text, zone).expect(text);
        let at = DateTime::from_timestamp_millis(i64::try_from(ms).expect("small"));
        at.expect("a moment").to_rfc3339()
    }

    #[test]
    fn a_text_without_an_offset_is_of_the_zone() {
        assert_eq!(
            at("2026-12-24", "Europe/Paris"),
            "2026-12-23T23:00:00+00:00"
        );
        assert_eq!(at("2026-12-24T08:00", "UTC"), "2026-12-24T08:00:00+00:00");
        assert_eq!(
            at("2026-12-24 08:00:01", "UTC"),
            "2026-12-24T08:00:01+00:00"
        );
        let exact = at("2026-12-24T08:00:00+05:30", "Europe/Paris");
        assert_eq!(exact, "2026-12-24T02:30:00+00:00", "its own offset counts");
        assert_eq!(at("1066-10-14", "UTC"), "1970-01-01T00:00:00+00:00");
    }

    #[test]
    fn where_clocks_are_put_forward_the_gap_is_passed_over_and_where_they_are_put_back_the_first_counts()
     {
        // 02:00 to 03:00 does not exist on 2026-03-29 and comes twice on 2026-10-25.
        assert_eq!(
            at("2026-03-29T02:30", "Europe/Paris"),
            "2026-03-29T01:00:00+00:00"
        );
        assert_eq!(
            at("2026-10-25T02:30", "Europe/Paris"),
            "2026-10-25T00:30:00+00:00"
        );
        // Samoa had no 2011-12-30.
        assert_eq!(
            at("2011-12-30T12:00", "Pacific/Apia"),
            "2011-12-30T10:00:00+00:00"
        );
    }

    #[test]
    fn other_texts_are_refused() {
        for wrong in [
            "",
            "tomorrow",
            "24.12.2026",
            "2026-13-01",
            "2026-12-24T25:00",
            "1767225600",
        ] {
            assert!(moment(wrong, Tz::UTC).is_err(), "{wrong}");
        }
    }
}
