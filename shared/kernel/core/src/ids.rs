//! Identities: ids, lanes, versions, numbers and moments, each with its own type.

use std::fmt;
use std::str::FromStr;

use crate::failure::cut;
use serde::{Deserialize, Serialize};
use triad_workflow::{DefinitionHash, InvalidHash, InvalidName, Millis, StepId, WorkflowName};

/// Longest order id, in bytes, inclusive.
pub const MAX_ORDER_ID_BYTES: usize = 128;

/// The error of [`OrderId::new`]: the text is empty, is longer than [`MAX_ORDER_ID_BYTES`], or has
/// a `/` or a control character.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an order id has 1 to {MAX_ORDER_ID_BYTES} bytes and no control characters or '/'")]
pub struct InvalidOrderId;

/// The error of [`OrderId::check_portable`]: the id has another character than ASCII letters,
/// digits and `- _ . ~ : @ = ,`, or does not begin with a letter or a digit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "an order id has 1 to {MAX_ORDER_ID_BYTES} of a-z, A-Z, 0-9 and - _ . ~ : @ = , and begins with a \
     letter or a digit"
)]
pub struct NotPortable;

/// Identity of an order: chosen by the application that submits it.
///
/// It is the key of every message about the order. `/` is excluded because idempotency keys join
/// their parts with it. A new order needs a [portable](Self::check_portable) id; an order that was
/// stored before that rule may have any other.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OrderId(String);

impl OrderId {
    /// Takes a text of 1 to [`MAX_ORDER_ID_BYTES`] bytes without `/` and control characters.
    ///
    /// # Errors
    /// [`InvalidOrderId`] for every other text.
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

    /// Checks that every transport carries the id unchanged: HTTP headers and paths, keys of Kafka
    /// and DynamoDB, JSON, logs and command lines. (HTTP drops blanks at either end of a header, so
    /// that two ids could share an idempotency key; RFC 9110, section 5.5.)
    ///
    /// # Errors
    /// [`NotPortable`] if the id has another character than ASCII letters, digits and `- _ . ~ : @
    /// = ,`, or does not begin with a letter or a digit.
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

/// The version of a workflow that an order runs on, from its start to its end unless an operator moves it.
/// As text it is `<name>@<hash>`; reading any other text fails with [`InvalidWorkflowRef`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkflowRef {
    /// Name of the workflow.
    pub name: WorkflowName,
    /// Content hash of the version's definition.
    pub hash: DefinitionHash,
}

impl fmt::Display for WorkflowRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.hash)
    }
}

/// The error of reading a [`WorkflowRef`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWorkflowRef {
    /// The text, given here, has no `@`.
    #[error("{0:?} is not name@hash")]
    Form(String),
    /// The text before the `@` is not the name of a workflow.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The text behind the `@` is not a content hash.
    #[error(transparent)]
    Hash(#[from] InvalidHash),
}

impl FromStr for WorkflowRef {
    type Err = InvalidWorkflowRef;

    fn from_str(text: &str) -> Result<Self, InvalidWorkflowRef> {
        let parts = text.split_once('@');
        let (name, hash) = parts.ok_or_else(|| InvalidWorkflowRef::Form(text.to_owned()))?;
        Ok(Self {
            name: WorkflowName::new(name)?,
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

/// Priority of an order, which decides the topics of its messages. A message without a priority is
/// of normal priority.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// The normal lane.
    #[default]
    Normal,
    /// The high lane: messages about these orders have their own topics, consumers and consumer groups. A process
    /// that reads both lanes takes no normal messages while it has high ones, for at most 5 s at a time.
    High,
}

impl Priority {
    /// The lane's name, as metrics and the log have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::High => "high",
        }
    }
}

/// Version of a process record: 1 when it is created. Each write raises it by one, on the condition
/// that the stored version is still the one the write was decided on.
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

/// Number of an attempt at one leg of a step. Attempts are numbered from 1, and the numbers continue in later runs of
/// the order; a step that a migration adds in a later run begins at a higher number. 0 means no attempt.
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

/// A moment, in milliseconds since the Unix epoch. In stores and messages it is that number. In the JSON that
/// operators' programs read it is RFC 3339 text.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// This moment plus a span; the largest possible moment if the sum is larger.
    #[must_use]
    pub const fn plus(self, span: Millis) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// This moment minus a span; the Unix epoch if the span is longer.
    #[must_use]
    pub const fn minus(self, span: Millis) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// Span from an earlier moment to this one; zero if the other moment is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }

    // What another clock wrote, or this one before it was set, is believed as far as these two do, and no further.

