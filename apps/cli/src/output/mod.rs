//! What the commands print, and how they end.
//!
//! | | |
//! |---|---|
//! | [`stream`] | writing, whatever has become of the reader |
//! | [`style`] | what a terminal gets and a pipe does not |
//! | [`command`], [`quoted`] | commands to be typed, and words for a shell |
//! | [`print`], [`summary`] | a JSON line a thing, and the last one, in the vocabulary of [`triad_operator::json`] |
//! | [`count`], [`shown`] | the last line for people |

mod shell;
pub mod stream;
mod style;

use std::fmt;

use anyhow::Result;
use serde::Serialize;
use serde_json::{Value, json};
pub use shell::{command, quoted};
pub use style::{Colour, init_style, print_field, relative_time, state, table};
pub use triad_operator::json::moment;

/// The error of a command whose options or files are wrong. The exit code is 2.
#[derive(Debug)]
pub struct Usage(
    /// The error, and the correct form.
    pub String,
);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Prints JSON as one line to standard output. If the reader has closed its end, that is no error.
///
/// # Errors
/// Any other fault of standard output.
pub fn print_line(value: &Value) -> Result<()> {
    stream::out(format_args!("{value}\n"));
    match stream::fault() {
        None => Ok(()),
        Some(why) => Err(anyhow::anyhow!("standard output: {why}")),
    }
}

/// Prints a value as a JSON line of this kind, with moments in RFC 3339.
///
/// # Errors
/// As [`print_line`]; never for a value with a JSON form.
pub fn print(kind: &str, value: &impl Serialize) -> Result<()> {
    print_line(&triad_operator::json::line(kind, value)?)
}

/// Prints the last line of a list for programs: the number of lines before it, and whether `--limit` cut off more.
/// `of` is the total, if known. `further` has the command's own fields.
///
/// # Errors
/// As [`print_line`].
pub fn summary(shown: usize, more: bool, of: Option<u64>, further: Value) -> Result<()> {
    let mut line = json!({"kind": "summary", "shown": shown, "more": more});
    if let Some(of) = of {
        line["of"] = of.into();
    }
    if let Value::Object(further) = further {
        for (name, value) in further {
            line[name] = value;
        }
    }
    print_line(&line)
}

/// A number of things for people: `no orders`, `1 order`, `1,200 orders`.
pub fn count(number: u64, one: &str, many: &str) -> String {
    match number {
        0 => format!("no {many}"),
        1 => format!("1 {one}"),
        _ => format!("{} {many}", thousands(number)),
    }
}

/// The last line of a list for people: the number shown, and whether the list was cut. `of` is the total, if known.
pub fn count_text(number: usize, more: bool, of: Option<u64>, one: &str, many: &str) -> String {
    let number = number as u64;
    match (more, of) {
        (false, _) => count(number, one, many),
        (true, Some(of)) => {
            let (number, of) = (thousands(number), thousands(of));
            format!("{number} of {of} {many} shown; --limit 0 for all")
        }
        (true, None) => {
            format!(
                "{} shown, and there are more; --limit 0 for all",
                count(number, one, many)
            )
        }
    }
}

/// The limit of a list from the value of `--limit`: 0 is no limit.
pub fn limit(option: usize) -> usize {
    if option == 0 { usize::MAX } else { option }
}

/// A number with a comma between thousands.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_counted_in_words() {
        assert_eq!(count(0, "order", "orders"), "no orders");
        assert_eq!(count(1, "order", "orders"), "1 order");
        assert_eq!(count(999, "order", "orders"), "999 orders");
        assert_eq!(count(1_200, "order", "orders"), "1,200 orders");
        assert_eq!(count(1_234_567, "order", "orders"), "1,234,567 orders");
    }

    #[test]
    fn a_list_that_is_cut_says_so_and_how_to_have_all() {
        let said = |more, of| count_text(100, more, of, "order", "orders");
        assert_eq!(said(false, None), "100 orders");
        assert_eq!(
            said(true, Some(1_200)),
            "100 of 1,200 orders shown; --limit 0 for all"
        );
        assert_eq!(
            said(true, None),
            "100 orders shown, and there are more; --limit 0 for all"
        );
        assert_eq!(limit(0), usize::MAX);
        assert_eq!(limit(7), 7);
    }
}
