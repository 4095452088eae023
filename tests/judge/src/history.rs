//! A recorded history: a file of JSON lines, one operation on one object each.
//!
//! An object is an order (its details and its process record, which are created together) or one
//! record of the table `control`. An operation has the moments at which it was sent and answered,
//! by a number that rises with every event and by the clock; what was asked; what was answered. An
//! operation that was not answered may have taken effect at any time since it was sent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// What it is on: `order/<id>` or `control/<key>`.
    pub object: String,
    /// When it was sent.
    pub began: Moment,
    /// When it was answered, or given up.
    pub ended: Moment,
    /// What was asked.
    pub asked: ClientOperation,
    /// What was answered.
    pub answer: Answer,
}

/// A moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Moment {
    /// Microseconds since the Unix epoch, by a clock that never goes back.
    pub at_us: u64,
    /// Number of the event in its recording: decides between events of one microsecond.
    pub event: u64,
}

/// A place of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cell {
    /// An order's details: table `orders`.
    Details,
    /// An order's process record: table `order-state`.
    Record,
    /// A record of the table `control`.
    Control,
}

/// What a client asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientOperation {
    /// A consistent read.
    Read(Cell),
    /// Puts that take effect all together or not at all.
    Put {
        /// At most one a cell.
        puts: Vec<Put>,
        /// A transaction's token: with the same one it takes effect once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<String>,
    },
    /// Messages and effects that were seen: of attempts that a write must have put in force before.
    Seen(Vec<Sighting>),
    /// Something that the judge does not know: its object cannot be judged.
    Other(String),
}

/// What was seen elsewhere of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sighting {
    /// What.
    pub sign: Sign,
    /// Of which attempt: `<step>/do/<number>` or `<step>/compensate/<number>`.
    pub attempt: String,
}

/// A sign of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sign {
    /// A request to its agent, in the agent's topic.
    Request,
    /// The agent's reply, in the Scheduler's topic.
    Reply,
    /// An effect at the remote service, or its reversal, in the service's ledger.
    Effect,
}

/// One conditional put.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Put {
    /// Where.
    pub cell: Cell,
    /// What.
    pub item: Item,
    /// On what condition; none: whatever is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
}

/// A condition as it was sent, with the names and values that it refers to.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Condition {
    /// The expression.
    pub text: String,
    /// Attribute names by placeholder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, String>,
    /// Values by placeholder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Scalar>,
}

/// A stored item: the fingerprint of all of it, and what is judged by its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// The first 16 hexadecimal digits of the SHA-256 of the item's JSON with sorted names.
    pub digest: String,
    /// Those of its attributes that conditions and rules are about.
    pub attributes: BTreeMap<String, Scalar>,
    /// The attempts whose request is out, by a process record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub out: Vec<String>,
}

/// An attribute's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    /// Null.
    Null,
    /// A whole number.
    Number(u64),
    /// Text.
    Text(String),
}

/// What a client was answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// A read's item; none: there is none.
    Found(Option<Item>),
    /// The puts have taken effect; what was seen was seen.
    Done,
    /// A condition does not hold: of each put, whether its own did.
    Refused(Vec<ConditionHeld>),
    /// The operation has had no effect, for a reason that has nothing to do with the object.
    Failed(String),
    /// Nobody knows.
    Unknown,
}

/// Whether a put's condition held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConditionHeld {
    /// It did.
    Yes,
    /// It did not; the item that stands, where it was told.
    No(Option<Item>),
}
