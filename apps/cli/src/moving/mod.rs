//! Backup, export and import of an installation.

pub mod backup;
mod endpoint;
pub mod export;
pub mod import;
mod progress;
mod topics;
