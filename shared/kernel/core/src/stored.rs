//! The stored form of a process record: its attributes by name, the same in every state store.
//!
//! The pattern's own attributes are plain, so that any client of the store can read and filter them;
//! what only Triad reads (steps, outbox, incidents) is JSON text: it is smaller than nested
//! attributes, and a three-step record has to stay within one write unit of DynamoDB.
//!
//! The projections by which a store finds records are here too: the due index ([`Order::due`]), the
//! attention index ([`Attention::of`]), the two search indexes ([`Order::search`], by the time of
//! submission) and the time at which a record may be deleted ([`Order::kept_from`]).

use serde::de::DeserializeOwned;
use triad_workflow::search::MAX_SEARCH_KEYS;
use triad_workflow::{Millis, SearchKey};

use crate::attention::Attention;
use crate::due::shard_of;
use crate::ids::Priority;
use crate::ids::{ClaimId, OrderId, Timestamp, Version};
use crate::order::{Claim, Order, ProcessState};

/// Names of attributes.
pub mod attribute {
    /// The order's id, as text: the key of the record.
    pub const ORDER_ID: &str = "OrderID";
    /// The record's version, as a number.
    pub const VERSION: &str = "Version";
    /// Name of the process state: one of [`ProcessState::NAMES`](crate::ProcessState::NAMES).
    pub const PROCESS_STATE: &str = "ProcessState";
    /// Id of the live claim; null while no Scheduler holds the order.
    pub const LOCKED_BY: &str = "LockedBy";
    /// When the Supervisor looks at the order if nothing has happened by then, in milliseconds
    /// since the Unix epoch; null of new and finished orders.
    pub const COMPLETE_BY: &str = "CompleteBy";
    /// Most failures of any one step in this run: of the compensations once the order is being
    /// compensated, of the actions and probes before. See
    /// [`Order::failure_count`](crate::Order::failure_count).
    pub const FAILURE_COUNT: &str = "FailureCount";
    /// The version of the workflow, as `<name>@<hash>`.
    pub const WORKFLOW: &str = "Workflow";
    /// `high`; absent for normal priority.
    pub const PRIORITY: &str = "Priority";
    /// Topic for status messages; absent for the topic `status`.
    pub const REPLY_TOPIC: &str = "ReplyTopic";
    /// W3C trace context of the submission; absent if it had none.
    pub const TRACE: &str = "TraceParent";
    /// When the submission was accepted, in milliseconds since the Unix epoch.
    pub const SUBMITTED_AT: &str = "SubmittedAt";
    /// When the order finished, in milliseconds since the Unix epoch; absent while it is in flight.
    pub const FINISHED_AT: &str = "FinishedAt";
    /// Why the order failed or is being compensated, as JSON; absent without such a cause.
    pub const CAUSE: &str = "Cause";
    /// Why an order in CompensationFailed was being compensated, as JSON; absent in other states.
    pub const COMPENSATED_FOR: &str = "CompensatedFor";
    /// The records of all steps, as a JSON list.
    pub const STEPS: &str = "Steps";
    /// Sequence of the last status message, as a number.
    pub const SEQUENCE: &str = "Sequence";
    /// Messages of the last write, and messages of earlier writes that may be unsent, as JSON.
    pub const OUTBOX: &str = "Outbox";
    /// The timeline, as a JSON list; absent while it is empty.
    pub const INCIDENTS: &str = "Incidents";
    /// How many lines the timeline no longer has, and the latest time of one of them, as JSON; absent if it
    /// has all.
    pub const DROPPED: &str = "IncidentsDropped";
    /// How often an operator has set the finished order going again; absent for 0.
    pub const RUN: &str = "Run";
    /// Since when the order is set aside until its workflow has room, in milliseconds since the
    /// Unix epoch; absent if it is not.
    pub const SET_ASIDE: &str = "SetAside";
    /// By when the order must have finished, in milliseconds since the Unix epoch; absent without such
    /// a time.
    pub const DEADLINE: &str = "Deadline";
    /// Since when the order is known to be late, in milliseconds since the Unix epoch; absent if it is
    /// not.
    pub const LATE_SINCE: &str = "LateSince";
    /// The operator who paused the order, the reason and the time, as JSON; absent if it is not paused.
    pub const PAUSED: &str = "Paused";
    /// The operator who closed the order, the reason and the time, as JSON; absent if it is not closed.
    pub const CLOSED: &str = "Closed";
    /// Events from outside that are kept or were taken, as a JSON list; absent if there are none.
    pub const EVENTS: &str = "Events";
    /// What was replaced in the details since they were submitted, as a JSON merge patch; absent if they are as
    /// submitted.
    pub const AMENDMENT: &str = "Amendment";
    /// The step of another order that has started this one, as JSON; absent of an order of an application.
    pub const PARENT: &str = "Parent";
    /// Before when no step starts, in milliseconds since the Unix epoch; absent of an order that started at once.
    pub const START_AT: &str = "StartAt";
    /// Id of the campaign that acted on the order last; absent if none has.
    pub const CAMPAIGN: &str = "Campaign";
    /// A number unique to the last write, by which its writer recognises it.
    pub const WRITE_TOKEN: &str = "WriteToken";
    /// Due index, hash key: number of the shard; absent if the Supervisor need not check the order.
    pub const DUE_SHARD: &str = "DueShard";
    /// Due index, sort key: when the Supervisor must check the order, in milliseconds since the Unix epoch; absent if
    /// it need not.
    pub const DUE_AT: &str = "DueAt";
    /// Attention index, hash key: `<reason>/<shard>`, as [`attention_key`](super::attention_key)
    /// makes it; absent if the order needs no operator.
    pub const ATTENTION: &str = "Attention";
    /// Attention index, sort key: since when the order needs an operator, in milliseconds since the
    /// Unix epoch; absent if it needs none.
    pub const ATTENTION_AT: &str = "AttentionAt";
    /// First search index, hash key: a search key of the order, as `name=value`; absent if it has none.
    /// The sort key is [`SUBMITTED_AT`].
    pub const SEARCH_1: &str = "Search1";
    /// Second search index, hash key: another search key of the order, as `name=value`; absent if it has
    /// fewer than two. The sort key is [`SUBMITTED_AT`].
    pub const SEARCH_2: &str = "Search2";
    /// When the record may be deleted, in seconds since the Unix epoch; absent while the record must be kept
    /// whatever its age.
    pub const EXPIRES_AT: &str = "ExpiresAt";
}
use attribute as attr;

