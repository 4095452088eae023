//! What is measured: every metric's name, unit and labels, and the functions by which handlers tell of
//! what happens.
//!
//! A handler says what has happened ("a call has ended"), and which numbers that is stands here alone.
//! Where the numbers go is the shell's: to a Prometheus endpoint, into log lines in the embedded metric
//! format, or nowhere. Nothing is built for them until a shell calls [`describe`].
//!
//! All are of one process, and counters begin with it at 0.

mod table;
mod told;

pub use table::*;
pub use told::reads;
pub(crate) use told::*;
