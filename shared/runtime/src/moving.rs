//! Everything that an installation keeps in its store, page by page, and putting it into another store:
//! for exports, imports and the check of a backup.
//!
//! What is moved has the same content in every store: records in the core's stored form, with the token
//! of their last write and their expiry; details, definitions and control records as the JSON text that
//! is stored, so that no number in it is read and printed again.
//!
//! Architecture invariant: nothing that stands is ever replaced through this port.

use std::future::Future;
use std::sync::Arc;

use triad_core::{Order, OrderId, Timestamp, WorkflowRef};

use crate::ports::{StoreError, Unreadable};

/// One of the parts of a store. Together they are all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Every version of every workflow, and which one is the present version of each name.
    Workflows,
    /// The control store: the call ledger, downstreams, rate limits, reports of pressure.
    Control,
    /// The orders: process records with their details, and details whose record has expired.
    Orders,
}

impl Part {
    /// All parts, in the order in which they are to be put into a store: an order never stands in it
    /// before what it needs.
    pub const ALL: [Self; 3] = [Self::Workflows, Self::Control, Self::Orders];
}

/// A process record as a store keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptRecord {
    /// The record.
    pub order: Arc<Order>,
    /// The token of its last write; 0 of one that was only created.
    pub token: u64,
    /// When it may be deleted, in seconds since the Unix epoch; `None` while it is kept.
    pub expires_s: Option<u64>,
}

/// An order's details as a store keeps them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptDetails {
    /// The details, as JSON text.
    pub json: String,
    /// Digest of the submission that they came with.
    pub digest: String,
    /// When they may be deleted, in seconds since the Unix epoch; `None` while they are kept.
    pub expires_s: Option<u64>,
}

/// One order: at least one of its two halves.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptOrder {
    /// The order's id.
    pub id: OrderId,
    /// Its process record; `None` if it has expired.
    pub record: Option<KeptRecord>,
    /// Its details; `None` if they have expired.
    pub details: Option<KeptDetails>,
}

impl KeptOrder {
    /// The order without the halves that have expired at `now`; `None` if nothing is left.
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
    /// Its key.
    pub key: String,
    /// Its version.
    pub version: u64,
    /// Its content, as JSON text.
    pub json: String,
    /// The token of its last write.
    pub token: u64,
    /// From when on it counts as deleted; `None`: never. A store may round it up to a second.
    pub expires: Option<Timestamp>,
}

impl KeptControl {
    /// Whether two records are the same, apart from how a store rounds their expiry.
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
    /// Its name and hash.
    pub definition: WorkflowRef,
    /// Its canonical JSON.
    pub json: String,
    /// When it was published last.
    pub published_at: Timestamp,
}

/// One thing that a store keeps.
#[derive(Debug, Clone, PartialEq)]
pub enum Kept {
    /// A version of a workflow.
    Workflow(KeptWorkflow),
    /// This is the present version of its name.
    Present(WorkflowRef),
    /// A record of the control store.
    Control(KeptControl),
    /// An order.
    Order(Box<KeptOrder>),
}

impl Kept {
    /// What it is called, for people.
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

/// A page of one part.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeptPage {
    /// What was found, in the store's own order. A page may be empty and not the last one.
    pub items: Vec<Kept>,
    /// What of this page cannot be read. [`Unreadable::order_id`] is the key of a control record, or the
    /// name of a workflow, where it is none of an order.
    pub unreadable: Vec<Unreadable>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<String>,
}

/// What came of putting one thing into a store. None is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// Nothing stood there: it was written, or would have been.
    New,
    /// The same stands there already.
    Same,
    /// Something else stands there, and was left as it is.
    Different,
}

/// Reading and filling a whole store.
pub trait MovingStore: Send + Sync + 'static {
    /// Reads a page of one part: at most 200 things, consistently. `page` is [`KeptPage::next`] of the page
    /// before; `None` asks for the first one. What has expired is left out. Each thing that stands from
    /// the first page to the last is found once; of what is written meanwhile nothing is promised.
    ///
    /// # Errors
    /// [`StoreError::Transient`] or [`StoreError::Configuration`] if the store cannot be read,
    /// [`StoreError::Item`] if `page` is none of this part.
    fn kept(
        &self,
        part: Part,
        page: Option<String>,
    ) -> impl Future<Output = Result<KeptPage, StoreError>> + Send;

    /// Puts things into the store, each on the condition that nothing stands in its place; both halves of an
    /// order in one transaction. With `dry_run` it is only looked at. The answer has one result for each, in
    /// their order.
    ///
    /// # Errors
    /// For each: [`StoreError::Transient`] or [`StoreError::Configuration`], after which it may have been
    /// written all the same, and to put it again is safe; [`StoreError::Item`] if it is larger than the store
    /// takes, or what stands there cannot be read.
    fn keep(
        &self,
        items: Vec<Kept>,
        dry_run: bool,
    ) -> impl Future<Output = Vec<Result<Keeping, StoreError>>> + Send;
}

/// What comes of putting `own` where `standing` is.
#[must_use]
pub fn compared<T: PartialEq + ?Sized>(standing: Option<&T>, own: &T) -> Keeping {
    match standing {
        None => Keeping::New,
        Some(standing) if standing == own => Keeping::Same,
        Some(_) => Keeping::Different,
    }
}