/// Names of the attributes that are the hash keys of the search indexes. A search key may be in either, so a search
/// must read both.
pub const SEARCH: [&str; MAX_SEARCH_KEYS] = [attr::SEARCH_1, attr::SEARCH_2];

const HIGH: &str = "high";

/// The value of one attribute, as every state store can keep it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scalar {
    /// A text, which may be JSON.
    Text(String),
    /// A whole number, not negative.
    Number(u64),
    /// No value. When read, the same as an absent attribute.
    Null,
}

/// The error of [`decode`]: an attribute of a stored record is missing or cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("attribute {attribute} of a stored record: {why}")]
pub struct Damaged {
    /// Name of the attribute, one of [`attribute`].
    pub attribute: &'static str,
    /// What is wrong with it, for a person.
    pub why: String,
}

fn text(value: impl Into<String>) -> Scalar {
    Scalar::Text(value.into())
}

fn json(value: &impl serde::Serialize) -> Scalar {
    text(serde_json::to_string(value).expect("records hold only JSON values"))
}

/// The attributes of a record, without those that are absent. `token` is unique to the write.
/// `retention` is how many milliseconds a record is kept from [`Order::kept_from`] on.
#[must_use]
pub fn encode(order: &Order, token: u64, retention: Millis) -> Vec<(&'static str, Scalar)> {
    let mut attributes = Vec::with_capacity(24);
    let mut put = |name, value| attributes.push((name, value));
    put(attr::ORDER_ID, text(order.id.as_str()));
    put(attr::VERSION, Scalar::Number(order.version.0));
    put(attr::PROCESS_STATE, text(order.state.name()));
    put(
        attr::LOCKED_BY,
        order.state.locked_by().map_or(Scalar::Null, |c| text(&c.0)),
    );
    put(
        attr::COMPLETE_BY,
        order
            .complete_by()
            .map_or(Scalar::Null, |t| Scalar::Number(t.0)),
    );
    put(
        attr::FAILURE_COUNT,
        Scalar::Number(order.failure_count().into()),
    );
    put(attr::WORKFLOW, text(order.workflow.to_string()));
    put(attr::SUBMITTED_AT, Scalar::Number(order.submitted_at.0));
    put(attr::SEQUENCE, Scalar::Number(order.sequence.into()));
    put(attr::STEPS, json(&order.steps));
    put(attr::OUTBOX, json(&order.outbox));
    put(attr::WRITE_TOKEN, Scalar::Number(token));
    if order.priority == Priority::High {
        put(attr::PRIORITY, text(HIGH));
    }
    if let Some(topic) = &order.reply_topic {
        put(attr::REPLY_TOPIC, text(topic));
    }
    if let Some(trace) = &order.traceparent {
        put(attr::TRACE, text(trace));
    }
    if let Some(cause) = order.state.cause() {
        put(attr::CAUSE, json(cause));
    }
    if let ProcessState::CompensationFailed {
        compensated_for: Some(cause),
        ..
    } = &order.state
    {
        put(attr::COMPENSATED_FOR, json(cause));
    }
    if !order.incidents.is_empty() {
        put(attr::INCIDENTS, json(&order.incidents));
    }
    if let Some(dropped) = &order.dropped {
        put(attr::DROPPED, json(dropped));
    }
    if order.run > 0 {
        put(attr::RUN, Scalar::Number(order.run.into()));
    }
    if let Some(since) = order.set_aside {
        put(attr::SET_ASIDE, Scalar::Number(since.0));
    }
    if let Some(at) = order.start_at {
        put(attr::START_AT, Scalar::Number(at.0));
    }
    if let Some(at) = order.deadline {
        put(attr::DEADLINE, Scalar::Number(at.0));
    }
    if let Some(since) = order.late_since {
        put(attr::LATE_SINCE, Scalar::Number(since.0));
    }
    if let Some(hold) = &order.paused {
        put(attr::PAUSED, json(hold));
    }
    if let Some(hold) = &order.closed {
        put(attr::CLOSED, json(hold));
    }
    if !order.events.is_empty() {
        put(attr::EVENTS, json(&order.events));
    }
    if let Some(amendment) = &order.amendment {
        put(attr::AMENDMENT, json(amendment));
    }
    if let Some(parent) = &order.parent {
        put(attr::PARENT, json(parent));
    }
    if let Some(campaign) = &order.campaign {
        put(attr::CAMPAIGN, text(campaign.to_string()));
    }
    if let Some((kind, at)) = Attention::of(order) {
        let key = attention_key(kind, shard_of(&order.id));
        put(attr::ATTENTION, text(key));
        put(attr::ATTENTION_AT, Scalar::Number(at.0));
    }
    for (name, key) in SEARCH.into_iter().zip(&order.search) {
        put(name, text(key.to_string()));
    }
    if let Some(due) = order.due {
        put(attr::DUE_SHARD, Scalar::Number(order.due_shard().into()));
        put(attr::DUE_AT, Scalar::Number(due.0));
    }
    if let Some(at) = order.state.finished_at() {
        put(attr::FINISHED_AT, Scalar::Number(at.0));
    }
    if let Some(at) = expires_at(order, retention) {
        put(attr::EXPIRES_AT, Scalar::Number(at));
    }
    attributes
}

