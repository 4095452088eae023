//! The protocol's bytes: frames of requests, and the served versions of each API.

pub(crate) mod frame;
pub(crate) mod shape;
