//! Ports, handlers and their plumbing.

pub mod record;
