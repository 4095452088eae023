//! The ports: state store, definition store, bus, clock and entropy.
//!
//! Store and bus take batches: many independent writes at once, many messages under one
//! acknowledgement. Each item has its own result, in the order of the arguments, and one item's
//! failure says nothing about another's.

use std::collections::BTreeMap;
use std::future::{Future, ready};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use triad_core::{
    Attention, Envelope, Failure, Order, OrderId, OutputDigest, Timestamp, Version, WorkflowRef,
};
use triad_workflow::{DefinitionHash, Millis, SearchKey, WorkflowName};

/// Why the store failed; the text is for people. A lost race is no failure: see [`Written`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Transient: the store is throttled, has timed out or cannot be reached. Try again later.
    #[error("the store failed, try again later: {0}")]
    Transient(String),
    /// Needs a repair by an operator: a permission, credentials, a table or a key is wrong. It does not concern the
    /// item, so no order is given up because of it.
    #[error("the store needs a repair of its setup: {0}")]
    Configuration(String),
    /// Permanent, and only about this item: it cannot be read, is missing, or is larger than the store takes.
    #[error("{0}")]
    Item(String),
}

/// Why the bus has not acknowledged a message; the text is for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// Transient: no broker can be reached, too few replicas are in sync, or the client's queue is full. Try again
    /// later.
    #[error("the bus failed, try again later: {0}")]
    Transient(String),
    /// Not acknowledged in time, though other topics or partitions may work: this one has no
    /// leader, for instance. The message may still be delivered, and later messages for its
    /// partition wait behind it.
    #[error("the bus has not acknowledged the message in time: {0}")]
    Late(String),
    /// The message is larger than the topic or the client takes. It cannot be sent until an operator changes the
    /// topic's settings.
    #[error("the message is too large: {0}")]
    TooLarge(String),
    /// Needs a repair by an operator: there is no such topic, or no permission.
    #[error("the bus refused the message: {0}")]
    Permanent(String),
}

impl BusError {
    /// Whether the message's own topic or partition does not take it: [`Late`](Self::Late),
    /// [`TooLarge`](Self::TooLarge) or [`Permanent`](Self::Permanent). To send it again soon would fail too,
    /// but other messages are delivered.
    #[must_use]
    pub fn is_of_its_topic(&self) -> bool {
        matches!(self, Self::Late(_)) || self.needs_an_operator()
    }

    /// Whether only an operator can repair it: [`TooLarge`](Self::TooLarge), because Triad bounds its messages and a
    /// topic must take them, or [`Permanent`](Self::Permanent).
    #[must_use]
    pub fn needs_an_operator(&self) -> bool {
        matches!(self, Self::TooLarge(_) | Self::Permanent(_))
    }
}

/// An order that is to be stored for the first time.
#[derive(Debug, Clone)]
pub struct NewOrder {
    /// The process record: its first version.
    pub order: Order,
    /// The order's details, as submitted.
    pub details: Arc<Value>,
    /// Digest of the whole submission. The same digest means the same submission again; another one
    /// means a conflict.
    pub digest: String,
    /// The messages of this version for others than handlers, in the order of sending: the status `received`. A store
    /// that has their topics stores them in the same transaction: [`Created::WithMessages`].
    pub messages: Vec<Envelope>,
}

/// Result of storing a new order: it was stored, or its id is taken. Neither is an error of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// Both items were written: the process record and the details. None of the messages is known to be sent.
    Created,
    /// Both items were written, and all messages, at least one, are in their topics, in one transaction. A store whose
    /// topics are elsewhere never answers this.
    WithMessages,
    /// An order with this id is stored already; nothing was written.
    Exists {
        /// Digest of the submission that is stored. If it equals [`NewOrder::digest`], the same submission
        /// has come again; another digest means a conflict. Empty if the stored details, and with them
        /// the digest, have expired.
        digest: String,
    },
}

