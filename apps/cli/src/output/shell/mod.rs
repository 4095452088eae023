//! Commands that are printed to be typed.
//!
//! A shell passes each word on unchanged, whatever is in it: see `tests`, which runs all printed commands in a shell,
//! and finds commands that are built elsewhere.

use std::borrow::Cow;

/// One word for a POSIX shell, in quotes if it needs them.
pub fn quoted(text: &str) -> String {
    let quoter = shlex::Quoter::new().allow_nul(true);
    // NUL is the only possible error.
    quoter
        .quote(text)
        .map_or_else(|_| "''".to_owned(), Cow::into_owned)
}

/// A command line of these words.
pub fn command<const N: usize>(words: [&str; N]) -> String {
    words.map(quoted).join(" ")
}

#[cfg(test)]
mod tests;
