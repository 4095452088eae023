//! Progress of a long command.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use triad_operator::moving::MovedCounts;

/// Interval between two updates of the line.
const EVERY: Duration = Duration::from_millis(100);

/// A line on standard error, if that is a terminal and JSON is not requested.
pub struct Progress(ProgressBar);

impl Progress {
    /// Shows the line; hidden if `quiet`, or if standard error is not a terminal.
    pub fn new(quiet: bool) -> Self {
        if quiet || !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(EVERY);
        Self(bar)
    }

    /// Updates the text.
    pub fn say(&self, text: String) {
        self.0.set_message(text);
    }

    /// Shows how much of a file is done.
    pub fn counts(&self, doing: &str, counts: MovedCounts) {
        let (orders, messages) = (counts.orders, counts.submissions + counts.replies);
        self.say(format!("{doing}: {orders} orders, {messages} messages"));
    }

    /// Removes the line.
    pub fn end(&self) {
        self.0.finish_and_clear();
    }
}
