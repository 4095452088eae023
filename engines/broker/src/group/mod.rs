//! Consumer groups, the classic protocol: a pure state machine a group (`state`, what it takes
//! and gives in `messages`) and the table of groups around it (`coordinator`).

pub(crate) mod coordinator;
pub(crate) mod messages;
pub(crate) mod state;

#[cfg(test)]
mod tests;
