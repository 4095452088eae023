//! Numbers that would change when they are read.
//!
//! JSON has numbers of any length. The parser keeps whole ones of up to 64 bits as they are, and turns all others into
//! the nearest floating-point number, which has 15 to 17 significant digits.

use std::borrow::Cow;
use std::ops::Range;

/// Path of the first number in a JSON text that would be rounded, such as `details.sum` or `[2].id`; `None` if all are
/// kept. Kept are whole numbers from -2^63 to 2^64-1, and others whose digits are those of the shortest text of the
/// nearest floating-point number: up to 15 significant digits always, between 1e-307 and 1e308. Zeros before and behind
/// the digits do not count. For a text that is not JSON the result may be `None`. The work is linear in the text.
///
/// # Example
/// ```
/// use triad_workflow::numbers::altered;
/// assert_eq!(altered(r#"{"sum": 18446744073709551615, "tax": 19.90}"#), None);
/// let place = altered(r#"{"all": [{"sum": 1}, {"sum": 18446744073709551616}]}"#);
/// assert_eq!(place.as_deref(), Some("all[1].sum"));
/// assert_eq!(altered(r#"{"rate": 0.12345678901234567890}"#).as_deref(), Some("rate"));
/// ```
#[must_use]
pub fn altered(json: &str) -> Option<String> {
    let mut scan = Scan::of(json);
    scan.next_altered().map(|_| path(&scan.within))
}

/// The same JSON text with quotes around each number that would be rounded, as [`altered`] has it, so that its digits
/// are kept as a text. The work is linear in the text.
///
/// # Example
/// ```
/// use triad_workflow::numbers::quoted;
/// let answer = r#"{"id": 12345678901234567890123, "sum": 19.9}"#;
/// assert_eq!(quoted(answer), r#"{"id": "12345678901234567890123", "sum": 19.9}"#);
/// ```
#[must_use]
pub fn quoted(json: &str) -> Cow<'_, str> {
    let mut scan = Scan::of(json);
    let mut text = String::new();
    let mut copied = 0;
    while let Some(number) = scan.next_altered() {
        text.extend([
            &json[copied..number.start],
            "\"",
            &json[number.clone()],
            "\"",
        ]);
        copied = number.end;
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    text.push_str(&json[copied..]);
    Cow::Owned(text)
}

/// Goes through the parts of a JSON text.
struct Scan<'a> {
    json: &'a str,
    /// Bytes that are done.
    at: usize,
    /// The containers that are open here.
    within: Vec<Within<'a>>,
    last_text: &'a str,
}

/// The container of a value: a field of an object, or an element of a list.
enum Within<'a> {
    Key(&'a str),
    At(usize),
}

impl<'a> Scan<'a> {
    fn of(json: &'a str) -> Self {
        Self {
            json,
            at: 0,
            within: Vec::new(),
            last_text: "",
        }
    }

    /// Where the next number that would be rounded stands.
    fn next_altered(&mut self) -> Option<Range<usize>> {
        loop {
            let begin = self.at;
            let rest = &self.json[begin..];
            let first = rest.bytes().next()?;
            let length = match first {
                b'"' => {
                    let length = text_length(rest);
                    self.last_text = rest.get(1..length - 1).unwrap_or_default();
                    length
                }
                b'-' | b'0'..=b'9' => {
                    let is_of_number =
                        |c: char| matches!(c, '-' | '+' | '.' | 'e' | 'E' | '0'..='9');
                    let length = rest.find(|c| !is_of_number(c)).unwrap_or(rest.len());
                    if !is_kept(&rest[..length]) {
                        self.at += length;
                        return Some(begin..self.at);
                    }
                    length
                }
                c => {
                    match (c, self.within.last_mut()) {
                        (b'{', _) => self.within.push(Within::Key("")),
                        (b'[', _) => self.within.push(Within::At(0)),
                        (b'}' | b']', _) => {
                            self.within.pop();
                        }
                        (b':', Some(Within::Key(key))) => *key = self.last_text,
                        (b',', Some(Within::At(at))) => *at += 1,
                        _ => {}
                    }
                    rest.chars().next().map_or(1, char::len_utf8)
                }
            };
            self.at += length;
        }
    }
}

/// Length in bytes of the text that begins here, including its quotes.
fn text_length(json: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in json.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    json.len()
}

/// Whether a number is read as it is written.
fn is_kept(number: &str) -> bool {
    if !number.contains(['.', 'e', 'E']) {
        return number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
    }
    match number.parse::<f64>() {
        Ok(read) if read.is_finite() => digits(number) == digits(&shortest(read)),
        Ok(_) => false,
        // It is not JSON.
        Err(_) => true,
    }
}

/// The shortest text of a floating-point number that is read as the same one, as JSON writes it; `null` if it is
/// infinite or not a number.
pub(crate) fn shortest(number: f64) -> String {
    serde_json::Value::from(number).to_string()
}

/// The digits of a number from the first to the last that is not 0, and the power of ten of the last one. It is `None`
/// for zero, whatever its exponent.
fn digits(number: &str) -> Option<(Vec<u8>, i64)> {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let all: Vec<u8> = whole
        .bytes()
        .chain(fraction.bytes())
        .filter(is_digit)
        .collect();
    let first = all.iter().position(|digit| *digit != b'0')?;
    let last = all.iter().rposition(|digit| *digit != b'0')?;
    // An exponent beyond 64 bits is read as infinite, or as zero, which has no digits.
    let exponent: i64 = exponent.parse().unwrap_or_default();
    let behind = all.len() - 1 - last;
    let power = exponent.saturating_add_unsigned(behind as u64);
    let power = power.saturating_sub_unsigned(fraction.len() as u64);
    Some((all[first..=last].to_vec(), power))
}

