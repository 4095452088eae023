//! The guarantees, held against a world: every write and every call as it happens, and the whole
//! once it has come to rest.

mod calls;
pub(crate) mod calm;
mod campaigns;
mod deadline;
pub(crate) mod driven;
mod findings;
pub(crate) mod load;
pub(crate) mod lone;
mod search;
mod waits;
mod whole;
mod writes;

pub(crate) use whole::{doubts, is_at_rest, unfinished, whole};
