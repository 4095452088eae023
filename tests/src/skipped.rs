//! Saying that a test has checked nothing, for want of something that this machine does not have.

use std::io::Write;

/// Says that `name` is not checked, and why. Where `TRIAD_SKIPS` names a file, which is so under
/// `tests/verify.sh`, a line is added to it: the run lists it at its end, and fails if it may not be left
/// out (`tests/skips-allowed.txt`).
///
/// # Panics
/// When the line cannot be written: nobody would hear of it.
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
    // One write, so that lines of tests that run at once do not mix.
    let line = format!("{name}\t{why}\n");
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.expect("what is skipped is written down");
}
