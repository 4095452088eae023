//! The state store: new orders, conditional writes, reads.

use std::sync::{Arc, LazyLock};

use rusqlite::types::{Value as Sql, ValueRef};
use rusqlite::{CachedStatement, Connection, OptionalExtension, params_from_iter};
use serde_json::Value;
use triad_core::outbox::Writer;
use triad_core::{Order, OrderId, Timestamp};
use triad_runtime::ports::{OrderPage, Unreadable};
use triad_runtime::{
    Clock, Created, DuePage, NewOrder, OutputsOf, StateStore, StoreError, Write, Written,
};
use triad_workflow::Millis;

use crate::engine::Transaction;
use crate::error::{of_item, signed};
use crate::record::{self, COLUMNS, Encoded, INDEXED, KEY};
use crate::{SqliteStore, index, outputs};

/// Largest details, in bytes: as large as an item of DynamoDB, so that every order can be moved there.
pub(crate) const MAX_DETAILS_BYTES: usize = 400 * 1024;
/// Records of one page of [`StateStore::list`].
const LIST_PAGE: usize = 500;

/// The columns of a record and its checksum, as a statement reads them.
static READ: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {}, Checksum, Row FROM order_state",
        COLUMNS.join(", ")
    )
});
static READ_ONE: LazyLock<String> = LazyLock::new(|| format!("{} WHERE {KEY} = ?1", *READ));
static INSERT: LazyLock<String> = LazyLock::new(|| {
    let places = vec!["?"; COLUMNS.len() + 1].join(", ");
    let columns = COLUMNS.join(", ");
    format!("INSERT INTO order_state ({columns}, Checksum) VALUES ({places})")
});
/// Writes all columns, including those of the indexes.
static UPDATE: LazyLock<String> = LazyLock::new(|| update(|_| true));
/// Writes the columns that no index holds.
static UPDATE_UNINDEXED: LazyLock<String> =
    LazyLock::new(|| update(|name| !INDEXED.contains(&name)));

fn update(is_set: impl Fn(&str) -> bool) -> String {
    let columns = COLUMNS.into_iter().filter(|name| is_set(name));
    let set: Vec<String> = columns.map(|name| format!("{name} = ?")).collect();
    format!(
        "UPDATE order_state SET {}, Checksum = ? WHERE Row = ?",
        set.join(", ")
    )
}

/// The fields of the stored record that a write compares.
struct StoredOrder {
    row: i64,
    version: u64,
    token: Option<u64>,
    claim: Option<String>,
    expires: Option<u64>,
    /// The values of the columns that an index holds.
    indexed: [Sql; INDEXED.len()],
}

/// Most records that are read on the thread of the caller.
const AT_ONCE: usize = 4;

/// Retention of finished orders.
#[derive(Debug, Clone, Copy)]
struct Retention {
    record: Millis,
    details: Option<Millis>,
}

impl<C: Clock + Clone> SqliteStore<C> {
    fn retention(&self) -> Retention {
        Retention {
            record: self.retention,
            details: self.details_retention,
        }
    }

    /// Gives each of many items the result of the one call that serves all of them.
    fn each<T>(
        result: Result<Vec<Result<T, StoreError>>, StoreError>,
        items: usize,
    ) -> Vec<Result<T, StoreError>> {
        match result {
            Ok(answers) => answers,
            Err(e) => (0..items).map(|_| Err(e.clone())).collect(),
        }
    }
}

impl<C: Clock + Clone> StateStore for SqliteStore<C> {
    async fn create(&self, orders: Vec<NewOrder>) -> Vec<Result<Created, StoreError>> {
        let (items, kept) = (orders.len(), self.retention());
        let created = self.engine.write_with(move |group| {
            let created = orders.iter().map(|new| create_with(group, new, kept));
            created.map(of_item).collect()
        });
        Self::each(created.await, items)
    }

    async fn commit(&self, writes: Vec<Write>) -> Vec<Result<Written, StoreError>> {
        let (items, kept) = (writes.len(), self.retention());
        let written = self.engine.write_with(move |group| {
            let written = writes.iter().map(|write| commit_with(group, write, kept));
            written.map(of_item).collect()
        });
        Self::each(written.await, items)
    }

