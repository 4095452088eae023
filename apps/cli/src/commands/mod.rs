//! One module for each command.

pub mod check_service;
pub mod dead_letters;
pub mod docs;
#[cfg(feature = "aws")]
pub mod doctor;
pub mod get;
mod graph;
pub mod init;
pub mod inputs;
pub mod publish;
pub mod shell;
pub mod submit;
pub mod test;
pub mod token;
pub mod validate;
pub mod watch;
pub mod who;
