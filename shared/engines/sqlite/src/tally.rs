//! Numbers of orders. Triggers keep the number per state in a table, in the transaction of each write, so a query
//! costs the same however many orders are stored. Recent orders are read from two indexes.

use rusqlite::{Connection, OptionalExtension, Row};
use triad_core::due::SHARDS;
use triad_core::stored::attention_key;
use triad_core::{Attention, Timestamp};
use triad_runtime::ports::{Lately, MOST_LATELY, OrderCount, Tally};

use crate::record::bound;

/// The reason in a row's attention key, as SQL: the key without its shard.
fn reason(row: &str) -> String {
    format!("ifnull(substr({row}Attention, 1, instr({row}Attention, '/') - 1), '')")
}

/// The columns by which orders are counted, as SQL; `row` is the row's name in the statement.
fn group(row: &str) -> String {
    let reason = reason(row);
    format!("ifnull({row}Workflow, ''), ifnull({row}ProcessState, ''), {reason}")
}

/// The table of the counts, and the triggers that update it.
pub(crate) fn tables() -> String {
    let (new, old) = (group("NEW."), group("OLD."));
    let take = format!(
        "UPDATE counts SET Orders = Orders - 1
            WHERE (Workflow, ProcessState, Reason) = ({old});"
    );
    let add = format!(
        "INSERT INTO counts VALUES ({new}, 1)
            ON CONFLICT DO UPDATE SET Orders = Orders + 1;"
    );
    format!(
        "CREATE TABLE IF NOT EXISTS counts (
            Workflow TEXT NOT NULL, ProcessState TEXT NOT NULL, Reason TEXT NOT NULL,
            Orders INTEGER NOT NULL, PRIMARY KEY (Workflow, ProcessState, Reason)) WITHOUT ROWID;
        CREATE TRIGGER IF NOT EXISTS count_new AFTER INSERT ON order_state BEGIN {add} END;
        CREATE TRIGGER IF NOT EXISTS count_gone AFTER DELETE ON order_state BEGIN {take} END;
        CREATE TRIGGER IF NOT EXISTS count_moved
            AFTER UPDATE OF Workflow, ProcessState, Attention ON order_state
            WHEN OLD.ProcessState IS NOT NEW.ProcessState OR OLD.Attention IS NOT NEW.Attention
                OR OLD.Workflow IS NOT NEW.Workflow
            BEGIN {take} {add} END;"
    )
}

/// Numbers of all orders that have not expired.
pub(crate) fn tally(db: &Connection, late: Timestamp, now_s: i64) -> rusqlite::Result<Tally> {
    let mut tally = Tally {
        groups: groups(db, now_s)?,
        ..Tally::default()
    };
    let mut oldest = db.prepare_cached(
        "SELECT AttentionAt FROM order_state WHERE Attention = ?1 ORDER BY AttentionAt LIMIT 1",
    )?;
    for (kind, slot) in Attention::ALL.into_iter().zip(&mut tally.oldest) {
        for shard in 0..SHARDS {
            let at = oldest.query_row([attention_key(kind, shard)], moment);
            *slot = slot.iter().copied().chain(at.optional()?).min();
        }
    }
    let mut aside = db.prepare_cached("SELECT count(*) FROM order_state WHERE DueShard >= ?1")?;
    tally.set_aside = aside.query_row([SHARDS], |row| number(row, 0))?;
    let mut overdue = db.prepare_cached(
        "SELECT count(*), min(DueAt) FROM order_state WHERE DueShard = ?1 AND DueAt <= ?2",
    )?;
    for shard in 0..SHARDS {
        let (orders, since) = overdue.query_row((shard, bound(late)), |row| {
            let since: Option<i64> = row.get(1)?;
            Ok((
                number(row, 0)?,
                since.map(|at| Timestamp(at.cast_unsigned())),
            ))
        })?;
        tally.overdue += orders;
        tally.oldest_due = tally.oldest_due.into_iter().chain(since).min();
    }
    Ok(tally)
}

/// Expired records are not counted, although they are deleted a little later.
fn groups(db: &Connection, now_s: i64) -> rusqlite::Result<Vec<OrderCount>> {
    let mut read = db.prepare_cached(&format!(
        "SELECT Workflow, ProcessState, Reason, sum(Orders) FROM (
            SELECT Workflow, ProcessState, Reason, Orders FROM counts
            UNION ALL SELECT {}, -1 FROM order_state WHERE ExpiresAt <= ?1)
        GROUP BY 1, 2, 3 HAVING sum(Orders) > 0",
        group("")
    ))?;
    let groups = read.query_map([now_s], |row| {
        let reason: String = row.get(2)?;
        Ok(OrderCount {
            workflow: row.get(0)?,
            state: row.get(1)?,
            attention: Attention::ALL.into_iter().find(|a| a.name() == reason),
            orders: number(row, 3)?,
        })
    })?;
    groups.collect()
}

/// Orders submitted and orders finished since a moment.
pub(crate) fn lately(db: &Connection, since: Timestamp) -> rusqlite::Result<Lately> {
    let (since, one_more) = (bound(since), MOST_LATELY.cast_signed() + 1);
    let mut submitted = db.prepare_cached(
        "SELECT count(*) FROM (SELECT 1 FROM order_state WHERE SubmittedAt > ?1 LIMIT ?2)",
    )?;
    let submitted = submitted.query_row((since, one_more), |row| number(row, 0))?;
    let mut lately = Lately {
        submitted: submitted.min(MOST_LATELY),
        more: submitted > MOST_LATELY,
        ..Lately::default()
    };
    let mut read = db.prepare_cached(
        "SELECT ProcessState, FinishedAt - SubmittedAt FROM order_state
        WHERE FinishedAt > ?1 ORDER BY FinishedAt DESC LIMIT ?2",
    )?;
    let mut rows = read.query((since, one_more))?;
    let mut counted = 0;
    while let Some(row) = rows.next()? {
        if counted == MOST_LATELY {
            lately.more = true;
            break;
        }
        counted += 1;
        let state: String = row.get(0)?;
        if state == "Processed" {
            lately
                .took_ms
                .push(row.get::<_, i64>(1)?.max(0).cast_unsigned());
        }
        *lately.finished.entry(state).or_default() += 1;
    }
    lately.took_ms.sort_unstable();
    Ok(lately)
}

fn moment(row: &Row<'_>) -> rusqlite::Result<Timestamp> {
    Ok(Timestamp(number(row, 0)?))
}

/// A number that is negative only if two clocks differ; then it is 0.
fn number(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(at)?.max(0).cast_unsigned())
}
