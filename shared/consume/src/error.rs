//! How a loop ends.

/// Why a loop has ended though nobody told it to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConsumeError {
    /// A consumer could not be made, because its settings are wrong or its topic is refused. The text has the
    /// broker's words.
    #[error("{0}")]
    Join(String),
    /// A consumer has met an error after which it cannot be used any more, or the task of a loop has
    /// panicked; the text says which. The process must end, or begin the loop anew.
    #[error("the consumer cannot go on: {0}")]
    Fatal(String),
}