/// When a record may be deleted, in whole seconds since the Unix epoch, as DynamoDB's time to live
/// counts: `retention` after [`Order::kept_from`], rounded down. `None` while the record must be kept
/// whatever its age.
///
/// A store never lowers the stored time: if a write brings an earlier one, the later one stays. So a writer with a
/// shorter retention than others deletes nothing early.
#[must_use]
pub fn expires_at(order: &Order, retention: Millis) -> Option<u64> {
    order.kept_from().map(|at| at.plus(retention).0 / 1000)
}

/// Hash key of one shard of the attention index: `<reason>/<shard>`. The shard of an order is
/// [`shard_of`].
#[must_use]
pub fn attention_key(kind: Attention, shard: u32) -> String {
    format!("{}/{shard}", kind.name())
}

/// The error of an attribute that a store keeps in another type than those of [`Scalar`]: what it is, for a
/// person, such as `is neither text nor a number`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotScalar(pub String);

/// The record with these attributes. `read` gives the value of the attribute with that name: `None`
/// or [`Scalar::Null`] if it is absent, [`NotScalar`] if its type is none of those of [`Scalar`].
///
/// # Errors
/// [`Damaged`] with the first attribute that is missing although the record needs it, or that has another
/// type or value than it can have.
pub fn decode(read: impl Fn(&str) -> Result<Option<Scalar>, NotScalar>) -> Result<Order, Damaged> {
    let item = &Stored(read);
    let id = OrderId::new(item.string(attr::ORDER_ID)?).map_err(|e| bad(attr::ORDER_ID, e))?;
    Ok(Order {
        id,
        version: Version(item.integer(attr::VERSION)?),
        workflow: item
            .string(attr::WORKFLOW)?
            .parse()
            .map_err(|e| bad(attr::WORKFLOW, e))?,
        priority: match item.optional_string(attr::PRIORITY)?.as_deref() {
            None => Priority::Normal,
            Some(HIGH) => Priority::High,
            Some(other) => return Err(bad(attr::PRIORITY, format!("is {other:?}"))),
        },
        reply_topic: item.optional_string(attr::REPLY_TOPIC)?,
        traceparent: item.optional_string(attr::TRACE)?,
        submitted_at: Timestamp(item.integer(attr::SUBMITTED_AT)?),
        search: search(item)?,
        state: state(item)?,
        steps: parse(&item.string(attr::STEPS)?, attr::STEPS)?,
        sequence: item.small(attr::SEQUENCE)?,
        outbox: parse(&item.string(attr::OUTBOX)?, attr::OUTBOX)?,
        due: item.optional_integer(attr::DUE_AT)?.map(Timestamp),
        incidents: item.optional_json(attr::INCIDENTS)?.unwrap_or_default(),
        dropped: item.optional_json(attr::DROPPED)?,
        run: item
            .optional_integer(attr::RUN)?
            .map_or(Ok(0), |n| u32::try_from(n).map_err(|e| bad(attr::RUN, e)))?,
        set_aside: item.optional_integer(attr::SET_ASIDE)?.map(Timestamp),
        start_at: item.optional_integer(attr::START_AT)?.map(Timestamp),
        deadline: item.optional_integer(attr::DEADLINE)?.map(Timestamp),
        late_since: item.optional_integer(attr::LATE_SINCE)?.map(Timestamp),
        paused: item.optional_json(attr::PAUSED)?,
        closed: item.optional_json(attr::CLOSED)?,
        events: item.optional_json(attr::EVENTS)?.unwrap_or_default(),
        amendment: item.optional_json(attr::AMENDMENT)?,
        parent: item.optional_json(attr::PARENT)?,
        campaign: item
            .optional_string(attr::CAMPAIGN)?
            .map(|id| id.parse().map_err(|e| bad(attr::CAMPAIGN, e)))
            .transpose()?,
    })
}

