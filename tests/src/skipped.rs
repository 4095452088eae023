//! Reports that a test has checked nothing, because this machine lacks something.

use std::io::Write;

/// Reports that `name` is not checked, and why. If `TRIAD_SKIPS` names a file, as in `tests/verify.sh`, adds a line
/// to it. That script lists the skips at its end, and fails on one that `tests/skips-allowed.txt` does not allow.
///
/// # Panics
/// If the line cannot be written, because the skip would go unnoticed.
#[expect(
    clippy::disallowed_methods,
    reason = "where to write is a setting of the test run alone"
)]
pub fn skipped(name: &str, why: &str) {
    eprintln!("SKIPPED: {name}: {why}");
    let Ok(file) = std::env::var("TRIAD_SKIPS") else {
        return;
    };
    let file = std::fs::File::options()
        .append(true)
        .create(true)
        .open(file);
    // In one write, so that lines of concurrent tests do not mix.
    let line = format!("{name}\t{why}\n");
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.expect("what is skipped is written down");
}
