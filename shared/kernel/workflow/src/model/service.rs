//! The written form of a service's description: what the file `agents/NAME.yaml` says.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::duration::Millis;

/// How one agent calls its service, and what the service's answers mean. It has no host and no secret: both are
/// settings of the agent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ServiceDefinition {
    /// What the service is, in a sentence. Absent: not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How the idempotency key is sent. Absent: as it is, in the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyDefinition>,
    /// What answers mean, for all actions: the first row that fits, after the action's own rows. Absent: no row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<AnswerDefinition>,
    /// The calls, by the name of the action. An action that is not listed is `POST /<action>` with its input as JSON.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub actions: BTreeMap<String, ActionDefinition>,
}

/// How the idempotency key is sent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct KeyDefinition {
    /// The header that carries it. Absent: `Idempotency-Key`, or no header if there is `field`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The field of the JSON or form body that carries it. Absent: no field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Its form. Absent: `as-is`, or `hash` if there is `length`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<KeyForm>,
    /// Characters of a `hash`, 16 to 64. Absent: 32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u32>,
}

/// The form of an idempotency key. Each form gives the same text for every call of one effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum KeyForm {
    /// As Triad writes it: `<order>/<step>/<direction>`, up to 201 characters.
    AsIs,
    /// The first `length` hexadecimal digits of its SHA-256.
    Hash,
    /// A UUID of version 8 (RFC 9562) made of its SHA-256: 36 characters.
    Uuid,
}

/// The call of one action.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ActionDefinition {
    /// The method. Absent: `POST`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    /// The path below the agent's `base_url`; begins with `/`. A `${ … }` in it is encoded and cannot leave its
    /// segment. Absent: `/<action>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Parameters of the query, by name. A value that is null is left out, a list is sent as one parameter for each
    /// element. Absent: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, String>,
    /// Headers beside those of the agent's settings, by name. A value that is null is left out. Absent: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The form of the body. Absent: `json`; `none` for `GET` and `DELETE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<BodyForm>,
    /// What the body says: any value; `${ … }` inside strings is an expression. Absent: the whole input.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub content: Value,
    /// Longest single call; the agent's `call_timeout` and the time of the attempt may end it sooner. Absent: those
    /// alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Millis>,
    /// A condition under which an answer with a status of 200 to 299 is a refusal: one expression, without `${ … }`,
    /// such as `body.success == false`. Absent: no such answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fails_when: Option<String>,
    /// What answers mean, for this action: the first row that fits. Absent: no row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<AnswerDefinition>,
    /// The parts of the answer that become the step's output: a list of names of the answer's fields, or a mapping
    /// from names to expressions `${ … }` over `body`, `headers` and `status`. Absent: the whole answer.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[cfg_attr(feature = "load", schemars(schema_with = "keep_schema"))]
    pub keep: Value,
    /// Types of the variables `input` and `body`, by which `validate` checks inputs and expressions. They are left out
    /// of what is published, so neither the hash of a version nor a request has them. Absent: any values.
    #[serde(default, skip_serializing)]
    pub types: Option<TypesDefinition>,
}

/// Types of what an action takes and answers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TypesDefinition {
    /// The step's input: `string`, `number`, `integer`, `boolean`, `list`, `object` or `any`; a list with the type of
    /// its elements; or a mapping from names to types, in which a name with `?` behind it may be missing or null, and
    /// `*` stands for further names. Absent: any value.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[cfg_attr(feature = "load", schemars(schema_with = "type_schema"))]
    pub input: Value,
    /// The body of an answer with a status of 200 to 299, in the same form. Absent: any value.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[cfg_attr(feature = "load", schemars(schema_with = "type_schema"))]
    pub body: Value,
}

/// A method of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// Reads.
    Get,
    /// Makes something.
    Post,
    /// Puts something in its place.
    Put,
    /// Changes a part.
    Patch,
    /// Removes.
    Delete,
}

impl Method {
    /// The method's name as HTTP writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// The form of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum BodyForm {
    /// JSON.
    Json,
    /// `application/x-www-form-urlencoded`; fields of fields are written `a[b]`, elements of lists `a[0]`.
    Form,
    /// A text as it is, or another value as JSON text; `text/plain`.
    Text,
    /// No body.
    None,
}

/// One row of what answers mean: it fits if all that it says holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AnswerDefinition {
    /// Statuses: a number such as `404`, a text such as `4xx`, or a list of both. Absent: any.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[cfg_attr(feature = "load", schemars(schema_with = "status_schema"))]
    pub status: Value,
    /// The direction of the call. Absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<CallDirection>,
    /// A condition: one expression, without `${ … }`, over `body`, `headers`, `status` and `input`. A condition that
    /// has no value does not hold. Absent: it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// What the answer means.
    pub means: AnswerMeaning,
    /// The code of a refusal or failure: a text, in which `${ … }` is an expression. Absent: the answer's
    /// `error.code`, or `http-<status>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// The direction of a call, as an author writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CallDirection {
    /// The step's action.
    Forward,
    /// Its compensation.
    Compensate,
    /// The question whether the action happened.
    Probe,
}

/// What an answer of a service means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "load", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AnswerMeaning {
    /// Done, now or by an earlier call. To a probe: the action happened.
    Done,
    /// The effect is not there: a compensation is done, since there is nothing to compensate; to a probe: the action
    /// did not happen; to an action: refused.
    Absent,
    /// Refused for good, without an effect.
    Refused,
    /// May pass: the call is repeated under the same key.
    MayPass,
    /// An earlier call under the same key is still being worked on: asked again later, not counted as a failure.
    InProgress,
    /// The service does not accept this caller, such as wrong credentials: the work waits, operators are alerted.
    CallerRefused,
    /// The service has taken the work and finishes it later, for a step that says `finishes_later`; to a question about
    /// such work: it is not finished yet. For any other step it is done.
    Accepted,
}

#[cfg(feature = "load")]
fn keep_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": ["array", "object"]})
}

#[cfg(feature = "load")]
fn type_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": ["string", "array", "object"]})
}

#[cfg(feature = "load")]
fn status_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": ["integer", "string", "array"]})
}