    async fn load(&self, orders: Vec<OrderId>) -> Vec<Result<Option<Order>, StoreError>> {
        let (items, now_s) = (orders.len(), self.now_s());
        let load = move |db: &Connection, orders: &[OrderId]| {
            let mut read = db.prepare_cached(&READ_ONE)?;
            let loaded = orders.iter().map(|id| load_one(&mut read, id, now_s));
            loaded.collect()
        };
        // A read at once never waits: without this, who loads in a loop would let no other task of its thread run.
        tokio::task::coop::consume_budget().await;
        let at_once = (items <= AT_ONCE).then(|| self.engine.read_at_once(|db| load(db, &orders)));
        match at_once.flatten() {
            Some(loaded) => loaded,
            None => Self::each(self.engine.read(move |db| load(db, &orders)).await, items),
        }
    }

    async fn details(&self, orders: Vec<OrderId>) -> Vec<Result<Option<Arc<Value>>, StoreError>> {
        let (items, now_s) = (orders.len(), self.now_s());
        let read = self.engine.read(move |db| {
            let details = orders.iter().map(|id| details_of(db, id, now_s));
            details.map(of_item).collect()
        });
        Self::each(read.await, items)
    }

    async fn outputs(&self, wanted: Vec<OutputsOf>) -> Vec<Result<Vec<Arc<Value>>, StoreError>> {
        let items = wanted.len();
        let read = self.engine.read(move |db| {
            let of_one = |wanted: &OutputsOf| {
                let digests = wanted.digests.iter();
                let read = digests.map(|digest| outputs::read(db, &wanted.order, digest));
                read.collect::<rusqlite::Result<Result<_, _>>>()
            };
            wanted.iter().map(of_one).collect()
        });
        Self::each(read.await, items)
    }

    async fn due(
        &self,
        shard: u32,
        until: Timestamp,
        limit: u32,
        page: Option<String>,
    ) -> Result<DuePage, StoreError> {
        let from = index::place(page.as_deref(), "due")?;
        self.engine
            .read(move |db| index::due(db, shard, until, limit, from))
            .await
    }

    async fn list(
        &self,
        state: Option<String>,
        page: Option<String>,
    ) -> Result<OrderPage, StoreError> {
        let now_s = self.now_s();
        let below = page
            .as_deref()
            .map(|page| page.strip_prefix(BELOW)?.parse().ok());
        let Some(below) = below.unwrap_or(Some(i64::MAX)) else {
            let page = page.unwrap_or_default();
            return Err(StoreError::Item(format!(
                "{page:?} is not a page of the records"
            )));
        };
        self.engine
            .read(move |db| list(db, state.as_deref(), below, now_s))
            .await
    }
}

/// Stores one order, with its messages if their topics take them.
fn create_with(
    group: &mut Transaction<'_>,
    new: &NewOrder,
    kept: Retention,
) -> rusqlite::Result<Result<Created, StoreError>> {
    let created = create_one(group.db, new, kept)?;
    if created != Ok(Created::Created) {
        return Ok(created);
    }
    let Some(topics) = group.topics else {
        return Ok(created);
    };
    match topics.prepare(&new.messages) {
        None => Ok(created),
        Some(messages) => {
            topics.append_prepared(group.db, messages)?;
            Ok(Ok(Created::WithMessages))
        }
    }
}

/// Writes one record if its condition holds, with its messages if their topics take them.
fn commit_with(
    group: &mut Transaction<'_>,
    write: &Write,
    kept: Retention,
) -> rusqlite::Result<Result<Written, StoreError>> {
    let Some(topics) = group.topics else {
        let stored = commit_one(group.db, write, &write.next, kept)?;
        return Ok(stored.map(Written::from));
    };
    let Some(messages) = topics.prepare(&write.messages) else {
        let stored = commit_one(group.db, write, &write.without_messages(), kept)?;
        return Ok(stored.map(Written::from));
    };
    match commit_one(group.db, write, &write.next, kept)? {
        // A repeated write has stored its messages before, or sends them by the bus once more.
        Ok(Stored::Now) => {
            topics.append_prepared(group.db, messages)?;
            Ok(Ok(Written::WithMessages))
        }
        stored => Ok(stored.map(Written::from)),
    }
}

