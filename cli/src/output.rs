//! What the commands print, and how they end.

use std::fmt;
use std::io::Write;

use anyhow::Result;
use triad_core::Timestamp;

/// The error of a command whose options or files are wrong. The exit code is 2.
#[derive(Debug)]
pub struct Usage(
    /// What is wrong, and what to write instead.
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
pub fn print_line(value: &serde_json::Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{value}").and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(()),
    }
}

/// A moment for people, in UTC with milliseconds (RFC 3339).
#[must_use]
pub fn moment(at: Timestamp) -> String {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_millis(at.0);
    humantime::format_rfc3339_millis(time).to_string()
}
