//! Consumer groups of the classic protocol: a pure state machine for each group (`state`, with its input and output
//! in `messages`) and the table of groups (`coordinator`).

pub(crate) mod coordinator;
pub(crate) mod messages;
pub(crate) mod state;

#[cfg(test)]
mod tests;