fn search<R: ReadAttribute>(item: &Stored<R>) -> Result<Vec<SearchKey>, Damaged> {
    let mut keys = Vec::new();
    for name in SEARCH {
        let key = item.optional_string(name)?;
        keys.extend(
            key.map(|key| key.parse().map_err(|e| bad(name, e)))
                .transpose()?,
        );
    }
    Ok(keys)
}

fn state<R: ReadAttribute>(item: &Stored<R>) -> Result<ProcessState, Damaged> {
    let complete_by = item.optional_integer(attr::COMPLETE_BY)?.map(Timestamp);
    let locked_by = item.optional_string(attr::LOCKED_BY)?.map(ClaimId);
    let required = |value: Option<Timestamp>, name| value.ok_or_else(|| bad(name, "is missing"));
    let at = || {
        item.optional_integer(attr::FINISHED_AT)?
            .map(Timestamp)
            .ok_or_else(|| bad(attr::FINISHED_AT, "is missing"))
    };
    let cause = || parse(&item.string(attr::CAUSE)?, attr::CAUSE);
    Ok(match item.string(attr::PROCESS_STATE)?.as_str() {
        "Pending" => ProcessState::Pending { complete_by },
        "Processing" => ProcessState::Processing(Claim {
            locked_by: locked_by.ok_or_else(|| bad(attr::LOCKED_BY, "is missing"))?,
            complete_by: required(complete_by, attr::COMPLETE_BY)?,
        }),
        "Processed" => ProcessState::Processed { at: at()? },
        "Error" => ProcessState::Error {
            at: at()?,
            cause: cause()?,
        },
        "Compensating" => ProcessState::Compensating {
            locked_by,
            complete_by: required(complete_by, attr::COMPLETE_BY)?,
            cause: cause()?,
        },
        "Compensated" => ProcessState::Compensated {
            at: at()?,
            cause: cause()?,
        },
        "CompensationFailed" => ProcessState::CompensationFailed {
            at: at()?,
            cause: cause()?,
            compensated_for: item.optional_json(attr::COMPENSATED_FOR)?,
        },
        other => return Err(bad(attr::PROCESS_STATE, format!("is {other:?}"))),
    })
}

