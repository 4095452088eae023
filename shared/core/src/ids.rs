//! What things are known by: ids, lanes, versions, numbers and moments, each a type of its own.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use triad_workflow::{DefinitionHash, Millis, StepId, WorkflowName};

/// Longest order id, in bytes.
pub const MAX_ORDER_ID_BYTES: usize = 128;

/// A text that cannot be an order id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an order id has 1 to {MAX_ORDER_ID_BYTES} bytes and no control characters or '/'")]
pub struct InvalidOrderId;

/// A text that cannot be the id of a new order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "an order id has 1 to {MAX_ORDER_ID_BYTES} of a-z, A-Z, 0-9 and - _ . ~ : @ = , and begins with a \
     letter or a digit"
)]
pub struct NotPortable;

/// Identity of an order: chosen by the application that submits it.
///
/// It is the key of every message about the order. `/` is excluded because idempotency keys
/// join their parts with it. New orders have [portable](Self::check_portable) ids; others are those of
/// orders that were stored before that was asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OrderId(String);

impl OrderId {
    /// Takes a text that keeps the rule.
    ///
    /// # Errors
    /// [`InvalidOrderId`] if it does not.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidOrderId> {
        let text = text.into();
        let fits = !text.is_empty()
            && text.len() <= MAX_ORDER_ID_BYTES
            && !text.chars().any(|c| c.is_control() || c == '/');
        if fits {
            Ok(Self(text))
        } else {
            Err(InvalidOrderId)
        }
    }

    /// Whether every transport carries the id unchanged: HTTP headers and paths, keys of Kafka and
    /// DynamoDB, JSON, logs and command lines. (HTTP drops blanks at either end of a header, so that
    /// two ids could share an idempotency key; RFC 9110, section 5.5.)
    ///
    /// # Errors
    /// [`NotPortable`], which says what is asked.
    ///
    /// # Example
    /// ```
    /// # use triad_core::OrderId;
    /// assert!(OrderId::new("shop-7:2024.1").unwrap().check_portable().is_ok());
    /// assert!(OrderId::new("7 ").unwrap().check_portable().is_err());
    /// ```
    pub fn check_portable(&self) -> Result<(), NotPortable> {
        let mut bytes = self.0.bytes();
        let begins = bytes.next().is_some_and(|b| b.is_ascii_alphanumeric());
        let goes_on = bytes.all(|b| b.is_ascii_alphanumeric() || b"-_.~:@=,".contains(&b));
        if begins && goes_on {
            Ok(())
        } else {
            Err(NotPortable)
        }
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for OrderId {
    type Error = InvalidOrderId;
    fn try_from(text: String) -> Result<Self, InvalidOrderId> {
        Self::new(text)
    }
}

impl From<OrderId> for String {
    fn from(id: OrderId) -> String {
        id.0
    }
}

impl fmt::Display for OrderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The definition an order is pinned to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WorkflowRef {
    /// Name of the workflow.
    pub name: WorkflowName,
    /// Content hash of the version.
    pub hash: DefinitionHash,
}

impl fmt::Display for WorkflowRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.hash)
    }
}

impl FromStr for WorkflowRef {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, hash) = text
            .split_once('@')
            .ok_or_else(|| format!("{text:?} is not name@hash"))?;
        Ok(Self {
            name: WorkflowName::new(name).map_err(|e| e.to_string())?,
            hash: hash.parse()?,
        })
    }
}

impl Serialize for WorkflowRef {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WorkflowRef {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// Lane of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// The usual lane.
    #[default]
    Normal,
    /// Drained before the usual lane.
    High,
}

/// Version of a process record; 1 when created, raised by every write, checked by every write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(pub u64);

impl Version {
    /// Version of a record that has just been created.
    pub const FIRST: Self = Self(1);

    /// The version after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of an attempt at a step, from 1; 0 is before the first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Attempt(pub u32);

impl Attempt {
    /// The attempt after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A moment, in milliseconds since the Unix epoch.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// This moment plus a span; saturates.
    #[must_use]
    pub const fn plus(self, span: Millis) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// This moment minus a span; saturates.
    #[must_use]
    pub const fn minus(self, span: Millis) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// Span from an earlier moment to this one; zero if it is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

/// Identity of one claim of one order, unique to the attempt to claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClaimId(pub String);

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an agent is asked to do about a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The step's action.
    Forward,
    /// The step's compensation.
    #[serde(rename = "undo")]
    Compensate,
    /// The question whether the step's action has had its effect.
    Probe,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forward => "forward",
            Self::Compensate => "undo",
            Self::Probe => "probe",
        })
    }
}

/// The key that makes all tries of one effect the same effect: order, step and direction.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IdempotencyKey(pub String);

impl IdempotencyKey {
    /// The key of a step's effect; the same for every attempt and every call.
    ///
    /// `number` tells a step that an operator has had done again after it was compensated or refused
    /// from the first time: the earlier keys are spent for ever at the remote service. A probe
    /// asks about the forward effect, and carries its key.
    #[must_use]
    pub fn of(order: &OrderId, step: &StepId, direction: Direction, number: u32) -> Self {
        let effect = match direction {
            Direction::Forward | Direction::Probe => Direction::Forward,
            Direction::Compensate => Direction::Compensate,
        };
        match number {
            0 => Self(format!("{order}/{step}/{effect}")),
            n => Self(format!("{order}/{step}/{effect}/{n}")),
        }
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
