//! What a function fails with, and how it is shown.

use std::fmt;

use lambda_runtime::Diagnostic;

/// A failed invocation: Lambda retries the whole batch, or the scheduled call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FunctionError {
    /// A word for programs; the `errorType` of the answer.
    pub kind: &'static str,
    /// A sentence for people; the `errorMessage` of the answer.
    pub message: String,
}

impl FunctionError {
    pub(crate) fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

impl From<FunctionError> for Diagnostic {
    fn from(error: FunctionError) -> Self {
        Self {
            error_type: error.kind.to_owned(),
            error_message: error.message,
        }
    }
}

/// Why the function's process ends.
///
/// `Debug` shows the same one line as `Display`, so that a `main` that returns this error prints
/// one clear message and exits with a status that is not zero.
#[derive(thiserror::Error)]
pub enum RunError {
    /// The clients could not be created; Lambda has been told.
    #[error("the function did not start: {0}")]
    Init(String),
    /// The connection to Lambda's Runtime API failed.
    #[error("the Lambda Runtime API failed: {0}")]
    Runtime(String),
}

impl fmt::Debug for RunError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}