fn bad(attribute: &'static str, why: impl std::fmt::Display) -> Damaged {
    Damaged {
        attribute,
        why: why.to_string(),
    }
}

fn parse<T: DeserializeOwned>(json: &str, name: &'static str) -> Result<T, Damaged> {
    serde_json::from_str(json).map_err(|e| bad(name, e))
}

trait ReadAttribute: Fn(&str) -> Result<Option<Scalar>, NotScalar> {}

impl<R: Fn(&str) -> Result<Option<Scalar>, NotScalar>> ReadAttribute for R {}

/// Attributes, as a store reads them.
struct Stored<R>(R);

impl<R: ReadAttribute> Stored<R> {
    fn get(&self, name: &'static str) -> Result<Option<Scalar>, Damaged> {
        let found = (self.0)(name).map_err(|why| bad(name, why))?;
        Ok(found.filter(|value| *value != Scalar::Null))
    }

    fn optional_string(&self, name: &'static str) -> Result<Option<String>, Damaged> {
        match self.get(name)? {
            None => Ok(None),
            Some(Scalar::Text(text)) => Ok(Some(text)),
            Some(_) => Err(bad(name, "is not text")),
        }
    }

    fn string(&self, name: &'static str) -> Result<String, Damaged> {
        self.optional_string(name)?
            .ok_or_else(|| bad(name, "is missing"))
    }

    fn optional_integer(&self, name: &'static str) -> Result<Option<u64>, Damaged> {
        match self.get(name)? {
            None => Ok(None),
            Some(Scalar::Number(number)) => Ok(Some(number)),
            Some(_) => Err(bad(name, "is not a number")),
        }
    }

    fn integer(&self, name: &'static str) -> Result<u64, Damaged> {
        self.optional_integer(name)?
            .ok_or_else(|| bad(name, "is missing"))
    }

    fn small(&self, name: &'static str) -> Result<u32, Damaged> {
        u32::try_from(self.integer(name)?).map_err(|e| bad(name, e))
    }

    fn optional_json<T: DeserializeOwned>(&self, name: &'static str) -> Result<Option<T>, Damaged> {
        self.optional_string(name)?
            .map(|json| parse(&json, name))
            .transpose()
    }
}