impl Created {
    /// Whether the order was stored.
    #[must_use]
    pub fn is_new(&self) -> bool {
        matches!(self, Self::Created | Self::WithMessages)
    }
}

/// One conditional write of a process record: it replaces the record if the stored version is
/// `expected`.
#[derive(Debug, Clone)]
pub struct Write {
    /// The version that must be stored for the write to take effect.
    pub expected: Version,
    /// The record to store.
    pub next: Arc<Order>,
    /// Random number, unique to this write. If the stored record carries the same token, this write
    /// took effect before, and the answer is [`Written::Written`].
    pub token: u64,
    /// The messages of this version for others than handlers, in the order of sending: statuses and alerts. A store
    /// that has their topics stores them in the same transaction: [`Written::WithMessages`]. If it does not store
    /// them all, because a topic does not take one, it stores none and writes the record alone.
    pub messages: Vec<Envelope>,
    /// The due time to store instead of the one of `next` where the messages are not stored with the record, so that
    /// a sweep sends them if the writer dies first. Only a store that has their topics uses it: elsewhere the writer's
    /// input is delivered again. `None`: the one of `next`.
    pub due_if_unsent: Option<Timestamp>,
}

impl Write {
    /// A write without messages.
    #[must_use]
    pub fn silent(expected: Version, next: Arc<Order>, token: u64) -> Self {
        Self {
            expected,
            next,
            token,
            messages: Vec::new(),
            due_if_unsent: None,
        }
    }

    /// The record to store if the messages are not stored with it.
    #[must_use]
    pub fn without_messages(&self) -> Arc<Order> {
        match self.due_if_unsent {
            None => self.next.clone(),
            due => Arc::new(Order {
                due,
                ..(*self.next).clone()
            }),
        }
    }
}

/// Result of a conditional write. Neither variant is an error. A write with an unknown result ends with a
/// [`StoreError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The write took effect: now, or when it was sent before with the same token. None of its messages is known to
    /// be sent.
    Written,
    /// The write took effect now, and all its messages, at least one, are in their topics, in one transaction. A store
    /// whose topics are elsewhere never answers this.
    WithMessages,
    /// Nothing was written: the stored version is not the expected one, because another process wrote first,
    /// or there is no such record any more.
    Conflict,
}

impl Written {
    /// Whether the write took effect.
    #[must_use]
    pub fn is_written(self) -> bool {
        self != Self::Conflict
    }
}

/// Outputs of one order that lie beside its record.
#[derive(Debug, Clone)]
pub struct OutputsOf {
    /// The order.
    pub order: OrderId,
    /// The digests of the outputs, which its record names.
    pub digests: Vec<OutputDigest>,
}

/// A page of one shard of the due index: rows, and where the next page begins.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DuePage {
    /// Rows whose hint is not after the moment that was asked for, earliest hint first. A row is
    /// only a hint: it may be stale, and one that was just written may be missing.
    pub rows: Vec<DueRow>,
    /// Where the next page begins; `None` at the end. A page may be empty and not the last one.
    pub next: Option<String>,
}

/// One row of the due index: an order whose hint is at or before the requested moment ([`StateStore::due`]). The row
/// may be stale: its reader loads the order, and decides by its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueRow {
    /// The order's id. The order may have been written again since, or may not be stored any more.
    pub order: OrderId,
    /// The name of the order's workflow; `None` if the row has no workflow, or one that cannot be read. It is
    /// used only to find the orders of a workflow that are set aside.
    pub workflow: Option<WorkflowName>,
}

/// A stored record, or a row of an index, that cannot be read. A search reports it and continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreadable {
    /// The order's id as it is stored. It may break the rules of an [`OrderId`], or be empty.
    pub order_id: String,
    /// Why it cannot be read, for people.
    pub why: String,
}

/// A page of the table of process records: those that can be read, and those that cannot.
#[derive(Debug, Clone, Default)]
pub struct OrderPage {
    /// The records, in the store's own order: in SQLite the newest first, in DynamoDB by a hash of their ids. A page may be
    /// empty and not the last one.
    pub orders: Vec<Order>,
    /// Records of this page that cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// This page, to be read again: without orders that have come before it since. `None`: as it was asked for.
    pub this: Option<String>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<String>,
}

