//! Output of a running `triad dev`: lines for people, or one JSON object a line.

use serde_json::{Value, json};

use crate::output::print_line;

/// How the output is printed: for people, or as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Say {
    /// Lines for people, on standard output.
    Text,
    /// JSON lines on standard output; lines of services on standard error.
    Json,
}

impl Say {
    /// An event, as text for people and as JSON for programs.
    pub fn event(self, text: &str, json: &Value) {
        match self {
            Self::Text => println!("{text}"),
            // The line is dropped if the reader has closed its end of the pipe.
            Self::Json => drop(print_line(json)),
        }
    }

    /// A warning, which a person may want to act on.
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
