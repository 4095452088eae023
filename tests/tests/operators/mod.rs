//! What operators see and do with the commands that they have.

mod campaigns;
mod dead_letters;
mod named;
mod operate;
mod retention;
mod unreadable;
