//! Consumer groups, the classic protocol: a pure state machine a group (`state`), the table of
//! groups around it (`coordinator`), and committed offsets (`offsets`).

pub(crate) mod coordinator;
pub(crate) mod offsets;
pub(crate) mod state;

#[cfg(test)]
mod tests;