/// The process records and the order details.
///
/// Every method that takes several items answers with one result for each, in their order; the
/// result of one says nothing about another.
pub trait StateStore: Send + Sync + 'static {
    /// Stores new orders. Each order's record and details are written in one transaction: either both are stored, or
    /// neither. If an order with the same id is stored already, nothing is written and the answer is
    /// [`Created::Exists`]; its digest shows whether it is the same submission or a conflict.
    ///
    /// # Errors
    /// For each order: [`StoreError::Transient`] or [`StoreError::Configuration`] if the store failed; the
    /// order may be stored all the same, and to create it again is safe. [`StoreError::Item`] if the order is
    /// larger than the store takes.
    fn create(
        &self,
        orders: Vec<NewOrder>,
    ) -> impl Future<Output = Vec<Result<Created, StoreError>>> + Send;

    /// Executes conditional writes. The caller passes at most one write for an order. The [new
    /// outputs](Order::new_outputs) of a record are stored before it, or together with it: a record never names an
    /// output that is not stored.
    ///
    /// # Errors
    /// For each write: [`StoreError::Transient`] or [`StoreError::Configuration`] if the store failed; the
    /// write may have taken effect all the same, and repeating it with the same token is safe.
    /// [`StoreError::Item`] if the record can never be written, for example because it is larger than the
    /// store takes.
    fn commit(
        &self,
        writes: Vec<Write>,
    ) -> impl Future<Output = Vec<Result<Written, StoreError>>> + Send;

    /// Reads process records consistently: every write that was answered before is seen.
    /// `Ok(None)`: there is no such order, or it has expired.
    ///
    /// # Errors
    /// For each order: [`StoreError::Transient`] or [`StoreError::Configuration`] if the store
    /// cannot be read, [`StoreError::Item`] if the record cannot be read.
    fn load(
        &self,
        orders: Vec<OrderId>,
    ) -> impl Future<Output = Vec<Result<Option<Order>, StoreError>>> + Send;

    /// Reads process records by eventually consistent reads: a record may be a moment old, and one
    /// that was just created may be missing. `Ok(None)`: no such order was found, or it has expired. The
    /// default reads consistently, as [`load`](Self::load) does, for stores that have only such reads.
    ///
    /// A decision on such a record is safe if its conditional write follows; a decision to write
    /// nothing is not.
    ///
    /// # Errors
    /// For each order: [`StoreError::Transient`] or [`StoreError::Configuration`] if the store
    /// cannot be read, [`StoreError::Item`] if the record cannot be read.
    fn load_eventually(
        &self,
        orders: Vec<OrderId>,
    ) -> impl Future<Output = Vec<Result<Option<Order>, StoreError>>> + Send {
        self.load(orders)
    }

    /// Reads order details, which never change once they are written. `Ok(None)`: there is no such
    /// order, or it has expired.
    ///
    /// # Errors
    /// For each order: [`StoreError::Transient`] or [`StoreError::Configuration`] if the store
    /// cannot be read, [`StoreError::Item`] if the details cannot be read.
    fn details(
        &self,
        orders: Vec<OrderId>,
    ) -> impl Future<Output = Vec<Result<Option<Arc<Value>>, StoreError>>> + Send;

    /// Reads outputs that lie beside records. The answer has the outputs of each order in the order of its digests. An
    /// output never changes.
    ///
    /// # Errors
    /// For each order: [`StoreError::Transient`] or [`StoreError::Configuration`] if the store cannot be read,
    /// [`StoreError::Item`] if an output is not stored or cannot be read.
    fn outputs(
        &self,
        wanted: Vec<OutputsOf>,
    ) -> impl Future<Output = Vec<Result<Vec<Arc<Value>>, StoreError>>> + Send;

    /// Reads a page of one shard of the due index: at most `limit` rows whose hint is at or before
    /// `until`, earliest first. `shard` is below [`SHARDS`](triad_core::due::SHARDS) for orders in
    /// flight; the [`ASIDE_SHARDS`](triad_core::due::ASIDE_SHARDS) behind those hold orders that
    /// are set aside. `page` is [`DuePage::next`] of the page before; `None` asks for the first
    /// one.
    ///
    /// # Errors
    /// [`StoreError::Transient`] or [`StoreError::Configuration`] if the index cannot be read,
    /// [`StoreError::Item`] if `page` is not the name of a page of this index.
    fn due(
        &self,
        shard: u32,
        until: Timestamp,
        limit: u32,
        page: Option<String>,
    ) -> impl Future<Output = Result<DuePage, StoreError>> + Send;

    /// Reads a page of the process records whose state has the name `state`, such as `Error`; with a `state`
    /// of `None`, of all records. It is for operators only, because all its pages together read the whole
    /// table. `page` is [`OrderPage::next`] of the page before; `None` asks for the first one. A record that
    /// cannot be read is in [`OrderPage::unreadable`].
    ///
    /// # Errors
    /// [`StoreError::Transient`] or [`StoreError::Configuration`] if the table cannot be read.
    fn list(
        &self,
        state: Option<String>,
        page: Option<String>,
    ) -> impl Future<Output = Result<OrderPage, StoreError>> + Send;
}

