//! Export of everything that an installation stores, page by page, and import into another store: for backups and
//! their check.
//!
//! Items have the same content in every store: records in the core's stored form, with the token of their last write
//! and their expiry; details, definitions and control records as the stored JSON text, so that no number is parsed
//! and printed again.
//!
//! Architecture invariant: this port never replaces an existing item.

use std::future::Future;
use std::sync::Arc;

use triad_core::{Order, OrderId, Timestamp, WorkflowRef};

use crate::ports::{StoreError, Unreadable};

/// One of the three parts of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorePart {
    /// Every version of every workflow, and the current version of each name.
    Workflows,
    /// The control store: the call ledger, downstreams, rate limits, reports of pressure and campaigns.
    Control,
    /// The orders: process records with their details, and details whose record has expired.
    Orders,
}

impl StorePart {
    /// All parts, in the order of an import: an order never exists before what it needs.
    pub const ALL: [Self; 3] = [Self::Workflows, Self::Control, Self::Orders];
}

/// A process record, and what a store keeps with it: the token of the last write and the expiry.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptRecord {
    /// The record, with all outputs that lie beside it.
    pub order: Arc<Order>,
    /// The token of the record's last write; 0 if it was created and not written since.
    pub token: u64,
    /// When the record may be deleted, in seconds since the Unix epoch; `None` if no time is set yet.
    pub expires_s: Option<u64>,
}

/// An order's details, and what a store keeps with them: the digest and the expiry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptDetails {
    /// The details, as JSON text.
    pub json: String,
    /// Digest of the submission that they came with.
    pub digest: String,
    /// When they may be deleted, in seconds since the Unix epoch; `None` if no time is set yet.
    pub expires_s: Option<u64>,
}

/// One order as a store keeps it: its process record, its details, or both.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptOrder {
    /// The order's id.
    pub id: OrderId,
    /// The order's process record; `None` if it has expired.
    pub record: Option<KeptRecord>,
    /// The order's details; `None` if they have expired.
    pub details: Option<KeptDetails>,
}

impl KeptOrder {
    /// The order without its record, or its details, or both, if they have expired at `now`: their second of
    /// expiry is that of `now`, or an earlier one. `None` if nothing is left.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Option<Self> {
        let stands = |expires: Option<u64>| expires.is_none_or(|at| at > now.0 / 1000);
        self.record = self.record.filter(|record| stands(record.expires_s));
        self.details = self.details.filter(|details| stands(details.expires_s));
        (self.record.is_some() || self.details.is_some()).then_some(self)
    }
}

/// A record of the control store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptControl {
    /// The record's key, such as `downstream/NAME`.
    pub key: String,
    /// The record's version: 1 when it is created, one more with every write.
    pub version: u64,
    /// The record's content, as JSON text.
    pub json: String,
    /// The token of the record's last write.
    pub token: u64,
    /// From when on the record counts as deleted; `None`: never. A store may round this up to a second.
    pub expires: Option<Timestamp>,
}

impl KeptControl {
    /// Whether two records are the same. Expiries are compared in whole seconds, rounded up, because a store
    /// may round them.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let rounded = |of: &Self| Self {
            expires: of.expires.map(|at| Timestamp(at.0.div_ceil(1000))),
            ..of.clone()
        };
        rounded(self) == rounded(other)
    }
}

/// One version of a workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptWorkflow {
    /// The workflow's name and the hash of this version.
    pub definition: WorkflowRef,
    /// The canonical JSON of the definition.
    pub json: String,
    /// When this version was published; if that was done several times, the last time.
    pub published_at: Timestamp,
}

/// One item of a store.
#[derive(Debug, Clone, PartialEq)]
pub enum StoredItem {
    /// A version of a workflow.
    Workflow(KeptWorkflow),
    /// The entry that this version is the current one of its name.
    Present(WorkflowRef),
    /// A record of the control store.
    Control(KeptControl),
    /// An order.
    Order(Box<KeptOrder>),
}

impl StoredItem {
    /// What it is, for messages to people, such as `order 42` or `control record downstream/bank`.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Workflow(workflow) => format!("workflow {}", workflow.definition),
            Self::Present(definition) => format!("the present version of {}", definition.name),
            Self::Control(control) => format!("control record {}", control.key),
            Self::Order(order) => format!("order {}", order.id),
        }
    }
}

/// A page of one [`StorePart`] of a store: its items, and the start of the next page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeptPage {
    /// What was found, in the store's own order. A page may be empty and not the last one.
    pub items: Vec<StoredItem>,
    /// Items of this page that cannot be read. [`Unreadable::order_id`] holds the order's id, the key of the control
    /// record, or the name of the workflow.
    pub unreadable: Vec<Unreadable>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<String>,
}

/// Result of importing one item. None of the three is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// The item did not exist, and was written. In a dry run it would have been written.
    New,
    /// An equal item exists already; nothing was written.
    Same,
    /// A different item exists, and was not changed.
    Different,
}

/// The port for exporting a whole store, and for filling another one.
pub trait MovingStore: Send + Sync + 'static {
    /// Reads a page of one part: at most 200 items, consistently. `page` is [`KeptPage::next`] of the page before;
    /// `None` asks for the first one. Expired items are left out. An item that is stored from the first page to the
    /// last is found once. An item that is written meanwhile may be found or not.
    ///
    /// # Errors
    /// [`StoreError::Transient`] or [`StoreError::Configuration`] if the store cannot be read,
    /// [`StoreError::Item`] if `page` is not the name of a page of this part.
    fn kept(
        &self,
        part: StorePart,
        page: Option<String>,
    ) -> impl Future<Output = Result<KeptPage, StoreError>> + Send;

    /// Imports items, each on the condition that it does not exist; the record and the details of an order in one
    /// transaction. With `dry_run` the store is only read, to determine the results. The answer has one result for
    /// each item, in their order.
    ///
    /// # Errors
    /// For each item: [`StoreError::Transient`] or [`StoreError::Configuration`] if the store failed; the item may
    /// have been written all the same, and repeating it is safe. [`StoreError::Item`] if it is larger than the store
    /// takes, or the existing item cannot be read.
    fn keep(
        &self,
        items: Vec<StoredItem>,
        dry_run: bool,
    ) -> impl Future<Output = Vec<Result<Keeping, StoreError>>> + Send;
}

/// Result of importing the item `own` if the store has the item `standing`; `None` if it has none.
#[must_use]
pub fn compared<T: PartialEq + ?Sized>(standing: Option<&T>, own: &T) -> Keeping {
    match standing {
        None => Keeping::New,
        Some(standing) if standing == own => Keeping::Same,
        Some(_) => Keeping::Different,
    }
}