    /// Whether this moment is less than `span` from `now`, before it or after it. So a time from a wrong clock counts
    /// as recent for at most twice the span.
    #[must_use]
    pub const fn is_near(self, now: Self, span: Millis) -> bool {
        self.0.abs_diff(now.0) < span.0
    }

    /// Whether this moment, the end of a wait, is yet to come. No wait is longer than `longest`: an end that lies
    /// more than twice as far ahead was written by a wrong clock, and counts as over.
    #[must_use]
    pub const fn is_awaited(self, now: Self, longest: Millis) -> bool {
        self.0 > now.0 && self.0 - now.0 <= longest.0.saturating_mul(2)
    }
}

/// Most bytes of an instance's name that a [`ClaimId`] holds, inclusive; of a longer name the rest is cut
/// off.
pub const MAX_INSTANCE_BYTES: usize = 96;

/// Identity of one claim of one order: the value of `LockedBy`. Each try to claim has its own id, also within one
/// process. For people, the id contains the name of that process.
///
/// ```
/// use triad_core::ClaimId;
/// let claim = ClaimId::by("worker@box:17", [1, 2]);
/// assert_eq!(claim.0, "worker@box:17/000000000000000100000000");
/// assert_eq!(claim.instance(), Some("worker@box:17"));
/// assert_eq!(ClaimId("as-it-was-before-names".into()).instance(), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClaimId(pub String);

impl ClaimId {
    /// A new claim id for the instance with this name, cut to [`MAX_INSTANCE_BYTES`]. 96 of the 128 `random` bits
    /// make the id unique.
    #[must_use]
    pub fn by(instance: &str, random: [u64; 2]) -> Self {
        let [a, b] = random;
        let name = cut(instance, MAX_INSTANCE_BYTES);
        Self(format!("{name}/{a:016x}{:08x}", b >> 32))
    }

    /// The name of the instance that made the claim: function and sandbox, or program, host and process.
    /// `None` if the id holds no name, as in claims of earlier versions of Triad.
    #[must_use]
    pub fn instance(&self) -> Option<&str> {
        self.0.rsplit_once('/').map(|(instance, _)| instance)
    }
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Identity of a campaign: one act of an operator on many orders. As text it is `c-` and 16 lower-case
/// hexadecimal digits, such as `c-00c0ffee00c0ffee`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CampaignId(u64);

/// The error of reading a [`CampaignId`]: the text, given here, is not `c-` and 16 lower-case hexadecimal
/// digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a campaign, such as c-00c0ffee00c0ffee")]
pub struct InvalidCampaignId(pub String);

impl CampaignId {
    /// A new id, made of 64 `random` bits, which make it unique.
    #[must_use]
    pub fn new(random: u64) -> Self {
        Self(random)
    }
}

impl fmt::Display for CampaignId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c-{:016x}", self.0)
    }
}

impl FromStr for CampaignId {
    type Err = InvalidCampaignId;

    fn from_str(text: &str) -> Result<Self, InvalidCampaignId> {
        let digits = text.strip_prefix("c-").filter(|digits| {
            digits.len() == 16
                && digits
                    .bytes()
                    .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        });
        let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        number
            .map(Self)
            .ok_or_else(|| InvalidCampaignId(text.to_owned()))
    }
}

impl TryFrom<String> for CampaignId {
    type Error = InvalidCampaignId;
    fn try_from(text: String) -> Result<Self, InvalidCampaignId> {
        text.parse()
    }
}

impl From<CampaignId> for String {
    fn from(id: CampaignId) -> String {
        id.to_string()
    }
}

/// What an agent is asked to do about a step. Names in messages: `forward`, `compensate` and `probe`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// To carry out the step's action.
    Forward,
    /// To carry out the step's compensation.
    #[serde(rename = "compensate")]
    Compensate,
    /// To ask the service whether the step's action has had its effect.
    Probe,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forward => "forward",
            Self::Compensate => "compensate",
            Self::Probe => "probe",
        })
    }
}

/// The key by which a remote service recognises all calls for one effect: made of order, step, direction
/// and a number, and the same for every attempt at that effect and every call. See [`IdempotencyKey::of`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IdempotencyKey(pub String);

impl IdempotencyKey {
    /// The key of a step's effect: `<order>/<step>/forward` or `<order>/<step>/compensate`. A `number`
    /// above 0 is put behind it as `/<number>`. A probe asks about the forward effect and carries
    /// that effect's key.
    ///
    /// `number` is [`crate::StepRecord::key`], which is raised when the step is to have another effect than
    /// before: a service may answer an earlier key as it did then.
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
