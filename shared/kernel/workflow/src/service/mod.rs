//! Descriptions of services: how an action is called, and what an answer means.
//!
//! A description is data beside the workflow (`agents/NAME.yaml`, or `agents` within the workflow file). It becomes a
//! part of the workflow's definition, so it is published with it and pinned with its version; the request to an agent
//! carries the part that is about its action ([`CallDefinition`]). Host and secrets are settings of the agent and are
//! never in a description.

mod call;
pub(crate) mod check;
mod judge;
mod model;

use serde::{Deserialize, Serialize};

pub use call::{Body, CallForm, CallRequest, RequestError};
pub use judge::{Answer, Judged, LEFT_OUT, fit};
pub use model::{
    ActionDefinition, AnswerDefinition, AnswerMeaning, BodyForm, CallDirection, KeyDefinition,
    KeyForm, Method, ServiceDefinition,
};

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
