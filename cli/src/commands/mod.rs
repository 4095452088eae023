//! One module a command.

pub mod connection;
pub mod dead_letters;
pub mod get;
pub mod init;
pub mod publish;
pub mod submit;
pub mod validate;