/// The published workflow definitions.
pub trait DefinitionStore: Send + Sync + 'static {
    /// Stores a definition's canonical JSON under its name and hash, and makes it the current version of its name:
    /// new orders run it from then on. Publishing the current version again succeeds and changes nothing:
    /// [`StoredVersion::published_at`] is when it became the current one.
    ///
    /// # Errors
    /// [`StoreError`] if the store failed. The definition may be published all the same, and to publish it
    /// again is safe.
    fn publish(
        &self,
        definition: WorkflowRef,
        canonical_json: String,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The hash of the current version of a workflow; `Ok(None)`: no workflow of this name is published.
    ///
    /// # Errors
    /// [`StoreError::Transient`] or [`StoreError::Configuration`] if the store cannot be read, [`StoreError::Item`]
    /// if the entry for this name cannot be read.
    fn current(
        &self,
        name: WorkflowName,
    ) -> impl Future<Output = Result<Option<DefinitionHash>, StoreError>> + Send;

    /// The canonical JSON of one version; `Ok(None)`: this version was never published, or was removed.
    ///
    /// # Errors
    /// [`StoreError::Transient`] or [`StoreError::Configuration`] if the store cannot be read, [`StoreError::Item`]
    /// if this version cannot be read.
    fn definition(
        &self,
        definition: WorkflowRef,
    ) -> impl Future<Output = Result<Option<String>, StoreError>> + Send;
}

/// The bus: sends messages to topics and waits for their acknowledgement. The implementation bounds the wait.
pub trait Bus: Send + Sync + 'static {
    /// Sends messages and waits until the bus has acknowledged or refused each. The answer has one
    /// result for each message, in their order. Messages of one topic and key arrive in the order
    /// of the argument.
    ///
    /// # Errors
    /// For each message that was not acknowledged: [`BusError`], by its cause. After [`BusError::Transient`]
    /// and [`BusError::Late`] the message may still be delivered.
    fn publish(
        &self,
        messages: Vec<Envelope>,
    ) -> impl Future<Output = Vec<Result<(), BusError>>> + Send;
}

/// Time, real or simulated: the only clock that handlers read.
pub trait Clock: Send + Sync + 'static {
    /// Now, by this machine's clock: milliseconds since the Unix epoch. It may jump, forwards or
    /// backwards.
    fn now(&self) -> Timestamp;
    /// Completes after `span` milliseconds; at once for zero.
    fn sleep(&self, span: Millis) -> impl Future<Output = ()> + Send;
}

