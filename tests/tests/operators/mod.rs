//! Operators' commands with running systems.

mod campaigns;
mod dead_letters;
mod named;
mod operate;
mod retention;
mod unreadable;
