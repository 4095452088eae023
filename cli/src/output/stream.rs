//! Writing to standard output and standard error, whatever has become of their readers.
//!
//! `print!` of the standard library panics when the reader has closed its end, as `head` does. SIGPIPE
//! is ignored in a Rust program, and must stay so: set to its default it would kill the process for a
//! socket of Kafka or DynamoDB that the other side has closed, in the middle of an act. So every write
//! is checked, and what nobody reads is dropped: the command goes on to its end, and an act is done on
//! every order that it was for. A command that only reads may ask [`reader_is_gone`] and end sooner.
//!
//! What is written is shown, and never obeyed: control characters of a text, from a service's message for one,
//! would move the cursor or rename the window. The command's own go past that, by [`styled`].
//!
//! The macros `println!` and `eprintln!` of this crate are these; see the top of `main.rs`.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use triad_operator::visible_text::visible;

static GONE: AtomicBool = AtomicBool::new(false);
static FAULT: OnceLock<String> = OnceLock::new();

/// What a text may have of control characters.
const KEPT: &str = "\n\t";

/// Writes to standard output, with control characters and invisible ones shown as [`visible()`] does. If the
/// reader has gone away, the text is dropped. Any other fault is kept for [`fault`].
pub fn out(text: fmt::Arguments<'_>) {
    out_bytes(plain(text).as_bytes());
}

/// The text as [`out`] and [`err`] write it.
pub fn plain(text: fmt::Arguments<'_>) -> String {
    visible(&text.to_string(), KEPT).into_owned()
}

/// Writes what has colours and the like of this command's own, and no other control characters that a terminal
/// obeys; else as [`out`] does.
pub fn styled(text: fmt::Arguments<'_>) {
    out_with(|out| out.write_fmt(text));
}

/// Writes bytes to standard output as they are; else as [`out`] does.
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
            // Only the first fault is kept; setting it again changes nothing.
            let _ = FAULT.set(e.to_string());
        }
    }
}

/// Writes to standard error, with control characters shown as [`out`] does. A fault is ignored: there is nowhere
/// to tell it.
pub fn err(text: fmt::Arguments<'_>) {
    let _ = io::stderr().lock().write_all(plain(text).as_bytes());
}

/// Whether the reader of standard output has closed its end.
pub fn reader_is_gone() -> bool {
    GONE.load(Ordering::Relaxed)
}

/// Why standard output could not be written, if that is so; a reader that has gone away is no fault.
pub fn fault() -> Option<&'static str> {
    FAULT.get().map(String::as_str)
}
