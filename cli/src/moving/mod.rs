//! Taking an installation elsewhere: a copy of a directory in use, and one file with everything in it.

pub mod backup;
mod endpoint;
pub mod export;
pub mod import;
mod progress;
mod topics;
