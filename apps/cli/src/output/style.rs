//! Output on a terminal: tables that fit, colours, and relative times.
//!
//! Output into a pipe or a file is the same on every machine and at every time.

use std::borrow::Cow;
use std::io::IsTerminal;
use std::sync::OnceLock;

use clap::ValueEnum;
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, Color, ColumnConstraint, ContentArrangement, Width};
use triad_bootstrap::environment;
use triad_core::Timestamp;
use triad_operator::visible_text::visible;
use triad_workflow::Millis;

use super::{moment, stream};

/// When the command line uses colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal, unless the variable NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Debug, Clone, Copy)]
struct Style {
    terminal: bool,
    colours: bool,
}

static STYLE: OnceLock<Style> = OnceLock::new();

/// Sets the style of all output, once, before anything is printed. Without a call, output is as into a pipe.
pub fn init_style(colour: Colour) {
    let terminal = std::io::stdout().is_terminal();
    let colours = match colour {
        Colour::Always => true,
        Colour::Never => false,
        // <https://no-color.org>: set to anything but an empty text.
        Colour::Auto => terminal && environment("NO_COLOR").is_none(),
    };
    // Set once.
    let _ = STYLE.set(Style { terminal, colours });
}

fn style() -> Style {
    let plain = Style {
        terminal: false,
        colours: false,
    };
    STYLE.get().copied().unwrap_or(plain)
}

/// A table for people. Its own colours are the only control characters in it.
pub struct Table(comfy_table::Table);

impl Table {
    /// Adds a row. A cell with control characters shows them, and has no colour.
    pub fn add_row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let shown = |cell: C| {
            let cell = cell.into();
            match visible(&cell.content(), "\n") {
                Cow::Borrowed(_) => cell,
                Cow::Owned(shown) => Cell::new(shown),
            }
        };
        self.0.add_row(cells.into_iter().map(shown));
    }

    /// Prints it.
    pub fn print(&self) {
        stream::styled(format_args!("{}\n", self.0));
    }
}

/// A table with a header and without lines. On a terminal it is at most as wide as the terminal: longer cells wrap.
/// In a pipe each row is one line.
pub fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = comfy_table::Table::new();
    table.load_style(NOTHING).set_header(header);
    if style().terminal {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    } else {
        table.force_no_tty();
    }
    if style().colours {
        table.enforce_styling();
    }
    Table(table)
}

/// Width of a field's head, with the blank behind it.
const HEAD: u16 = 11;

/// Prints a head of at most ten characters and a text beside it, which may be long: on a terminal it wraps below
/// itself, in a pipe it is one line.
pub fn print_field(head: &str, text: &str) {
    if !style().terminal {
        stream::styled(format_args!("{head:<10} {}\n", visible(text, "")));
        return;
    }
    let mut field = comfy_table::Table::new();
    field
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .add_row([head.to_owned(), visible(text, "").into_owned()]);
    let widths = [Some(HEAD), None];
    for (column, width) in field.column_iter_mut().zip(widths) {
        column.set_padding((0, 0));
        if let Some(width) = width {
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
        }
    }
    stream::styled(format_args!("{field}\n"));
}

/// The name of a process state, or of a breaker's state, in a colour: red if it needs an operator, yellow if it did
/// not end well or waits.
pub fn state(name: &str) -> Cell {
    let cell = Cell::new(name);
    if !style().colours {
        return cell;
    }
    let first = name.split(' ').next().unwrap_or(name);
    match first {
        "Error" | "CompensationFailed" | "down" => cell.fg(Color::Red),
        "Compensating" | "Compensated" | "tried" => cell.fg(Color::Yellow),
        "Processed" | "reachable" => cell.fg(Color::Green),
        _ => cell,
    }
}

/// A moment: on a terminal relative to `now`, such as `3m ago`, else in the form of [`moment`].
pub fn relative_time(at: Timestamp, now: Timestamp) -> String {
    if style().terminal {
        relative(at, now)
    } else {
        moment(at)
    }
}

/// The distance of a moment from `now`, in its largest unit.
fn relative(at: Timestamp, now: Timestamp) -> String {
    match (now.since(at), at.since(now)) {
        (Millis(0), Millis(0)) => "now".to_owned(),
        (Millis(0), ahead) => format!("in {}", largest(ahead)),
        (ago, _) => format!("{} ago", largest(ago)),
    }
}

fn largest(Millis(ms): Millis) -> String {
    const UNITS: [(u64, &str); 4] = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1_000, "s"),
    ];
    let unit = UNITS.iter().find(|(length, _)| ms >= *length);
    unit.map_or_else(
        || "1s".to_owned(),
        |(length, name)| format!("{}{name}", ms / length),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_of_a_table_acts_on_no_terminal() {
        let mut table = table(["Cause"]);
        table.add_row(["\u{1b}]0;title\u{7}\u{202e}x"]);
        let shown = table.0.to_string();
        assert!(shown.contains("\\u001b]0;title\\u0007\\u202ex"), "{shown}");
    }

    #[test]
    fn how_long_ago_is_told_in_the_largest_unit() {
        let now = Timestamp(1_000_000_000);
        for (ms, text) in [
            (0, "now"),
            (999, "1s ago"),
            (59_999, "59s ago"),
            (60_000, "1m ago"),
            (7_199_999, "1h ago"),
            (90_000_000, "1d ago"),
            (864_000_000, "10d ago"),
        ] {
            assert_eq!(relative(now.minus(Millis(ms)), now), text);
        }
        assert_eq!(relative(now.plus(Millis(120_000)), now), "in 2m");
    }
}
