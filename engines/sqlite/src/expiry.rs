//! What has outlived its time is deleted, a bounded number of rows at a time.

use std::time::Duration;

use rusqlite::Connection;
use tokio::time::MissedTickBehavior;
use triad_runtime::{Clock, StoreError};

use crate::SqliteStore;
use crate::error::signed;

/// Rows of one table that one transaction deletes: writes wait for it a few milliseconds at most.
const ROWS: i64 = 500;

/// Usual time between two sweeps of [`SqliteStore::sweep`].
pub const SWEEP_EVERY: Duration = Duration::from_secs(60);

impl<C: Clock + Clone> SqliteStore<C> {
    /// Deletes what has expired, now and from then on once in `every`, until it is dropped: it does not
    /// end by itself. It is for the process that owns the store. Other writes have their turn between two
    /// parts of a sweep.
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
                        tracing::warn!(error = %e, "what has expired could not be deleted");
                        break;
                    }
                }
            }
        }
    }

    /// Deletes records, details and control records that have expired, at most 500 of each. True if
    /// there may be more. The pages that become free are used again; the file does not shrink.
    ///
    /// # Errors
    /// [`StoreError`]; what was to be deleted is read by nobody, and deleted later.
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
