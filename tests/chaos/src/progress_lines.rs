//! Progress lines on standard error, with the seconds since the first line.

use std::sync::OnceLock;
use std::time::Instant;

static BEGAN: OnceLock<Instant> = OnceLock::new();

/// Prints a line.
pub fn print_progress(line: &str) {
    let since = BEGAN.get_or_init(Instant::now).elapsed();
    eprintln!("{:>7.1} s  {line}", since.as_secs_f64());
}
