//! The protocol's bytes: how a request is framed, and which versions of each API are served.

pub(crate) mod frame;
pub(crate) mod shape;
