//! Consumer groups, the classic protocol: a pure state machine a group (`state`, what it takes
//! and gives in `messages`), the table of groups around it (`coordinator`), and committed offsets (`offsets`).

pub(crate) mod coordinator;
pub(crate) mod messages;
pub(crate) mod offsets;
pub(crate) mod state;

#[cfg(test)]
mod tests;
