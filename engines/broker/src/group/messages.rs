//! What goes into a group's state machine and what comes out: plain data.

use bytes::Bytes;
use kafka_protocol::error::ResponseError;

/// Milliseconds since some fixed moment.
pub(crate) type Millis = u64;

/// Stands for a request that waits for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ticket(pub(crate) u64);

/// The answer to a waiting request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GroupAnswer {
    Joined(Joined),
    /// `MEMBER_ID_REQUIRED`: come again with this id.
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

/// A member's share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Synced {
    pub(crate) protocol_type: String,
    pub(crate) protocol: String,
    pub(crate) assignment: Bytes,
}

/// Answers, in the order in which they came about.
pub(crate) type GroupAnswers = Vec<(Ticket, GroupAnswer)>;

/// A request to join.
#[derive(Debug, Clone)]
pub(crate) struct Join {
    /// Empty for a newcomer.
    pub(crate) member: String,
    pub(crate) instance: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) session_ms: Millis,
    pub(crate) rebalance_ms: Millis,
    pub(crate) protocol_type: String,
    /// Name and metadata, the preferred one first.
    pub(crate) protocols: Vec<(String, Bytes)>,
    /// Since version 4 a newcomer is first given an id and must come again with it.
    pub(crate) needs_id_first: bool,
    /// The id that a newcomer gets.
    pub(crate) fresh_id: String,
}

/// A request for one's share, with everybody's shares if it comes from the leader.
#[derive(Debug, Clone)]
pub(crate) struct Sync {
    pub(crate) caller: Caller,
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) assignments: Vec<(String, Bytes)>,
}

/// Who claims to be speaking, in every request but a join.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) member: String,
    pub(crate) instance: Option<String>,
    pub(crate) generation: i32,
}
