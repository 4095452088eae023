//! Makes text from outside safe to show: it cannot control a terminal or a browser.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text with every control character, and every character that is invisible or changes the direction in which
/// others are shown, written as JSON escapes it: `\u001b`, `\u202e`. JSON therefore stays the same JSON. The
/// characters of `kept`, such as line breaks, stay as they are.
///
/// # Example
/// ```
/// use triad_operator::visible_text::visible;
/// assert_eq!(visible("a\u{1b}[2J\n\u{202e}b", "\n"), "a\\u001b[2J\n\\u202eb");
/// ```
#[must_use]
pub fn visible<'a>(text: &'a str, kept: &str) -> Cow<'a, str> {
    let is_plain = |c: char| kept.contains(c) || !(c.is_control() || is_invisible(c));
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_plain(c) {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a `String` cannot fail.
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
    Cow::Owned(shown)
}

/// Invisible characters, and those that change how others are shown: joiners, marks, directions, tags.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_a_terminal_or_a_browser_would_obey_is_shown() {
        for (text, shown) in [
            ("\u{1b}]0;title\u{7}", "\\u001b]0;title\\u0007"),
            ("\u{9b}1m\r\u{7f}", "\\u009b1m\\u000d\\u007f"),
            ("\u{2066}a\u{2069}\u{61c}", "\\u2066a\\u2069\\u061c"),
            ("\u{e0041}", "\\udb40\\udc41"),
            ("größe 漢 \n\t", "größe 漢 \n\t"),
        ] {
            assert_eq!(visible(text, "\n\t"), shown);
        }
    }

    #[test]
    fn json_stays_the_same_json() {
        let value = json!({"a\u{202e}": "\u{1b}[2J \u{9b} \u{e0041} \u{7f}"});
        let text = value.to_string();
        let shown = visible(&text, "");
        assert_ne!(shown, text);
        assert_eq!(
            serde_json::from_str::<Value>(&shown).expect("it is JSON"),
            value
        );
    }
}
