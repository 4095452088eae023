//! Numbers that would change when they are read: whole numbers beyond 64 bits, which the parser turns into the
//! nearest floating-point number.

/// Path of the first whole number in a JSON text that does not fit 64 bits, such as `details.sum` or `[2].id`; `None`
/// if all fit. Those from -2^63 to 2^64-1 fit. For a text that is not JSON the result may be `None`.
///
/// # Example
/// ```
/// use triad_workflow::numbers::beyond_64_bits;
/// assert_eq!(beyond_64_bits(r#"{"sum": 18446744073709551615}"#), None);
/// let place = beyond_64_bits(r#"{"all": [{"sum": 1}, {"sum": 18446744073709551616}]}"#);
/// assert_eq!(place.as_deref(), Some("all[1].sum"));
/// ```
#[must_use]
pub fn beyond_64_bits(json: &str) -> Option<String> {
    let mut rest = json;
    let mut within: Vec<Within<'_>> = Vec::new();
    let mut last_text = "";
    while let Some(first) = rest.bytes().next() {
        let length = match first {
            b'"' => {
                let length = text_length(rest);
                last_text = rest.get(1..length - 1).unwrap_or_default();
                length
            }
            b'-' | b'0'..=b'9' => {
                let is_of_number = |c: char| matches!(c, '-' | '+' | '.' | 'e' | 'E' | '0'..='9');
                let length = rest.find(|c| !is_of_number(c)).unwrap_or(rest.len());
                if !fits(&rest[..length]) {
                    return Some(path(&within));
                }
                length
            }
            c => {
                match (c, within.last_mut()) {
                    (b'{', _) => within.push(Within::Key("")),
                    (b'[', _) => within.push(Within::At(0)),
                    (b'}' | b']', _) => {
                        within.pop();
                    }
                    (b':', Some(Within::Key(key))) => *key = last_text,
                    (b',', Some(Within::At(at))) => *at += 1,
                    _ => {}
                }
                rest.chars().next().map_or(1, char::len_utf8)
            }
        };
        rest = &rest[length..];
    }
    None
}

/// The container of a value: a field of an object, or an element of a list.
enum Within<'a> {
    Key(&'a str),
    At(usize),
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

fn fits(number: &str) -> bool {
    let is_whole = !number.contains(['.', 'e', 'E']);
    !is_whole || number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok()
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
    use super::beyond_64_bits;

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
            ("99999999999999999999.5", None),
            (r#"{"é": [99999999999999999999]}"#, Some("é[0]")),
            ("\"99", None),
            ("\"", None),
        ] {
            assert_eq!(beyond_64_bits(json).as_deref(), place, "{json}");
        }
    }
}
