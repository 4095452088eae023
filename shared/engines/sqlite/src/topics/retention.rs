//! Deletion of old records, a bounded number at a time.
//!
//! Two rules delete records: the bytes that a partition keeps, and, for topics that the installation's own groups
//! read, their age. Both stop at the first record that such a group has not committed: an acknowledged order is never
//! lost, however far the handlers are behind.

use std::time::Duration;

use rusqlite::Connection;
use tokio::time::MissedTickBehavior;
use triad_core::Timestamp;
use triad_runtime::Clock;

use super::{TopicError, Topics};
use crate::catalogue::{PartitionId, State, TopicWriter, offset_of, place};

/// Most records that one transaction deletes: other writes wait a few milliseconds at most.
const ROWS: i64 = 500;
/// How soon the offsets that consumers have committed are written, if no other write takes them along.
const WRITE_OFFSETS_EVERY: Duration = Duration::from_secs(1);
/// Time between two deletions, in [`WRITE_OFFSETS_EVERY`].
const DELETE_EVERY: u32 = 10;

/// What is to be deleted of a partition.
#[derive(Debug, Clone, Copy)]
struct Rule {
    id: PartitionId,
    /// The partition's first offset.
    start: i64,
    /// Offset of the first record that one of the installation's groups has not committed, or the end.
    done: i64,
    /// Bytes of all records of the partition so far.
    total: i64,
    /// Most bytes to keep.
    keep: Option<i64>,
    /// Records that were appended at this time or before are deleted. The time is this machine's: a client with a wrong
    /// clock neither deletes nor keeps.
    over: Option<i64>,
}

impl Topics {
    /// Writes the offsets that consumers of this process have committed, every second, and deletes old records, every
    /// ten seconds. The future never completes; drop it to stop. A failure is logged, and the next round goes on.
    pub async fn maintain(&self, clock: impl Clock) {
        let mut timer = tokio::time::interval(WRITE_OFFSETS_EVERY);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut rounds = 0_u32;
        loop {
            timer.tick().await;
            let has_unwritten = !self.state().unwritten.is_empty();
            let wrote = match has_unwritten {
                // Each group writes the offsets that wait.
                true => self.submit(|_, _| Ok(Ok(()))).await,
                false => Ok(()),
            };
            rounds += 1;
            let deleted = match rounds.is_multiple_of(DELETE_EVERY) {
                true => self.delete_all_old(clock.now()).await,
                false => Ok(()),
            };
            if let Err(error) = wrote.and(deleted) {
                tracing::warn!(%error, "topics could not be maintained; the next round goes on");
            }
        }
    }

    async fn delete_all_old(&self, now: Timestamp) -> Result<(), TopicError> {
        while self.delete_old(now).await? {}
        Ok(())
    }

    /// Deletes records that are too old or too many at `now`, at most some hundred of each partition. True if there
    /// may be more.
    ///
    /// # Errors
    /// [`TopicError::Store`]; a later call goes on.
    pub async fn delete_old(&self, now: Timestamp) -> Result<bool, TopicError> {
        let rules = self.rules(i64::try_from(now.0).unwrap_or(i64::MAX));
        self.submit(move |writer, db| {
            let mut more = delete_leftovers(db)?;
            for rule in rules {
                more |= delete(writer, db, rule)?;
            }
            Ok(Ok(more))
        })
        .await
    }

    /// The partitions of tables with records that may be deleted.
    fn rules(&self, now_ms: i64) -> Vec<Rule> {
        let settings = &self.0.settings;
        let state = self.state();
        let mut rules = Vec::new();
        for topic in state.topics.values().filter(|topic| !topic.in_memory) {
            for id in &topic.partitions {
                let Some(partition) = state.partitions.get(id) else {
                    continue;
                };
                let done = state.done_to(*id, settings.own_groups.as_deref());
                let own_age = topic.number("retention.ms").map(Duration::from_millis);
                let age = own_age.or(settings.retention.filter(|_| done.is_some()));
                let bytes = topic.number("retention.bytes").or(settings.retention_bytes);
                let age = age.map(|age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
                let rule = Rule {
                    id: *id,
                    start: partition.start,
                    done: done.unwrap_or(i64::MAX).min(partition.end),
                    total: partition.total,
                    keep: bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
                    over: age.map(|age| now_ms.saturating_sub(age)),
                };
                if rule.start < rule.done && (rule.keep.is_some() || rule.over.is_some()) {
                    rules.push(rule);
                }
            }
        }
        rules
    }
}

impl State {
    /// The offset before which every group of the installation has committed all; `None` for a partition that none of
    /// them reads.
    fn done_to(&self, id: PartitionId, own_groups: Option<&str>) -> Option<i64> {
        let prefix = own_groups?;
        let own = self.offsets.range(prefix.to_owned()..);
        let own = own.take_while(|(group, _)| group.starts_with(prefix));
        let offsets = own.filter_map(|(_, offsets)| Some(offsets.get(&id)?.offset));
        offsets.min()
    }
}

/// Deletes records from the front of a partition. True if there may be more.
fn delete(writer: &mut TopicWriter, db: &Connection, rule: Rule) -> rusqlite::Result<bool> {
    let (first, behind) = (place(rule.id, rule.start), place(rule.id, rule.done));
    let mut read = db.prepare_cached(
        "SELECT Place, Appended, Total FROM records WHERE Place >= ?1 AND Place < ?2
        ORDER BY Place LIMIT ?3",
    )?;
    let mut rows = read.query((first, behind, ROWS))?;
    let mut last = None;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        let (place, appended, total): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let is_old = rule.over.is_some_and(|over| appended <= over);
        let is_too_much = rule.keep.is_some_and(|keep| rule.total - total >= keep);
        if !is_old && !is_too_much {
            break;
        }
        (last, count) = (Some((place, total)), count + 1);
    }
    let Some((last, deleted)) = last else {
        return Ok(false);
    };
    db.prepare_cached("DELETE FROM records WHERE Place >= ?1 AND Place <= ?2")?
        .execute((first, last))?;
    let next = offset_of(last) + 1;
    db.prepare_cached("UPDATE partitions SET Next = ?2 WHERE Partition = ?1")?
        .execute((rule.id, next))?;
    writer.started(rule.id, next, deleted);
    Ok(count == ROWS)
}

/// Deletes records of topics that were deleted. True if there may be more.
fn delete_leftovers(db: &Connection) -> rusqlite::Result<bool> {
    let mut left = db.prepare_cached(
        "SELECT Partition FROM partitions WHERE Topic NOT IN (SELECT Topic FROM topics) LIMIT 1",
    )?;
    let mut left = left.query([])?;
    let Some(row) = left.next()? else {
        return Ok(false);
    };
    let id: PartitionId = row.get(0)?;
    let deleted = db
        .prepare_cached(
            "DELETE FROM records WHERE Place IN
                (SELECT Place FROM records WHERE Place >= ?1 AND Place < ?2 LIMIT ?3)",
        )?
        .execute((place(id, 0), place(id + 1, 0), ROWS))?;
    if deleted == 0 {
        db.execute("DELETE FROM producers WHERE Partition = ?1", [id])?;
        db.execute("DELETE FROM partitions WHERE Partition = ?1", [id])?;
    }
    Ok(true)
}
