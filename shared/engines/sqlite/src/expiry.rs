//! Deletes expired rows, a bounded number at a time.

use std::time::Duration;

use rusqlite::Connection;
use tokio::time::MissedTickBehavior;
use triad_runtime::{Clock, StoreError};

use crate::SqliteStore;
use crate::error::signed;

/// Most rows of one table per transaction: other writes wait a few milliseconds at most.
const ROWS: i64 = 500;

/// Usual time between two sweeps of [`SqliteStore::sweep`]: 60 s.
pub const SWEEP_EVERY: Duration = Duration::from_secs(60);

impl<C: Clock + Clone> SqliteStore<C> {
    /// Deletes what has expired, at once and then every `every`. The future never completes; drop it to stop the
    /// sweeps. Only the process that owns the store should call it. Other writes run in between. A failure is logged,
    /// and the next sweep continues.
    ///
    /// # Panics
    /// If `every` is zero.
    pub async fn sweep(&self, every: Duration) {
        let mut timer = tokio::time::interval(every);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            timer.tick().await;
            loop {
                match self.delete_expired().await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(e) => {
                        tracing::warn!(error = %e, "expired records could not be deleted");
                        break;
                    }
                }
            }
        }
    }

    /// Deletes records, details and control records that have expired, at most 500 of each. Returns true if
    /// there may be more. The file does not shrink: its free pages are used again.
    ///
    /// # Errors
    /// [`StoreError`] if SQLite fails or does not answer in time. Expired rows are never returned by reads, and a
    /// later call deletes them.
    pub async fn delete_expired(&self) -> Result<bool, StoreError> {
        let (now_s, now) = (self.now_s(), signed(self.clock.now().0));
        self.engine
            .write(move |db| {
                let mut more = false;
                for (table, key, now) in [
                    ("order_state", "OrderID", now_s),
                    ("orders", "OrderID", now_s),
                    ("control", "Key", now),
                ] {
                    more |= delete(db, table, key, now)? == ROWS.unsigned_abs() as usize;
                }
                Ok(more)
            })
            .await
    }
}

fn delete(db: &Connection, table: &str, key: &str, now: i64) -> rusqlite::Result<usize> {
    let sql = format!(
        "DELETE FROM {table} WHERE {key} IN
            (SELECT {key} FROM {table} WHERE ExpiresAt <= ?1 ORDER BY ExpiresAt LIMIT ?2)"
    );
    db.prepare_cached(&sql)?.execute((now, ROWS))
}
