//! The ports: state store, definition store, bus, clock and entropy.
//!
//! Store and bus take batches: many independent writes at once, many messages under one
//! acknowledgement. Each item has its own result, in the order of the arguments, and one item's
//! failure says nothing about another's.

use std::future::Future;
use std::sync::Arc;

use serde_json::Value;
use triad_core::{Attention, Envelope, Failure, Order, OrderId, Timestamp, Version, WorkflowRef};
use triad_workflow::{DefinitionHash, Millis, WorkflowName};

/// A store's failure, classified where it was seen. Conflicts are not failures: see [`Written`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// May pass: throttled, timed out, not reachable.
    #[error("the store failed for now: {0}")]
    Transient(String),
    /// Passes when somebody mends the installation: a right, credentials, a table, a key that is not
    /// as it must be. It says nothing about the item, so nothing is given up over it.
    #[error("the store cannot be used as it is set up: {0}")]
    Configuration(String),
    /// Will not pass, and is about this item alone: it cannot be read, or is too large.
    #[error("the store refused the item: {0}")]
    Item(String),
}

/// A bus's failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// May pass: not reachable, not enough replicas, queue full.
    #[error("the bus failed for now: {0}")]
    Transient(String),
    /// Not acknowledged in time, while others may be: its partition has no leader, say. It may still be
    /// delivered, and what else is meant for that partition waits behind it.
    #[error("the bus does not get on with it: {0}")]
    Late(String),
    /// The message is larger than the topic takes.
    #[error("the message is too large: {0}")]
    TooLarge(String),
    /// Will not pass: no such topic, no permission.
    #[error("the bus refused: {0}")]
    Permanent(String),
}

impl BusError {
    /// Whether it is the message's topic or partition that takes nothing: trying again soon is in vain,
    /// and what goes elsewhere gets through.
    #[must_use]
    pub fn is_of_its_topic(&self) -> bool {
        matches!(self, Self::Late(_) | Self::Permanent(_))
    }
}

/// An order to be stored for the first time.
#[derive(Debug, Clone)]
pub struct NewOrder {
    /// Its process record.
    pub order: Order,
    /// Its details.
    pub details: Arc<Value>,
    /// Digest of the submission, to tell a repetition from a conflict.
    pub digest: String,
}

/// What came of storing a new order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// Both items were written.
    Created,
    /// The order exists; nothing was written.
    Exists {
        /// Digest of the submission that stands.
        digest: String,
    },
}

/// One conditional write of a process record.
#[derive(Debug, Clone)]
pub struct Write {
    /// The version that must still stand.
    pub expected: Version,
    /// The next version.
    pub next: Arc<Order>,
    /// Unique to this write; a write that meets its own token has succeeded before.
    pub token: u64,
}

/// What came of a conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It took effect, now or when it was sent before.
    Written,
    /// Somebody else was faster, or the record is gone.
    Conflict,
}

/// A page of the due index.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DuePage {
    /// Orders whose hint has passed, earliest first. A hint, and no more.
    pub rows: Vec<DueRow>,
    /// Where the next page begins; `None` at the end. A page may be empty and not the last.
    pub next: Option<String>,
}

/// A row of the due index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueRow {
    /// The order.
    pub order: OrderId,
    /// Its workflow, where the index has it.
    pub workflow: Option<WorkflowName>,
}

/// A stored record, or its row in an index, that cannot be read. Whoever goes through many reports
/// it and goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The order's id, as it is stored; it may be none that an order can have.
    pub order_id: String,
    /// Why, for people.
    pub why: String,
}

/// A page of process records.
#[derive(Debug, Clone, Default)]
pub struct OrderPage {
    /// The records.
    pub orders: Vec<Order>,
    /// Those of the page that cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<String>,
}

/// The process records and the order details.
pub trait StateStore: Send + Sync + 'static {
    /// Stores new orders, details and record in one transaction each.
    fn create(
        &self,
        orders: Vec<NewOrder>,
    ) -> impl Future<Output = Vec<Result<Created, StoreError>>> + Send;

    /// Carries out conditional writes, each of a different order.
    fn commit(
        &self,
        writes: Vec<Write>,
    ) -> impl Future<Output = Vec<Result<Written, StoreError>>> + Send;

    /// Reads process records, consistently. `None`: no such order, or expired.
    fn load(
        &self,
        orders: Vec<OrderId>,
    ) -> impl Future<Output = Vec<Result<Option<Order>, StoreError>>> + Send;

    /// Reads process records, eventually consistently: what it finds may be a moment old, and a
    /// record that was just created may be missing. A store that has only consistent reads uses
    /// them. A decision on such a record is as good as its conditional write; one that writes
    /// nothing is not.
    fn load_eventually(
        &self,
        orders: Vec<OrderId>,
    ) -> impl Future<Output = Vec<Result<Option<Order>, StoreError>>> + Send {
        self.load(orders)
    }

    /// Reads order details, which never change once they are written.
    fn details(
        &self,
        orders: Vec<OrderId>,
    ) -> impl Future<Output = Vec<Result<Option<Arc<Value>>, StoreError>>> + Send;

    /// Reads a page of one shard of the due index: hints at or before `until`.
    fn due(
        &self,
        shard: u32,
        until: Timestamp,
        limit: u32,
        page: Option<String>,
    ) -> impl Future<Output = Result<DuePage, StoreError>> + Send;

    /// Reads a page of all process records in a state, or in any. For operators: it reads the
    /// whole table.
    fn list(
        &self,
        state: Option<String>,
        page: Option<String>,
    ) -> impl Future<Output = Result<OrderPage, StoreError>> + Send;
}

