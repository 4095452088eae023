//! What `triad dev` and `triad serve` are made of: a directory, a store in it, and the embedded broker.

pub mod broker;
pub mod directory;
pub mod moved;
pub mod signals;
pub mod stores;
