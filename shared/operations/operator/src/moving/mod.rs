//! Everything of an installation in one file: for moving it to another store.
//!
//! A file has one JSON object a line: a first line that says what it is, one for each thing, and a last line
//! with counts and a checksum of all before it. Each line has a checksum of itself and of its number, so that
//! damage is named by its line; a file without its last line is refused whole.
//!
//! | in the file | not in the file |
//! |---|---|
//! | workflows, and which version of each is the present one | |
//! | orders, alive and finished: their records and details | |
//! | the call ledger and the downstreams of the control store | rate limits and reports of pressure: they hold for seconds |
//! | submissions, replies and announcements that were sent and not yet taken | requests: they are made again from the records |
//!
//! Architecture invariant: nothing that stands in a store is replaced, and no message of another topic is
//! sent.

mod export;
mod export_line;
mod file;
mod import;
mod retry;

pub use export::{ExportError, Exported, MAX_NAMED, export};
pub use export_line::{Header, Message, MovedCounts, TOPICS, UnreadableMessage};
pub use file::{FileError, Item, MAX_LINE_BYTES, Reader, VERSION, Writer};
pub use import::{ImportError, Imported, Tally, import};
