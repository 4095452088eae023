//! Backup, check, export and import of an installation.

pub mod backup;
pub mod check;
pub mod copy;
mod endpoint;
pub mod export;
pub mod import;
mod progress;
mod topics;
