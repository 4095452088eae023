//! Descriptions of services: how an action is called, and what an answer means.
//!
//! A description is data beside the workflow (`agents/NAME.yaml`, or `agents` within the workflow file). It becomes a
//! part of the workflow's definition, so it is published with it and pinned with its version; the request to an agent
//! carries the part that is about its action ([`CallDefinition`]). Host and secrets are settings of the agent and are
//! never in a description.

mod call;
pub(crate) mod check;
mod form;
mod judge;

use serde::{Deserialize, Serialize};

use crate::expr::CompileError;
pub use crate::model::{
    ActionDefinition, AnswerDefinition, AnswerMeaning, BodyForm, CallDirection, KeyDefinition,
    KeyForm, Method, ServiceDefinition, TypesDefinition,
};
use crate::problem::{Path, Problems};

pub use call::{Body, CallRequest, RequestError};
pub use form::CallForm;
#[cfg(feature = "load")]
pub(crate) use form::{ANSWER_VARIABLES, REQUEST_VARIABLES};
pub use judge::{Answer, Judged, LEFT_OUT, fit};

/// The description of one action: what a request to an agent carries of its service's description.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CallDefinition {
    /// How the idempotency key is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyDefinition>,
    /// The action, with the service's rows of answers behind its own.
    pub action: ActionDefinition,
}

/// Largest description of one action as JSON, in bytes, inclusive: every request for it carries it.
pub const MAX_CALL_BYTES: usize = 4 * 1024;

impl ServiceDefinition {
    /// The part of the description that is about one action, of this or any other name.
    #[must_use]
    pub fn call(&self, action: &str) -> CallDefinition {
        let mut found = self.actions.get(action).cloned().unwrap_or_default();
        found.answers.extend(self.answers.iter().cloned());
        CallDefinition {
            key: self.key.clone(),
            action: found,
        }
    }
}

impl CallForm {
    /// Compiles a description.
    ///
    /// # Errors
    /// [`CompileError`]: the first problem. A published description has none.
    pub fn compile(definition: &CallDefinition) -> Result<Self, CompileError> {
        let mut problems = Problems::default();
        let form = check::form(definition, &Path::top(), &mut problems);
        match problems.0.first() {
            Some(problem) => Err(CompileError(problem.to_string())),
            None => Ok(form),
        }
    }
}
