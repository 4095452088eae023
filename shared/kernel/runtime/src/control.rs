//! The control store: small shared records besides the orders.
//!
//! The records hold circuit breakers and operators' pauses, the grants of rate limits, the call ledger, reports of
//! pressure, and campaigns. Each record is a JSON value under a key, and each write is conditional on its version.

use std::future::Future;
use std::sync::Arc;

use serde_json::Value;
use triad_core::Timestamp;

use crate::ports::{StoreError, Written};

/// A record of the control store as it was read: its content and its version.
#[derive(Debug, Clone, PartialEq)]
pub struct ControlRecord {
    /// The record's version: 1 when it is created, one more with every write.
    pub version: u64,
    /// The record's content, as JSON. Its form depends on the prefix of the key: see
    /// [`Downstream`](triad_core::downstream::Downstream), [`Granted`](triad_core::rate::Granted),
    /// [`Mark`](triad_core::ledger::Mark) and [`Report`](crate::pressure::Report). The crate `triad-operator` defines
    /// the form of campaigns.
    pub value: Value,
}

/// A conditional write of one record of the control store: it replaces the whole record if the
/// expected version is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct ControlWrite {
    /// The record's key, such as `downstream/NAME` or `pressure/3`.
    pub key: String,
    /// The new content, as JSON; its form is that of [`ControlRecord::value`].
    pub value: Value,
    /// The version that must be stored for the write to take effect; `None`: there must be no such
    /// record.
    pub expected: Option<u64>,
    /// From when on the record counts as deleted; `None`: never.
    pub expires: Option<Timestamp>,
    /// Random number, unique to this write. If the stored record carries the same token, this write
    /// took effect before, and the answer is [`Written::Written`].
    pub token: u64,
}

/// Small records that all processes share, each written on the condition of its version.
pub trait ControlStore: Send + Sync + 'static {
    /// Reads a record; `Ok(None)`: there is no such record, or it has expired. Without `consistent`
    /// the record may be a moment old, and in DynamoDB the read costs half.
    ///
    /// # Errors
    /// [`StoreError::Transient`] or [`StoreError::Configuration`] if the store cannot be read,
    /// [`StoreError::Item`] if the record cannot be read.
    fn read(
        &self,
        key: String,
        consistent: bool,
    ) -> impl Future<Output = Result<Option<ControlRecord>, StoreError>> + Send;

    /// Writes a record if the stored version is the expected one; [`Written::Conflict`] if it is
    /// not.
    ///
    /// # Errors
    /// [`StoreError`] if the store failed. The write may have taken effect all the same, and repeating it
    /// with the same token is safe.
    fn write(
        &self,
        write: ControlWrite,
    ) -> impl Future<Output = Result<Written, StoreError>> + Send;
}

impl<T: ControlStore> ControlStore for Arc<T> {
    fn read(
        &self,
        key: String,
        consistent: bool,
    ) -> impl Future<Output = Result<Option<ControlRecord>, StoreError>> + Send {
        (**self).read(key, consistent)
    }
    fn write(
        &self,
        write: ControlWrite,
    ) -> impl Future<Output = Result<Written, StoreError>> + Send {
        (**self).write(write)
    }
}
