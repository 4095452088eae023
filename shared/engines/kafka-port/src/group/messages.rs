//! Input and output of a group's state machine, as plain data.

use bytes::Bytes;
use kafka_protocol::error::ResponseError;

/// Milliseconds since some fixed moment.
pub(crate) type Millis = u64;

/// Identifies a request that waits for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ticket(pub(crate) u64);

/// The answer to a waiting request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GroupAnswer {
    Joined(Joined),
    /// `MEMBER_ID_REQUIRED`: the member must join again with this id.
    MemberIdRequired(String),
    JoinFailed(ResponseError),
    Synced(Synced),
    SyncFailed(ResponseError),
}

/// A member's view of a completed join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Joined {
    pub(crate) generation: i32,
    pub(crate) protocol_type: String,
    pub(crate) protocol: String,
    pub(crate) leader: String,
    pub(crate) member: String,
    /// Member id, instance id and metadata of all, for the leader only.
    pub(crate) members: Vec<(String, Option<String>, Bytes)>,
}

/// A member's assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Synced {
    pub(crate) protocol_type: String,
    pub(crate) protocol: String,
    pub(crate) assignment: Bytes,
}

/// Answers, in the order in which they arose.
pub(crate) type GroupAnswers = Vec<(Ticket, GroupAnswer)>;

/// A request to join.
#[derive(Debug, Clone)]
pub(crate) struct Join {
    /// Empty for a new member.
    pub(crate) member: String,
    pub(crate) instance: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) session_ms: Millis,
    pub(crate) rebalance_ms: Millis,
    pub(crate) protocol_type: String,
    /// Name and metadata, the preferred one first.
    pub(crate) protocols: Vec<(String, Bytes)>,
    /// Since version 4 a new member first gets an id and must join again with it.
    pub(crate) needs_id_first: bool,
    /// The id for a new member.
    pub(crate) fresh_id: String,
}

/// A request for the member's assignment; the leader's request has all assignments.
#[derive(Debug, Clone)]
pub(crate) struct Sync {
    pub(crate) caller: Caller,
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) assignments: Vec<(String, Bytes)>,
}

/// The claimed member and generation of every request except a join.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) member: String,
    pub(crate) instance: Option<String>,
    pub(crate) generation: i32,
}
