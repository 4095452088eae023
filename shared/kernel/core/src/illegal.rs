//! Events that cannot happen to a sound order.

/// An event that cannot happen to a sound order: its sender is broken, or the record is damaged.
/// Nothing is written then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    /// A reply names a step that the workflow does not have.
    #[error("the workflow has no step {0}")]
    UnknownStep(String),
    /// A reply names an attempt that has not been made yet.
    #[error("step {step} has not made attempt {attempt}")]
    FutureAttempt {
        /// The step that the reply names.
        step: String,
        /// The attempt that the reply names.
        attempt: u32,
    },
    /// A request is to be sent again, and the expressions of its input have no value any more.
    #[error("the input of step {step} cannot be computed again: {why}")]
    NoInput {
        /// The step that the request is about.
        step: String,
        /// For a person: which expression has no value, and why.
        why: String,
    },
    /// The record has not as many steps as the definition that was given for it.
    #[error("the record has {record} steps and its workflow {workflow}")]
    WrongWorkflow {
        /// How many steps the record has.
        record: usize,
        /// How many steps the definition has.
        workflow: usize,
    },
}
