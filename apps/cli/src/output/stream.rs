//! Writes to standard output and standard error, even if the reader has closed its end.
//!
//! `print!` of the standard library panics when the reader has closed its end, as `head` does. SIGPIPE is ignored in
//! a Rust program, and must stay ignored: by default it would kill the process, in the middle of an act, when the
//! other side closes a Kafka or DynamoDB socket. So every write is checked, and unread output is dropped: the command
//! continues, and acts on every order. A command that only reads may check [`reader_is_gone`] and end sooner.
//!
//! Control characters in a text, for example from a service's message, are escaped, so that they cannot move the
//! cursor or rename the window. [`styled`] writes the command's own control characters.
//!
//! The macros `println!` and `eprintln!` of this crate use this module; see the top of `main.rs`.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use triad_operator::visible_text::visible;

static GONE: AtomicBool = AtomicBool::new(false);
static FAULT: OnceLock<String> = OnceLock::new();

/// Control characters that stay in a text.
const KEPT: &str = "\n\t";

/// Writes to standard output, with control characters and invisible ones escaped by [`visible()`]. If the reader has
/// closed its end, the text is dropped. Any other fault is kept for [`fault`].
pub fn out(text: fmt::Arguments<'_>) {
    out_bytes(plain(text).as_bytes());
}

/// The text as [`out`] and [`err`] write it.
pub fn plain(text: fmt::Arguments<'_>) -> String {
    visible(&text.to_string(), KEPT).into_owned()
}

/// Writes a text with this command's own colours; other control characters are escaped as by [`out`].
pub fn styled(text: fmt::Arguments<'_>) {
    out_with(|out| out.write_fmt(text));
}

/// Writes bytes to standard output unchanged; otherwise as [`out`].
pub fn out_bytes(bytes: &[u8]) {
    out_with(|out| out.write_all(bytes));
}

fn out_with(write: impl FnOnce(&mut io::StdoutLock<'_>) -> io::Result<()>) {
    if reader_is_gone() || FAULT.get().is_some() {
        return;
    }
    let mut out = io::stdout().lock();
    match write(&mut out).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::BrokenPipe => GONE.store(true, Ordering::Relaxed),
        Err(e) => {
            // Only the first fault is kept; a second one does not replace it.
            let _ = FAULT.set(e.to_string());
        }
    }
}

/// Writes to standard error, with control characters escaped as by [`out`]. A fault is ignored: it could not be
/// reported.
pub fn err(text: fmt::Arguments<'_>) {
    let _ = io::stderr().lock().write_all(plain(text).as_bytes());
}

/// Whether the reader of standard output has closed its end.
pub fn reader_is_gone() -> bool {
    GONE.load(Ordering::Relaxed)
}

/// Why standard output could not be written, if that is so; a reader that has closed its end is no fault.
pub fn fault() -> Option<&'static str> {
    FAULT.get().map(String::as_str)
}
