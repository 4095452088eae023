//! Errors of functions, and their texts.

use std::fmt;

use lambda_runtime::Diagnostic;

/// Why an invocation failed. Lambda then retries a whole batch, or a scheduled call; a request to a
/// function's URL fails and is not retried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FunctionError {
    /// A stable word for programs, such as `Triad.Batch`; the answer's `errorType`.
    pub kind: &'static str,
    /// A sentence for people; the answer's `errorMessage`.
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
    /// The cold start failed, with this message; it was reported to Lambda, if Lambda could be reached.
    #[error("the function did not start: {0}")]
    Init(String),
    /// Lambda's Runtime API could not be reached, or its answer could not be understood; the text
    /// is for people.
    #[error("the Lambda Runtime API failed: {0}")]
    Runtime(String),
}

impl fmt::Debug for RunError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}
