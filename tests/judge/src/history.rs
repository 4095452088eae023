//! A recorded history: a file of JSON lines, each with one operation on one object.
//!
//! An object is an order (its details and its process record, which are created together) or one record of the table
//! `control`. An operation has the request, the answer, and the times at which it was sent and answered (as an
//! increasing event number, and by the clock). An operation without an answer may have taken effect at any time after
//! it was sent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// The object: `order/<id>` or `control/<key>`.
    pub object: String,
    /// When the request was sent.
    pub began: Moment,
    /// When the answer came, or the client stopped waiting.
    pub ended: Moment,
    /// The request.
    pub asked: ClientOperation,
    /// The answer.
    pub answer: Answer,
}

/// A time in the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Moment {
    /// Microseconds since the Unix epoch, by a clock that is never set back.
    pub at_us: u64,
    /// The event's number in its recording, which orders events of the same microsecond.
    pub event: u64,
}

/// A stored item of an object, by the table that holds it.
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
    /// A consistent read of an item.
    Read(Cell),
    /// Puts that take effect together or not at all.
    Put {
        /// The puts, at most one for each item.
        puts: Vec<Put>,
        /// The transaction's client token: requests with the same token take effect once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<String>,
    },
    /// Messages and effects outside of the store. The attempt of each must have been started by an earlier write.
    Seen(Vec<Sighting>),
    /// An operation that the judge does not support; its object is then undecided.
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
    /// A request to an agent, in the agent's topic.
    Request,
    /// An agent's reply, in the Scheduler's topic.
    Reply,
    /// An effect or a compensation at the remote service, in the service's ledger.
    Effect,
}

/// One conditional put.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Put {
    /// Which item is put.
    pub cell: Cell,
    /// The new item.
    pub item: Item,
    /// The condition; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
}

/// A condition as the client sent it, with the names and values that it refers to.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Condition {
    /// The expression.
    pub text: String,
    /// Attribute names, by placeholder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, String>,
    /// Values, by placeholder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Scalar>,
}

/// A stored item: a hash of all of it, and the parts that the judge evaluates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// The first 16 hexadecimal digits of the SHA-256 of the item's JSON with sorted names.
    pub digest: String,
    /// The attributes that conditions or rules refer to.
    pub attributes: BTreeMap<String, Scalar>,
    /// For a process record: the attempts that are running.
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
    /// The item that a read has returned; `None` if there was none.
    Found(Option<Item>),
    /// The puts have taken effect. For evidence outside of the store: it exists.
    Done,
    /// A condition was false. For each put, whether its own condition was true.
    Refused(Vec<ConditionHeld>),
    /// The operation had no effect, for a reason that does not concern the object.
    Failed(String),
    /// Whether the operation took effect is unknown.
    Unknown,
}

/// Whether the condition of a put was true.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConditionHeld {
    /// The condition was true.
    Yes,
    /// The condition was false; with the existing item if the answer contains it.
    No(Option<Item>),
}
