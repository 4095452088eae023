//! The control store: small shared records beside the orders.
//!
//! Circuit breakers and what operators have paused, the rate limits' grants, the call ledger.
//! Each record is a JSON value under a key, and each write is conditional on its version.

use std::future::Future;
use std::sync::Arc;

use serde_json::Value;
use triad_core::Timestamp;

use crate::ports::{StoreError, Written};

/// A record of the control store.
#[derive(Debug, Clone, PartialEq)]
pub struct ControlRecord {
    /// Raised by every write, from 1.
    pub version: u64,
    /// What it says.
    pub value: Value,
}

/// A conditional write.
#[derive(Debug, Clone, PartialEq)]
pub struct ControlWrite {
    /// Which record.
    pub key: String,
    /// What it is to say.
    pub value: Value,
    /// The version that must stand; `None`: there must be no such record.
    pub expected: Option<u64>,
    /// When it may be deleted; `None`: never.
    pub expires: Option<Timestamp>,
    /// Unique to this write; a write that meets its own token has succeeded before.
    pub token: u64,
}

/// Small shared records, each written on the condition of its version.
pub trait ControlStore: Send + Sync + 'static {
    /// Reads a record. `None`: no such record, or expired. What was read without `consistent`
    /// may be a moment old, and costs half.
    fn read(
        &self,
        key: String,
        consistent: bool,
    ) -> impl Future<Output = Result<Option<ControlRecord>, StoreError>> + Send;

    /// Writes a record if its condition holds.
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
