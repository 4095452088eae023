//! What a running `triad dev` says: lines for people, or one JSON object a line.

use serde_json::{Value, json};

use crate::output::print_line;

/// How to say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Say {
    /// Lines for people, on standard output.
    Text,
    /// JSON lines on standard output, what services print on standard error.
    Json,
}

impl Say {
    /// Something that happened, as text for people and as JSON for programs.
    pub fn event(self, text: &str, json: &Value) {
        match self {
            Self::Text => println!("{text}"),
            // Whoever reads no more needs no more.
            Self::Json => drop(print_line(json)),
        }
    }

    /// Something that is not as it should be, and that somebody may want to mend.
    pub fn warning(self, text: &str) {
        self.event(
            &format!("warning: {text}"),
            &json!({"event": "warning", "what": text}),
        );
    }

    /// A line that a service has printed.
    pub fn of_service(self, name: &str, line: &str) {
        match self {
            Self::Text => println!("{name} | {line}"),
            Self::Json => eprintln!("{name} | {line}"),
        }
    }
}