/// Stores one order, or finds that a record or details have its id already.
fn create_one(
    db: &Connection,
    new: &NewOrder,
    kept: Retention,
) -> rusqlite::Result<Result<Created, StoreError>> {
    let id = new.order.id.as_str();
    let digest: Option<String> = db
        .prepare_cached("SELECT Digest FROM orders WHERE OrderID = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    if let Some(digest) = digest {
        return Ok(Ok(Created::Exists { digest }));
    }
    let is_there = db
        .prepare_cached("SELECT 1 FROM order_state WHERE OrderID = ?1")?
        .exists([id])?;
    if is_there {
        // The details have expired, and the digest with them.
        let digest = String::new();
        return Ok(Ok(Created::Exists { digest }));
    }
    let details = new.details.to_string();
    if details.len() > MAX_DETAILS_BYTES {
        let (is, allowed) = (details.len(), MAX_DETAILS_BYTES);
        let why = format!("the details of {id} have {is} bytes, and {allowed} are allowed");
        return Ok(Err(StoreError::Item(why)));
    }
    let encoded = match record::encode(&new.order, 0, kept.record, None) {
        Ok(encoded) => encoded,
        Err(refused) => return Ok(Err(refused)),
    };
    insert_details(db, id, &details, &new.digest, None)?;
    insert_record(db, encoded)?;
    Ok(Ok(Created::Created))
}

/// Inserts new details, which expire at this moment, in seconds.
pub(crate) fn insert_details(
    db: &Connection,
    id: &str,
    details: &str,
    digest: &str,
    expires: Option<i64>,
) -> rusqlite::Result<()> {
    let sum = sum_of_details(id, details, digest);
    db.prepare_cached(
        "INSERT INTO orders (OrderID, Details, Digest, ExpiresAt, Checksum)
        VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((id, details, digest, expires, sum))?;
    Ok(())
}

/// Inserts a new record.
pub(crate) fn insert_record(db: &Connection, record: Encoded) -> rusqlite::Result<()> {
    let Encoded { values, checksum } = record;
    let values = values.into_iter().chain([Sql::Integer(checksum)]);
    db.prepare_cached(&INSERT)?
        .execute(params_from_iter(values))?;
    Ok(())
}

/// Result of one conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stored {
    /// The record was written now.
    Now,
    /// The record was written by an earlier try with the same token.
    Before,
    Conflict,
}

impl From<Stored> for Written {
    fn from(stored: Stored) -> Self {
        match stored {
            Stored::Now | Stored::Before => Self::Written,
            Stored::Conflict => Self::Conflict,
        }
    }
}

/// Writes one record if its condition holds.
fn commit_one(
    db: &Connection,
    write: &Write,
    next: &Order,
    kept: Retention,
) -> rusqlite::Result<Result<Stored, StoreError>> {
    let Some(standing) = stored_order(db, &next.id)? else {
        return Ok(Ok(Stored::Conflict));
    };
    // An earlier try of the same write may have taken effect.
    if standing.token == Some(write.token) && standing.version == next.version.0 {
        return Ok(Ok(Stored::Before));
    }
    // The version alone fences every writer. A claim also checks the pattern's own condition.
    let claim = next.state.locked_by().map(|claim| claim.0.as_str());
    let is_locked = matches!((claim, &standing.claim), (Some(own), Some(held)) if own != held);
    if standing.version != write.expected.0 || is_locked {
        return Ok(Ok(Stored::Conflict));
    }
    let Encoded { values, checksum } =
        match record::encode(next, write.token, kept.record, standing.expires) {
            Ok(encoded) => encoded,
            Err(refused) => return Ok(Err(refused)),
        };
    if let Some(retention) = kept.details
        && !expire_details(db, next, retention)?
    {
        let id = &next.id;
        let why = format!("the details of {id} have expired");
        return Ok(Err(StoreError::Item(why)));
    }
    outputs::insert(db, &next.id, next.new_outputs())?;
    let moves = INDEXED
        .iter()
        .zip(&standing.indexed)
        .any(|(name, stands)| record::place(name).is_none_or(|place| values[place] != *stands));
    let is_indexed = |name: &str| INDEXED.contains(&name);
    let statement = if moves { &UPDATE } else { &UPDATE_UNINDEXED };
    let set = COLUMNS.into_iter().zip(values);
    let set = set.filter(|(name, _)| moves || !is_indexed(name));
    let values = set.map(|(_, value)| value);
    let values = values.chain([Sql::Integer(checksum), Sql::Integer(standing.row)]);
    db.prepare_cached(statement)?
        .execute(params_from_iter(values))?;
    Ok(Ok(Stored::Now))
}