fn path(within: &[Within<'_>]) -> String {
    let mut path = String::new();
    for part in within {
        match part {
            Within::Key(key) if path.is_empty() => path.push_str(key),
            Within::Key(key) => path.extend([".", key]),
            Within::At(at) => path.push_str(&format!("[{at}]")),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_beyond_64_bits_are_found_and_nothing_else_is() {
        for (json, place) in [
            ("18446744073709551615", None),
            ("-9223372036854775808", None),
            ("18446744073709551616", Some("")),
            ("-9223372036854775809", Some("")),
            ("[1, 18446744073709551616]", Some("[1]")),
            (
                r#"{"a": {"b": [0, {"c": 99999999999999999999}]}}"#,
                Some("a.b[1].c"),
            ),
            (r#"{"a": [1, 2], "b": 99999999999999999999}"#, Some("b")),
            (r#"{"a\"": 99999999999999999999}"#, Some("a\\\"")),
            (
                r#"{"a": "99999999999999999999", "99999999999999999999": 1}"#,
                None,
            ),
            (r#"{"a": "\\", "b": "\"99999999999999999999"}"#, None),
            ("1e300", None),
            (r#"{"é": [99999999999999999999]}"#, Some("é[0]")),
            ("\"99", None),
            ("\"", None),
        ] {
            assert_eq!(altered(json).as_deref(), place, "{json}");
        }
    }

    const KEPT: [&str; 24] = [
        "0.1",
        "1.10",
        "-19.99",
        "1e2",
        "1E+2",
        "1e-2",
        "0.0",
        "-0.0e5",
        "0e999999999999999999999",
        "123456789012.345",
        "0.00000123456789012345",
        "1234567890123450000.0",
        "0.30000000000000004",
        "1.7976931348623157e308",
        "5e-324",
        "2.2250738585072014e-308",
        "1000000000000000000000.000",
        "12.50e-3",
        "0.1e1",
        "9007199254740993",
        "100.0e20",
        "0.0000000000000000000000000001",
        "99999999999999.9",
        "1.000000000000000000000000000000000000000000",
    ];

    const ALTERED: [&str; 16] = [
        "99999999999999999999.5",
        "0.12345678901234567890",
        "1e400",
        "-1e400",
        "1e-400",
        "9007199254740993.0",
        "12345678901234567890e0",
        "1e99999999999999999999999",
        "1e-99999999999999999999999",
        "0.10000000000000000001",
        "1.23456789e-320",
        "0.1000000000000000055511151231257827",
        "123456789012345678.90",
        "1.7976931348623157e309",
        "100000000000000000.01",
        "12345678901234567890123",
    ];

    #[test]
    fn a_number_whose_digits_are_not_kept_is_found() {
        for number in KEPT {
            assert_eq!(altered(number), None, "{number}");
        }
        for number in ALTERED {
            assert_eq!(altered(number).as_deref(), Some(""), "{number}");
        }
    }

    /// The parser's numbers, written again, have the digits of every number that counts as kept.
    #[test]
    fn kept_is_what_the_parser_keeps() {
        let mut all: Vec<String> = KEPT.map(str::to_owned).to_vec();
        let mut state: u64 = 1;
        for round in 0..20_000_u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(round | 1);
            let exponent = (state >> 7) % 616;
            let count = 1 + state % 17;
            let digits = state.to_string();
            let digits = &digits[..digits.len().min(count as usize)];
            all.push(
                format!(
                    "{}.{}e{}",
                    &digits[..1],
                    &digits[1..],
                    exponent as i64 - 308
                )
                .replace(".e", "e"),
            );
            all.push(
                format!("{:e}", f64::from_bits(state))
                    .replace("NaN", "1")
                    .replace("inf", "1"),
            );
        }
        let mut kept = 0;
        for number in all.iter().filter(|number| altered(number).is_none()) {
            kept += 1;
            let read: serde_json::Value = serde_json::from_str(number).expect(number);
            assert_eq!(
                digits(&read.to_string()),
                digits(number),
                "{number}: {read}"
            );
        }
        assert!(kept > 30_000, "{kept}");
    }

    #[test]
    fn what_would_be_rounded_is_put_in_quotes_and_all_else_stays() {
        for (json, wanted) in [
            (
                r#"{"id": 12345678901234567890123, "a": [1, 0.12345678901234567890 ]}"#,
                r#"{"id": "12345678901234567890123", "a": [1, "0.12345678901234567890" ]}"#,
            ),
            ("1e400", "\"1e400\""),
            ("[99999999999999999999]", "[\"99999999999999999999\"]"),
            (
                r#"{"99999999999999999999": "x 99999999999999999999 \" 99999999999999999999"}"#,
                r#"{"99999999999999999999": "x 99999999999999999999 \" 99999999999999999999"}"#,
            ),
            (
                "[19.90, 18446744073709551615]",
                "[19.90, 18446744073709551615]",
            ),
            ("é 99999999999999999999 é", "é \"99999999999999999999\" é"),
            ("", ""),
        ] {
            let found = quoted(json);
            assert_eq!(found, wanted, "{json}");
            assert_eq!(matches!(found, Cow::Borrowed(_)), json == wanted, "{json}");
            assert_eq!(altered(&found), None, "{json}");
        }
    }

    #[test]
    fn long_numbers_and_many_of_them_take_linear_time() {
        let long = format!("[{}.{}]", "1".repeat(200_000), "2".repeat(200_000));
        assert_eq!(altered(&long).as_deref(), Some("[0]"));
        let many = format!("[{}1]", "0.12345678901234567890,".repeat(20_000));
        assert_eq!(quoted(&many).len(), many.len() + 40_000);
        let deep = "[".repeat(200_000);
        assert_eq!(altered(&deep), None);
    }
}
