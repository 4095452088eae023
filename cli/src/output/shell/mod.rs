//! Commands that are printed to be typed.
//!
//! Whatever is in a word, a shell hands it on as that very word: see `tests`, which has a shell do so with all
//! that is printed, and which finds a command that is put together anywhere else.

use std::borrow::Cow;

/// One word for a POSIX shell, in quotes if it needs them.
pub fn quoted(text: &str) -> String {
    let quoter = shlex::Quoter::new().allow_nul(true);
    // Its one error is NUL.
    quoter
        .quote(text)
        .map_or_else(|_| "''".to_owned(), Cow::into_owned)
}

/// A command of these words.
pub fn command<const N: usize>(words: [&str; N]) -> String {
    words.map(quoted).join(" ")
}

#[cfg(test)]
mod tests;
