//! Checks of the guarantees: of every write and call when it happens, and of the whole world when all work has ended.

mod amend;
mod calls;
mod campaigns;
pub(crate) mod children;
mod deadline;
mod events;
mod final_state;
mod findings;
pub(crate) mod liveness;
pub(crate) mod load;
pub(crate) mod lone;
pub(crate) mod restart_sends;
mod search;
mod waits;
mod writes;

pub(crate) use final_state::{check_final_state, doubts, is_at_rest, unfinished};
