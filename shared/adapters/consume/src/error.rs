//! Errors that end a loop.

/// Why a loop has ended before it was stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConsumeError {
    /// A consumer could not be made, because its settings are wrong or its topic is refused. The text quotes the
    /// broker.
    #[error("{0}")]
    Join(String),
    /// A consumer had an error after which it is unusable, or the task of a loop has panicked; the text says which.
    /// The process must end, or start the loop again.
    #[error("the consumer cannot be used any more: {0}")]
    Fatal(String),
}
