//! The control store: small shared records.

use rusqlite::{Connection, OptionalExtension};
use triad_runtime::{Clock, ControlRecord, ControlStore, ControlWrite, StoreError, Written};

use crate::SqliteStore;
use crate::error::signed;

/// A stored record, expired or not.
struct StoredControl {
    version: u64,
    token: u64,
    expires: Option<i64>,
}

impl<C: Clock + Clone> ControlStore for SqliteStore<C> {
    async fn read(
        &self,
        key: String,
        _consistent: bool,
    ) -> Result<Option<ControlRecord>, StoreError> {
        let now = signed(self.clock.now().0);
        let found = self.engine.read(move |db| {
            let mut read = db.prepare_cached(
                "SELECT Version, Value FROM control
                WHERE Key = ?1 AND (ExpiresAt IS NULL OR ExpiresAt > ?2)",
            )?;
            let row = |row: &rusqlite::Row<'_>| {
                Ok((
                    row.get::<_, i64>(0)?.cast_unsigned(),
                    row.get::<_, String>(1)?,
                ))
            };
            read.query_row((key, now), row).optional()
        });
        let Some((version, json)) = found.await? else {
            return Ok(None);
        };
        let value = serde_json::from_str(&json)
            .map_err(|e| StoreError::Item(format!("a control record cannot be read: {e}")))?;
        Ok(Some(ControlRecord { version, value }))
    }

    async fn write(&self, write: ControlWrite) -> Result<Written, StoreError> {
        let now = signed(self.clock.now().0);
        self.engine.write(move |db| put(db, &write, now)).await
    }
}

/// Writes one record if its condition holds.
fn put(db: &Connection, write: &ControlWrite, now: i64) -> rusqlite::Result<Written> {
    let standing = db
        .prepare_cached("SELECT Version, WriteToken, ExpiresAt FROM control WHERE Key = ?1")?
        .query_row([&write.key], |row| {
            Ok(StoredControl {
                version: row.get::<_, i64>(0)?.cast_unsigned(),
                token: row.get::<_, i64>(1)?.cast_unsigned(),
                expires: row.get(2)?,
            })
        })
        .optional()?;
    if standing.as_ref().is_some_and(|s| s.token == write.token) {
        return Ok(Written::Written);
    }
    // A record that has expired and is not deleted yet counts as absent.
    let alive = standing.filter(|s| s.expires.is_none_or(|at| at > now));
    if alive.map(|s| s.version) != write.expected {
        return Ok(Written::Conflict);
    }
    let version = write.expected.unwrap_or(0) + 1;
    db.prepare_cached(
        "INSERT INTO control (Key, Version, Value, WriteToken, ExpiresAt) VALUES (?1, ?2, ?3, ?4, ?5)
        ON CONFLICT DO UPDATE SET Version = excluded.Version, Value = excluded.Value,
            WriteToken = excluded.WriteToken, ExpiresAt = excluded.ExpiresAt",
    )?
    .execute((
        &write.key,
        signed(version),
        write.value.to_string(),
        signed(write.token),
        write.expires.map(|at| signed(at.0)),
    ))?;
    Ok(Written::Written)
}