/// The published workflow definitions.
pub trait DefinitionStore: Send + Sync + 'static {
    /// Stores a definition's canonical JSON under its identity and makes it the present version
    /// of its name.
    fn publish(
        &self,
        definition: WorkflowRef,
        canonical_json: String,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The present version of a workflow.
    fn current(
        &self,
        name: WorkflowName,
    ) -> impl Future<Output = Result<Option<DefinitionHash>, StoreError>> + Send;

    /// A definition's canonical JSON.
    fn definition(
        &self,
        definition: WorkflowRef,
    ) -> impl Future<Output = Result<Option<String>, StoreError>> + Send;
}

/// The bus.
pub trait Bus: Send + Sync + 'static {
    /// Sends messages and waits until the bus has acknowledged each. Messages of one topic and
    /// key arrive in the order of the argument.
    fn publish(
        &self,
        messages: Vec<Envelope>,
    ) -> impl Future<Output = Vec<Result<(), BusError>>> + Send;
}

/// Time.
pub trait Clock: Send + Sync + 'static {
    /// Now, on this machine's clock.
    fn now(&self) -> Timestamp;
    /// Completes after a span.
    fn sleep(&self, span: Millis) -> impl Future<Output = ()> + Send;
}

/// Randomness: claim ids, write tokens, jitter.
pub trait Entropy: Send + Sync + 'static {
    /// 64 random bits.
    fn next_u64(&self) -> u64;
}

// Handlers own their ports; several handlers share one through an `Arc`.

impl<T: StateStore> StateStore for Arc<T> {
    fn create(
        &self,
        orders: Vec<NewOrder>,
    ) -> impl Future<Output = Vec<Result<Created, StoreError>>> + Send {
        (**self).create(orders)
    }
    fn commit(
        &self,
        writes: Vec<Write>,
    ) -> impl Future<Output = Vec<Result<Written, StoreError>>> + Send {
        (**self).commit(writes)
    }
    fn load(
        &self,
        orders: Vec<OrderId>,
    ) -> impl Future<Output = Vec<Result<Option<Order>, StoreError>>> + Send {
        (**self).load(orders)
    }
    fn load_eventually(
        &self,
        orders: Vec<OrderId>,
    ) -> impl Future<Output = Vec<Result<Option<Order>, StoreError>>> + Send {
        (**self).load_eventually(orders)
    }
    fn details(
        &self,
        orders: Vec<OrderId>,
    ) -> impl Future<Output = Vec<Result<Option<Arc<Value>>, StoreError>>> + Send {
        (**self).details(orders)
    }
    fn due(
        &self,
        shard: u32,
        until: Timestamp,
        limit: u32,
        page: Option<String>,
    ) -> impl Future<Output = Result<DuePage, StoreError>> + Send {
        (**self).due(shard, until, limit, page)
    }
    fn list(
        &self,
        state: Option<String>,
        page: Option<String>,
    ) -> impl Future<Output = Result<OrderPage, StoreError>> + Send {
        (**self).list(state, page)
    }
}
impl<T: DefinitionStore> DefinitionStore for Arc<T> {
    fn publish(
        &self,
        definition: WorkflowRef,
        canonical_json: String,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        (**self).publish(definition, canonical_json)
    }
    fn current(
        &self,
        name: WorkflowName,
    ) -> impl Future<Output = Result<Option<DefinitionHash>, StoreError>> + Send {
        (**self).current(name)
    }
    fn definition(
        &self,
        definition: WorkflowRef,
    ) -> impl Future<Output = Result<Option<String>, StoreError>> + Send {
        (**self).definition(definition)
    }
}
impl<T: Bus> Bus for Arc<T> {
    fn publish(
        &self,
        messages: Vec<Envelope>,
    ) -> impl Future<Output = Vec<Result<(), BusError>>> + Send {
        (**self).publish(messages)
    }
}
impl<T: Clock> Clock for Arc<T> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
    fn sleep(&self, span: Millis) -> impl Future<Output = ()> + Send {
        (**self).sleep(span)
    }
}
impl<T: Entropy> Entropy for Arc<T> {
    fn next_u64(&self) -> u64 {
        (**self).next_u64()
    }
}

/// A row of the attention index.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionRow {
    /// The order.
    pub order: OrderId,
    /// Since when.
    pub at: Timestamp,
    /// Why, for those that have a cause.
    pub cause: Option<Failure>,
    /// The pinned definition, where the index has it.
    pub workflow: Option<WorkflowRef>,
}

/// A page of the attention index.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AttentionPage {
    /// The rows, oldest first.
    pub rows: Vec<AttentionRow>,
    /// Those of the page that cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<String>,
}

/// A stored version of a workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredVersion {
    /// Name and hash.
    pub definition: WorkflowRef,
    /// Whether new orders run it.
    pub is_current: bool,
    /// When it was published last.
    pub published_at: Timestamp,
}

/// What only operators ask of the store.
pub trait OperatorStore: Send + Sync + 'static {
    /// Reads a page of one shard of the attention index, of as many shards as the due index. A
    /// hint, as that one is.
    fn attention(
        &self,
        kind: Attention,
        shard: u32,
        page: Option<String>,
    ) -> impl Future<Output = Result<AttentionPage, StoreError>> + Send;

    /// All stored versions of all workflows.
    fn versions(&self) -> impl Future<Output = Result<Vec<StoredVersion>, StoreError>> + Send;

    /// Removes a version. What is not there is removed already; the present version of a name is
    /// not removed: that is [`StoreError::Item`].
    fn remove(
        &self,
        definition: WorkflowRef,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}
