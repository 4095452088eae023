//! Taking an installation elsewhere: a copy of a directory in use, and one file with everything in it.

pub mod backup;
pub mod export;
pub mod import;
mod place;
mod progress;
mod topics;
