//! The due index, the attention index and the search indexes.

use rusqlite::{Connection, Row};
use triad_core::stored::{SEARCH, attention_key};
use triad_core::{Attention, OrderId, Timestamp, WorkflowRef};
use triad_runtime::ports::{
    AttentionPage, AttentionRow, Lately, OperatorStore, SearchPage, SearchRow, StoredVersion,
    Tally, Unreadable,
};
use triad_runtime::{Clock, DuePage, DueRow, StoreError};
use triad_workflow::SearchKey;

use crate::record::bound;
use crate::{SqliteStore, definitions, tally};

/// Rows of one page of the attention index.
const PAGE: usize = 500;

/// Row of an index after which a page begins: its moment and its order.
pub(crate) type IndexPosition = (i64, String);

/// The position of a page from its name, `<moment>/<order>`; before the first row without a name.
///
/// # Errors
/// [`StoreError::Item`] if the text is not the name of a page.
pub(crate) fn place(page: Option<&str>, index: &str) -> Result<IndexPosition, StoreError> {
    let Some(page) = page else {
        return Ok((i64::MIN, String::new()));
    };
    let parts = page.split_once('/');
    let place = parts.and_then(|(at, id)| Some((at.parse().ok()?, id.to_owned())));
    place.ok_or_else(|| StoreError::Item(format!("{page:?} is not a page of the {index} index")))
}

/// Due orders of one shard, earliest first.
pub(crate) fn due(
    db: &Connection,
    shard: u32,
    until: Timestamp,
    limit: u32,
    (at, id): IndexPosition,
) -> rusqlite::Result<DuePage> {
    let mut read = db.prepare_cached(
        "SELECT OrderID, Workflow, DueAt FROM order_state
        WHERE DueShard = ?1 AND DueAt <= ?2 AND (DueAt, OrderID) > (?3, ?4)
        ORDER BY DueAt, OrderID LIMIT ?5",
    )?;
    let mut rows = read.query((shard, bound(until), at, id, limit))?;
    let (mut page, mut seen, mut last) = (DuePage::default(), 0, None);
    while let Some(row) = rows.next()? {
        seen += 1;
        // The next page begins after a readable row: a damaged row is returned again, and blocks nothing.
        let (order, at): (String, i64) = match (row.get(0), row.get(2)) {
            (Ok(order), Ok(at)) => (order, at),
            (Err(e), _) | (_, Err(e)) => {
                tracing::error!(error = %e, "a row of the due index cannot be read");
                continue;
            }
        };
        last = Some(format!("{at}/{order}"));
        match OrderId::new(order) {
            Ok(order) => page.rows.push(DueRow {
                order,
                workflow: workflow(row, 1)?.map(|workflow| workflow.name),
            }),
            Err(e) => tracing::error!(error = %e, "a row of the due index names no order"),
        }
    }
    page.next = last.filter(|_| seen == limit);
    Ok(page)
}

