//! A recorded history: a file of JSON lines, each with one operation on one object.
//!
//! An object is an order (its details and its process record, which are created together) or one record of the table
//! `control`. An operation has the moments at which it was sent and answered (by an event number that rises, and by
//! the clock), the request and the answer. An unanswered operation may have taken effect at any time since it was
//! sent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// The object: `order/<id>` or `control/<key>`.
    pub object: String,
    /// When it was sent.
    pub began: Moment,
    /// When it was answered, or given up.
    pub ended: Moment,
    /// The request.
    pub asked: ClientOperation,
    /// The answer.
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

/// One stored item of an order or of the installation, named by its table.
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

/// A client's request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientOperation {
    /// A consistent read.
    Read(Cell),
    /// Puts that take effect together or not at all.
    Put {
        /// At most one for each cell.
        puts: Vec<Put>,
        /// A transaction's token: with the same one it takes effect once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<String>,
    },
    /// Messages and effects that were seen: their attempts must have been put in force by an earlier write.
    Seen(Vec<Sighting>),
    /// An operation that the judge does not support: its object cannot be judged.
    Other(String),
}

/// Evidence of an attempt outside of the store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sighting {
    /// Kind of the evidence.
    pub sign: Sign,
    /// The attempt: `<step>/do/<number>` or `<step>/compensate/<number>`.
    pub attempt: String,
}

/// Kind of evidence of an attempt.
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
    /// The cell.
    pub cell: Cell,
    /// The new item.
    pub item: Item,
    /// The condition; `None`: unconditional.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
}

/// A condition as sent, with the names and values that it refers to.
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

/// A stored item: the fingerprint of all of it, and the parts that the judge evaluates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// The first 16 hexadecimal digits of the SHA-256 of the item's JSON with sorted names.
    pub digest: String,
    /// The attributes that conditions and rules use.
    pub attributes: BTreeMap<String, Scalar>,
    /// For a process record: the attempts whose request is out.
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

/// The answer to a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// A read's item; `None` if there is none.
    Found(Option<Item>),
    /// The puts have taken effect; for evidence: it was seen.
    Done,
    /// A condition is false: for each put, whether its own condition held.
    Refused(Vec<ConditionHeld>),
    /// The operation had no effect, for a reason outside of the object.
    Failed(String),
    /// The result is unknown.
    Unknown,
}

/// Whether a put's condition held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConditionHeld {
    /// It was true.
    Yes,
    /// It was false; the existing item, if the answer has it.
    No(Option<Item>),
}