/// Random numbers: for claim ids, write tokens and jitter. They need not be fit for secrets.
pub trait Entropy: Send + Sync + 'static {
    /// 64 random bits, evenly distributed.
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
    fn outputs(
        &self,
        wanted: Vec<OutputsOf>,
    ) -> impl Future<Output = Vec<Result<Vec<Arc<Value>>, StoreError>>> + Send {
        (**self).outputs(wanted)
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

/// One row of the attention index: an order that needs an operator. A row is only a hint: it may be stale,
/// and one that was just written may be missing.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionRow {
    /// The order's id.
    pub order: OrderId,
    /// Since when the order needs an operator.
    pub at: Timestamp,
    /// Why the order is in this state; `None` if there is no cause, as for a paused order.
    pub cause: Option<Failure>,
    /// The definition that the order is pinned to; `None` if the row does not name it.
    pub workflow: Option<WorkflowRef>,
}

/// A page of one shard of the attention index: rows, and where the next page begins.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AttentionPage {
    /// The rows of this page, the one with the oldest `at` first.
    pub rows: Vec<AttentionRow>,
    /// Rows of this page that cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// Where the next page begins; `None` at the end. A page may be empty and not the last one.
    pub next: Option<String>,
}

impl AttentionPage {
    /// The name of the page that begins behind the row with this moment and this order's id, whether there is
    /// such a row or not. Every store takes it as `page` of [`OperatorStore::attention`], and of
    /// [`OperatorStore::search`], whose rows are sorted by the moment of submission.
    #[must_use]
    pub fn behind(at: Timestamp, order: &str) -> String {
        format!("{}/{order}", at.0)
    }
}

/// One row of a search index: an order with a search key. A row is only a hint: it may be stale, and one that
/// was just written may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchRow {
    /// The order's id.
    pub order: OrderId,
    /// When the order was submitted.
    pub at: Timestamp,
    /// The definition that the order is pinned to; `None` if the row does not name it.
    pub workflow: Option<WorkflowRef>,
}

/// A page of the rows of one key in a search index, and where the next page begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchPage {
    /// The rows of this page, the order that was submitted last first.
    pub rows: Vec<SearchRow>,
    /// Rows of this page that cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// Where the next page begins, as [`AttentionPage::behind`] names it; `None` at the end. A page may
    /// be empty and not the last one.
    pub next: Option<String>,
}

/// One stored version of a workflow, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredVersion {
    /// The workflow's name and the hash of this version.
    pub definition: WorkflowRef,
    /// Whether this is the current version of its name: new orders run it.
    pub is_current: bool,
    /// When this version became the current one; if more than once, the last time.
    pub published_at: Timestamp,
}

/// The orders of one version of a workflow that are in one state and need an operator for the same reason, or
/// need none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderCount {
    /// The version, as records spell it ([`WorkflowRef`]).
    pub workflow: String,
    /// The state's name, as [`ProcessState::NAMES`](triad_core::ProcessState::NAMES) has it.
    pub state: String,
    /// Why an operator is needed; `None` if none is.
    pub attention: Option<Attention>,
    /// How many orders.
    pub orders: u64,
}

/// All stored orders, counted: exactly, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Every order is counted in one of these groups.
    pub groups: Vec<OrderCount>,
    /// Since when the order that has waited longest needs an operator, for each of [`Attention::ALL`].
    pub oldest: [Option<Timestamp>; Attention::ALL.len()],
    /// How many orders are set aside.
    pub set_aside: u64,
    /// How many orders that are not set aside have been due since the moment asked about or longer.
    pub overdue: u64,
    /// Since when the one of these that is due longest has been due.
    pub oldest_due: Option<Timestamp>,
}

/// Most orders of either kind that [`OperatorStore::lately`] counts: 100,000, the newest.
pub const MOST_LATELY: u64 = 100_000;

