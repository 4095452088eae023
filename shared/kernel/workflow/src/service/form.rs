//! A description of an action, compiled: its parts.

use super::{AnswerMeaning, BodyForm, CallDirection, KeyDefinition, Method};
use crate::duration::Millis;
use crate::expr::Expression;
use crate::template::Template;

/// Variables of the expressions of a request: the step's input, and the idempotency key in its form.
pub(crate) const REQUEST_VARIABLES: [&str; 3] = ["input", "key", "callback"];

/// Variables of the expressions over an answer.
pub(crate) const ANSWER_VARIABLES: [&str; 4] = ["status", "headers", "body", "input"];

/// A compiled [`CallDefinition`](super::CallDefinition).
#[derive(Debug)]
pub struct CallForm {
    pub(super) key: KeyDefinition,
    pub(super) method: Method,
    pub(super) body: BodyForm,
    pub(super) timeout: Option<Millis>,
    pub(super) path: Option<Template>,
    pub(super) query: Vec<(String, Template)>,
    pub(super) headers: Vec<(String, Template)>,
    pub(super) content: Option<Template>,
    pub(super) fails_when: Option<Expression>,
    pub(super) answers: Vec<AnswerRow>,
    pub(super) keep: Keep,
}

impl CallForm {
    /// The method.
    #[must_use]
    pub fn method(&self) -> Method {
        self.method
    }

    /// Whether the request has something of the input, so that it cannot be made without one.
    #[must_use]
    pub fn reads_input(&self) -> bool {
        let of_request = self.path.iter().chain(&self.content);
        let named = self
            .query
            .iter()
            .chain(&self.headers)
            .map(|(_, value)| value);
        let expressions = of_request.chain(named).flat_map(Template::expressions);
        let mut ways = expressions.flat_map(Expression::reads);
        (self.content.is_none() && self.body != BodyForm::None)
            || ways.any(|way| way.first().is_some_and(|first| first == "input"))
    }
}

/// A row of what answers mean, compiled.
#[derive(Debug)]
pub(super) struct AnswerRow {
    /// Ranges of statuses, both ends inclusive; empty: any status.
    pub statuses: Vec<(u16, u16)>,
    pub direction: Option<CallDirection>,
    pub when: Option<Expression>,
    pub means: AnswerMeaning,
    pub code: Option<Template>,
}

/// What of an answer becomes the output.
#[derive(Debug)]
pub(super) enum Keep {
    All,
    Fields(Vec<String>),
    Values(Vec<(String, Template)>),
}
