//! Events that cannot happen to a sound order.

/// An event that cannot happen to a sound order: its sender is broken or forged it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    /// The workflow has no such step.
    #[error("the workflow has no step {0}")]
    UnknownStep(String),
    /// The attempt has not been made yet.
    #[error("step {step} has not made attempt {attempt}")]
    FutureAttempt {
        /// The step.
        step: String,
        /// The attempt.
        attempt: u32,
    },
    /// The input of a request that was made before has no value any more.
    #[error("the input of step {step} cannot be computed again: {why}")]
    NoInput {
        /// The step.
        step: String,
        /// Why.
        why: String,
    },
    /// The record does not fit the definition it is pinned to.
    #[error("the record has {record} steps and its workflow {workflow}")]
    WrongWorkflow {
        /// Steps in the record.
        record: usize,
        /// Steps in the definition.
        workflow: usize,
    },
}