/// The version of a workflow that a row names; `None` where it names none.
fn workflow(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<WorkflowRef>> {
    let text: Option<String> = row.get(at).unwrap_or_default();
    Ok(text.and_then(|text| text.parse().ok()))
}

impl<C: Clock + Clone> OperatorStore for SqliteStore<C> {
    async fn attention(
        &self,
        kind: Attention,
        shard: u32,
        page: Option<String>,
    ) -> Result<AttentionPage, StoreError> {
        let from = place(page.as_deref(), "attention")?;
        self.engine
            .read(move |db| attention(db, kind, shard, from))
            .await
    }

    async fn search(
        &self,
        key: SearchKey,
        index: usize,
        page: Option<String>,
    ) -> Result<SearchPage, StoreError> {
        let Some(column) = SEARCH.get(index) else {
            return Err(StoreError::Item(format!(
                "there is no search index {index}"
            )));
        };
        let (from, now_s) = (page.map(|page| place(Some(&page), "search")), self.now_s());
        let from = from.transpose()?.unwrap_or((i64::MAX, String::new()));
        self.engine
            .read(move |db| search(db, column, &key, from, now_s))
            .await
    }

    async fn tally(&self, late: Timestamp) -> Result<Option<Tally>, StoreError> {
        let now_s = self.now_s();
        let read = move |db: &Connection| tally::tally(db, late, now_s);
        self.engine.read(read).await.map(Some)
    }

    async fn lately(&self, since: Timestamp) -> Result<Option<Lately>, StoreError> {
        let read = move |db: &Connection| tally::lately(db, since);
        self.engine.read(read).await.map(Some)
    }

    async fn versions(&self) -> Result<Vec<StoredVersion>, StoreError> {
        self.engine.read(definitions::versions).await?
    }

    async fn remove(&self, definition: WorkflowRef) -> Result<(), StoreError> {
        self.engine
            .write(move |db| definitions::remove(db, &definition))
            .await?
    }
}

fn attention(
    db: &Connection,
    kind: Attention,
    shard: u32,
    (at, id): IndexPosition,
) -> rusqlite::Result<AttentionPage> {
    let mut read = db.prepare_cached(
        "SELECT OrderID, AttentionAt, Cause, Workflow FROM order_state
        WHERE Attention = ?1 AND (AttentionAt, OrderID) > (?2, ?3)
        ORDER BY AttentionAt, OrderID LIMIT ?4",
    )?;
    let mut rows = read.query((attention_key(kind, shard), at, id, PAGE as i64))?;
    let (mut page, mut seen, mut last) = (AttentionPage::default(), 0, None);
    while let Some(row) = rows.next()? {
        seen += 1;
        let (order, at): (String, i64) = match (row.get(0), row.get(1)) {
            (Ok(order), Ok(at)) => (order, at),
            (Err(e), _) | (_, Err(e)) => {
                page.unreadable.push(damaged(row, &e));
                continue;
            }
        };
        last = Some(format!("{at}/{order}"));
        match attention_row(row, &order)? {
            Ok(row) => page.rows.push(row),
            Err(why) => page.unreadable.push(Unreadable {
                order_id: order,
                why,
            }),
        }
    }
    page.next = last.filter(|_| seen == PAGE);
    Ok(page)
}

/// Orders that have the given key in the given index column, newest submission first.
fn search(
    db: &Connection,
    column: &str,
    key: &SearchKey,
    (at, id): IndexPosition,
    now_s: i64,
) -> rusqlite::Result<SearchPage> {
    let mut read = db.prepare_cached(&format!(
        "SELECT OrderID, SubmittedAt, Workflow FROM order_state
        WHERE {column} = ?1 AND (SubmittedAt, OrderID) < (?2, ?3)
            AND (ExpiresAt IS NULL OR ExpiresAt > ?4)
        ORDER BY SubmittedAt DESC, OrderID DESC LIMIT ?5"
    ))?;
    let mut rows = read.query((key.to_string(), at, id, now_s, PAGE as i64))?;
    let (mut page, mut seen, mut last) = (SearchPage::default(), 0, None);
    while let Some(row) = rows.next()? {
        seen += 1;
        let (order, at): (String, i64) = match (row.get(0), row.get(1)) {
            (Ok(order), Ok(at)) => (order, at),
            (Err(e), _) | (_, Err(e)) => {
                page.unreadable.push(damaged(row, &e));
                continue;
            }
        };
        last = Some(format!("{at}/{order}"));
        match OrderId::new(&order) {
            Ok(order) => page.rows.push(SearchRow {
                order,
                at: Timestamp(at.cast_unsigned()),
                workflow: workflow(row, 2)?,
            }),
            Err(e) => page.unreadable.push(Unreadable {
                order_id: order,
                why: e.to_string(),
            }),
        }
    }
    page.next = last.filter(|_| seen == PAGE);
    Ok(page)
}

/// A row whose key cannot be read.
fn damaged(row: &Row<'_>, error: &rusqlite::Error) -> Unreadable {
    Unreadable {
        order_id: row.get(0).unwrap_or_default(),
        why: error.to_string(),
    }
}

fn attention_row(row: &Row<'_>, order: &str) -> rusqlite::Result<Result<AttentionRow, String>> {
    let cause: Option<String> = match row.get(2) {
        Ok(cause) => cause,
        Err(e) => return Ok(Err(format!("its cause cannot be read: {e}"))),
    };
    let cause = match cause.map(|json| serde_json::from_str(&json)).transpose() {
        Ok(cause) => cause,
        Err(e) => return Ok(Err(format!("its cause cannot be read: {e}"))),
    };
    let order = match OrderId::new(order) {
        Ok(order) => order,
        Err(e) => return Ok(Err(e.to_string())),
    };
    Ok(Ok(AttentionRow {
        order,
        at: Timestamp(row.get::<_, i64>(1)?.cast_unsigned()),
        cause,
        workflow: workflow(row, 3)?,
    }))
}