fn stored_order(db: &Connection, id: &OrderId) -> rusqlite::Result<Option<StoredOrder>> {
    let mut read = db.prepare_cached(
        "SELECT Row, Version, WriteToken, LockedBy, ExpiresAt,
            OrderID, Workflow, DueShard, DueAt, Attention, AttentionAt, ExpiresAt,
            SubmittedAt, Search1, Search2
        FROM order_state WHERE OrderID = ?1",
    )?;
    let number = |n: i64| n.cast_unsigned();
    read.query_row([id.as_str()], |row| {
        let mut indexed = [const { Sql::Null }; INDEXED.len()];
        for (at, slot) in indexed.iter_mut().enumerate() {
            *slot = row.get(5 + at)?;
        }
        Ok(StoredOrder {
            row: row.get(0)?,
            version: number(row.get(1)?),
            token: row.get::<_, Option<i64>>(2)?.map(number),
            claim: row.get(3)?,
            expires: row.get::<_, Option<i64>>(4)?.map(number),
            indexed,
        })
    })
    .optional()
}

/// Sets the expiry of an order's details at its end, or clears it if an operator may have started a new run. False if
/// they have expired already and the order needs them.
fn expire_details(db: &Connection, next: &Order, retention: Millis) -> rusqlite::Result<bool> {
    let at = match next.kept_from() {
        Some(at) => Some(signed(at.plus(retention).0 / 1000)),
        None if next.outbox.writer == Writer::Operator => None,
        None => return Ok(true),
    };
    let changed = db
        .prepare_cached("UPDATE orders SET ExpiresAt = ?2 WHERE OrderID = ?1")?
        .execute((next.id.as_str(), at))?;
    Ok(changed > 0 || at.is_some())
}

fn load_one(
    read: &mut CachedStatement<'_>,
    id: &OrderId,
    now_s: i64,
) -> rusqlite::Result<Result<Option<Order>, StoreError>> {
    let mut rows = read.query([id.as_str()])?;
    Ok(match rows.next()? {
        Some(row) => record::decode(row, now_s),
        None => Ok(None),
    })
}

pub(crate) fn sum_of_details(id: &str, details: &str, digest: &str) -> i64 {
    let parts = [id, details, digest];
    record::checksum(
        parts
            .into_iter()
            .map(|part| ValueRef::Text(part.as_bytes())),
    )
}

type Details = Result<Option<Arc<Value>>, StoreError>;

fn details_of(db: &Connection, id: &OrderId, now_s: i64) -> rusqlite::Result<Details> {
    let mut read = db.prepare_cached(
        "SELECT Details, Digest, Checksum FROM orders
        WHERE OrderID = ?1 AND (ExpiresAt IS NULL OR ExpiresAt > ?2)",
    )?;
    let found = read.query_row((id.as_str(), now_s), |row| {
        Ok((
            row.get::<_, String>(0)?,
            row.get::<_, String>(1)?,
            row.get::<_, i64>(2)?,
        ))
    });
    let Some((details, digest, sum)) = found.optional()? else {
        return Ok(Ok(None));
    };
    if sum != sum_of_details(id.as_str(), &details, &digest) {
        let why = format!("the stored details of {id} do not fit their checksum");
        return Ok(Err(StoreError::Item(why)));
    }
    Ok(match serde_json::from_str(&details) {
        Ok(details) => Ok(Some(Arc::new(details))),
        Err(e) => Err(StoreError::Item(format!(
            "stored details cannot be read: {e}"
        ))),
    })
}

/// What the name of a page of the records begins with, before the number of the row below which it begins.
const BELOW: char = '<';

/// One page of the records, the newest first. A page ends after a fixed number of rows read, however many match.
fn list(
    db: &Connection,
    state: Option<&str>,
    below: i64,
    now_s: i64,
) -> rusqlite::Result<OrderPage> {
    let newest_first = format!("{} WHERE Row < ?1 ORDER BY Row DESC LIMIT ?2", *READ);
    let mut read = db.prepare_cached(&newest_first)?;
    let mut rows = read.query((below, LIST_PAGE as i64))?;
    let mut page = OrderPage::default();
    let (mut seen, mut last) = (0, below);
    while let Some(row) = rows.next()? {
        (seen, last) = (seen + 1, row.get::<_, i64>(COLUMNS.len() + 1)?);
        let this = || format!("{BELOW}{}", last.saturating_add(1));
        page.this.get_or_insert_with(this);
        let is_asked_for = match (state, record::place("ProcessState")) {
            (Some(wanted), Some(at)) => row.get_ref(at)? == ValueRef::Text(wanted.as_bytes()),
            _ => true,
        };
        if !is_asked_for {
            continue;
        }
        match record::decode(row, now_s) {
            Ok(order) => page.orders.extend(order),
            Err(why) => page.unreadable.push(Unreadable {
                order_id: row.get(0).unwrap_or_default(),
                why: why.to_string(),
            }),
        }
    }
    page.next = (seen == LIST_PAGE).then(|| format!("{BELOW}{last}"));
    Ok(page)
}
