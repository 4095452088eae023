//! What a model is told: a result, or a problem.

use serde_json::{Value, json};
use triad_operator::operations::Problem;

/// The result of a call for a model: what was asked for, or a problem.
pub(crate) type Told = Result<Value, Value>;

/// A problem with this code and text.
pub(crate) fn problem(code: &str, detail: &str) -> Value {
    json!({"code": code, "detail": detail})
}

/// A problem of operations.
pub(crate) fn told(problem: &Problem) -> Value {
    serde_json::to_value(problem).unwrap_or_default()
}
