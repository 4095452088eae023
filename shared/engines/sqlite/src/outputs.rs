//! Outputs that lie beside the records.
//!
//! A row is written in the transaction that writes the record which names it, and is deleted with that record.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};
use serde_json::Value;
use triad_core::{Order, OrderId, OutputDigest};
use triad_runtime::StoreError;

/// Stores the new outputs of a record. One that is stored already is the same.
pub(crate) fn insert<'a>(
    db: &Connection,
    order: &OrderId,
    outputs: impl Iterator<Item = (&'a OutputDigest, &'a Arc<Value>)>,
) -> rusqlite::Result<()> {
    for (digest, output) in outputs {
        db.prepare_cached(
            "INSERT OR IGNORE INTO outputs (OrderID, Digest, Output) VALUES (?1, ?2, ?3)",
        )?
        .execute((order.as_str(), &digest.0, output.to_string()))?;
    }
    Ok(())
}

/// An output of an order.
///
/// # Errors
/// The inner error is [`StoreError::Item`] if it is not stored or does not fit its digest.
pub(crate) fn read(
    db: &Connection,
    order: &OrderId,
    digest: &OutputDigest,
) -> rusqlite::Result<Result<Arc<Value>, StoreError>> {
    let mut read =
        db.prepare_cached("SELECT Output FROM outputs WHERE OrderID = ?1 AND Digest = ?2")?;
    let json: Option<String> = read
        .query_row((order.as_str(), &digest.0), |row| row.get(0))
        .optional()?;
    let missing = || StoreError::Item(format!("the output {} of {order} is not stored", digest.0));
    Ok(json
        .ok_or_else(missing)
        .and_then(|json| digest.read(&json).map_err(StoreError::Item))
        .map(Arc::new))
}

/// Adds to a record all outputs that lie beside it.
pub(crate) fn complete(
    db: &Connection,
    order: &mut Order,
) -> rusqlite::Result<Result<(), StoreError>> {
    let digests: Vec<OutputDigest> = order.outputs_beside().cloned().collect();
    for digest in digests {
        match read(db, &order.id, &digest)? {
            Ok(output) => order.take_outputs([(&digest, &output)]),
            Err(e) => return Ok(Err(e)),
        }
    }
    Ok(Ok(()))
}