/// Orders submitted and orders finished within a recent time, of the orders that are still stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lately {
    /// How many orders were submitted.
    pub submitted: u64,
    /// How many orders have finished, by the name of the state in which they are.
    pub finished: BTreeMap<String, u64>,
    /// Whether there were more of either than [`MOST_LATELY`].
    pub more: bool,
    /// Milliseconds from submission to end of each of these orders that is Processed, shortest first.
    pub took_ms: Vec<u64>,
}

/// The part of the store that only operators use: the attention index, the search indexes, and all stored
/// versions of workflows.
pub trait OperatorStore: Send + Sync + 'static {
    /// Reads a page of one shard of the attention index: of the orders that need an operator for the reason
    /// `kind`, the one that has needed an operator for the longest time first. `shard` is below
    /// [`SHARDS`](triad_core::due::SHARDS); `page` is [`AttentionPage::next`] of the page before,
    /// `None` for the first one. The rows are hints: they may be stale. A row that cannot be read
    /// is in [`AttentionPage::unreadable`].
    ///
    /// # Errors
    /// [`StoreError::Transient`] or [`StoreError::Configuration`] if the index cannot be read,
    /// [`StoreError::Item`] if `page` is not the name of a page of this index.
    fn attention(
        &self,
        kind: Attention,
        shard: u32,
        page: Option<String>,
    ) -> impl Future<Output = Result<AttentionPage, StoreError>> + Send;

    /// Reads a page of the orders with exactly this search key from one search index. The order that was
    /// submitted last comes first. `index` is below
    /// [`MAX_SEARCH_KEYS`](triad_workflow::search::MAX_SEARCH_KEYS). Each key of an order is in one of these
    /// indexes, and may be in any, so a search must read all of them. `page` is [`SearchPage::next`] of the
    /// page before, `None` for the first one. The rows are hints: one of an order that was just submitted
    /// may be missing. A row that cannot be read is in [`SearchPage::unreadable`].
    ///
    /// # Errors
    /// [`StoreError::Transient`] or [`StoreError::Configuration`] if the index cannot be read. It is the
    /// latter, too, if an earlier version has made the store and it has no such index.
    /// [`StoreError::Item`] if `page` is not the name of a page of this index.
    fn search(
        &self,
        key: SearchKey,
        index: usize,
        page: Option<String>,
    ) -> impl Future<Output = Result<SearchPage, StoreError>> + Send;

    /// All stored orders, counted, and those that have been due since `late` or longer. It costs the same
    /// however many orders have ended. `None`: this store does not count, because that would cost on every
    /// write.
    ///
    /// # Errors
    /// [`StoreError::Transient`] or [`StoreError::Configuration`] if the store cannot be read.
    fn tally(
        &self,
        _late: Timestamp,
    ) -> impl Future<Output = Result<Option<Tally>, StoreError>> + Send {
        ready(Ok(None))
    }

    /// Orders submitted and orders finished since `since`. `None`: this store does not count.
    ///
    /// # Errors
    /// [`StoreError::Transient`] or [`StoreError::Configuration`] if the store cannot be read.
    fn lately(
        &self,
        _since: Timestamp,
    ) -> impl Future<Output = Result<Option<Lately>, StoreError>> + Send {
        ready(Ok(None))
    }

    /// All stored versions of all workflows, in no particular order.
    ///
    /// # Errors
    /// [`StoreError::Transient`] or [`StoreError::Configuration`] if the store cannot be read,
    /// [`StoreError::Item`] if one of the versions cannot be read.
    fn versions(&self) -> impl Future<Output = Result<Vec<StoredVersion>, StoreError>> + Send;

    /// Removes one version. A version that is not stored counts as removed. Whether orders still
    /// need the version is not checked.
    ///
    /// # Errors
    /// [`StoreError::Item`] for the current version of a name, which is not removed. [`StoreError::Transient`] or
    /// [`StoreError::Configuration`] if the store failed; the version may be removed all the same, and to remove it
    /// again is safe.
    fn remove(
        &self,
        definition: WorkflowRef,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}
