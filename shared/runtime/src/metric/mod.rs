//! What is measured: every metric's name, unit and labels, and the functions by which handlers tell of
//! what happens.
//!
//! A handler says what has happened ("a call has ended"), and only this module says which numbers change by
//! that. The shell decides where the numbers go: to a Prometheus endpoint, into log lines in the embedded
//! metric format, or nowhere. Nothing is built for them until a shell calls [`describe`].
//!
//! All numbers are of one process, and counters begin at 0 when it starts.

mod table;
mod told;

pub use table::*;
pub use told::reads;
pub(crate) use told::*;
