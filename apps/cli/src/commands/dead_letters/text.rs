//! Shows bytes from outside so that they cannot control the terminal.

use std::fmt::Write as _;

use serde_json::Value;
use triad_operator::visible_text::visible;

/// Most bytes of a value that are shown, inclusive: the first of a longer one.
pub const MAX_SHOWN: usize = 4096;
/// Bytes in one line of a hex dump.
const LINE: usize = 16;

/// A text on one line: control characters, line breaks included, and invisible characters are escaped.
pub fn line(text: &str) -> String {
    visible(text, "").into_owned()
}

/// The text of [`line()`], cut to at most `most` characters; a text that was cut ends in `…`.
pub fn short(text: &str, most: usize) -> String {
    let shown = line(text);
    if shown.chars().count() <= most {
        return shown;
    }
    let cut: String = shown.chars().take(most.saturating_sub(1)).collect();
    format!("{cut}…")
}

/// Bytes on one line: as by [`line()`] if they are UTF-8, else `0x` and two hex digits for each
/// byte.
pub fn bytes(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => line(text),
        Err(_) => bytes.iter().fold("0x".to_owned(), |mut hex, b| {
            let _ = write!(hex, "{b:02x}");
            hex
        }),
    }
}

/// What a value is (`JSON`, `text, not JSON` or `not UTF-8`), and the value over several lines:
/// indented if it is JSON, escaped if it is text, a hex dump otherwise. At most [`MAX_SHOWN`] bytes
/// are shown, and a last line says how many were left out.
pub fn value(of: &[u8]) -> (&'static str, String) {
    if let Ok(json) = serde_json::from_slice::<Value>(of) {
        let pretty = serde_json::to_string_pretty(&json).unwrap_or_default();
        return ("JSON", cut(&visible(&pretty, "\n")));
    }
    match std::str::from_utf8(of) {
        Ok(text) => ("text, not JSON", cut(&visible(text, "\n"))),
        Err(_) => {
            let shown = &of[..of.len().min(MAX_SHOWN)];
            let mut dump = String::new();
            for (at, part) in shown.chunks(LINE).enumerate() {
                let hex: Vec<String> = part.iter().map(|b| format!("{b:02x}")).collect();
                let text: String = part.iter().map(|b| printable(*b)).collect();
                let _ = writeln!(dump, "{:08x}  {:<47}  {text}", at * LINE, hex.join(" "));
            }
            if shown.len() < of.len() {
                let _ = writeln!(dump, "… and {} bytes more", of.len() - shown.len());
            }
            ("not UTF-8", dump.trim_end().to_owned())
        }
    }
}

fn printable(byte: u8) -> char {
    match byte {
        0x20..=0x7e => char::from(byte),
        _ => '.',
    }
}

fn cut(text: &str) -> String {
    let shown = triad_core::failure::cut(text, MAX_SHOWN);
    match text.len() - shown.len() {
        0 => shown,
        more => format!("{shown}\n… and {more} bytes more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_as_a_command() {
        let shown = line("a\u{1b}[2J\u{9b}1m\n\u{202e}b");
        assert_eq!(shown, "a\\u001b[2J\\u009b1m\\u000a\\u202eb");
        let (_, shown) = value(b"\x1b]0;title\x07\nnext");
        assert_eq!(shown, "\\u001b]0;title\\u0007\nnext");
        let (_, shown) = value("{\"a\": \"\u{9b}\"}".as_bytes());
        assert!(!shown.contains('\u{9b}'), "{shown}");
    }

    #[test]
    fn values_are_shown_as_what_they_are() {
        assert_eq!(value(b"{\"a\":1}"), ("JSON", "{\n  \"a\": 1\n}".to_owned()));
        assert_eq!(value(b"{oops"), ("text, not JSON", "{oops".to_owned()));
        let (what, dump) = value(&[b'A', 0xff, 0]);
        assert_eq!(what, "not UTF-8");
        assert!(
            dump.starts_with("00000000  41 ff 00 ") && dump.ends_with("A.."),
            "{dump}"
        );
    }

    #[test]
    fn long_values_are_cut_and_say_so() {
        let long = vec![b'x'; MAX_SHOWN + 10];
        assert!(value(&long).1.ends_with("… and 10 bytes more"));
        let odd = vec![0xff; MAX_SHOWN + 10];
        assert!(value(&odd).1.ends_with("… and 10 bytes more"));
        assert_eq!(short("abcdef", 4), "abc…");
    }
}
