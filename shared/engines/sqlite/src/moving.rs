//! Export of all stored items, page by page, and their import where no item exists.

use std::sync::{Arc, LazyLock};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};
use triad_core::{OrderId, Timestamp, WorkflowRef};
use triad_runtime::moving::{
    Keeping, KeptControl, KeptDetails, KeptOrder, KeptPage, KeptRecord, KeptWorkflow, MovingStore,
    StorePart, StoredItem, compared,
};
use triad_runtime::ports::Unreadable;
use triad_runtime::{Clock, StoreError};

use crate::error::signed;
use crate::orders::{MAX_DETAILS_BYTES, insert_details, insert_record, sum_of_details};
use crate::record::{self, COLUMNS};
use crate::{SqliteStore, outputs};

/// Items of one page.
const PAGE: usize = 100;
/// Prefix of the name of a page of records; pages of orders that have only details begin with [`DETAILS`].
const RECORDS: &str = "records/";
const DETAILS: &str = "details/";

/// Column at which the details begin, after those of the record, its checksum and its row id.
const DETAILS_AT: usize = COLUMNS.len() + 2;

/// A record and its details.
static READ: LazyLock<String> = LazyLock::new(|| {
    let columns = COLUMNS.map(|name| format!("s.{name}"));
    format!(
        "SELECT {}, s.Checksum, s.Row, d.Details, d.Digest, d.ExpiresAt, d.Checksum
        FROM order_state s LEFT JOIN orders d ON d.OrderID = s.OrderID",
        columns.join(", ")
    )
});
static READ_PAGE: LazyLock<String> =
    LazyLock::new(|| format!("{} WHERE s.Row > ?1 ORDER BY s.Row LIMIT ?2", *READ));
static READ_ONE: LazyLock<String> = LazyLock::new(|| format!("{} WHERE s.OrderID = ?1", *READ));

impl<C: Clock + Clone> MovingStore for SqliteStore<C> {
    async fn kept(&self, part: StorePart, page: Option<String>) -> Result<KeptPage, StoreError> {
        let now = self.clock.now();
        let page = page.unwrap_or_default();
        let read = self.engine.read(move |db| match part {
            StorePart::Workflows => workflows(db, &page).map(Ok),
            StorePart::Control => control(db, &page, signed(now.0)).map(Ok),
            StorePart::Orders => orders(db, &page, now),
        });
        read.await?
    }

    async fn keep(
        &self,
        items: Vec<StoredItem>,
        dry_run: bool,
    ) -> Vec<Result<Keeping, StoreError>> {
        let count = items.len();
        let now = signed(self.clock.now().0);
        let keep = move |db: &Connection| {
            let one = |item: &StoredItem| match item {
                StoredItem::Workflow(workflow) => keep_workflow(db, workflow, dry_run).map(Ok),
                StoredItem::Present(definition) => keep_present(db, definition, dry_run).map(Ok),
                StoredItem::Control(control) => keep_control(db, control, now, dry_run).map(Ok),
                StoredItem::Order(order) => keep_order(db, order, dry_run),
            };
            items.iter().map(one).collect()
        };
        let kept = match dry_run {
            true => self.engine.read(keep).await,
            false => self.engine.write(keep).await,
        };
        kept.unwrap_or_else(|e| (0..count).map(|_| Err(e.clone())).collect())
    }
}

fn orders(
    db: &Connection,
    page: &str,
    now: Timestamp,
) -> rusqlite::Result<Result<KeptPage, StoreError>> {
    let after = |row: &str| {
        let none = || StoreError::Item(format!("{page:?} is not a page of the orders"));
        row.parse::<i64>().map_err(|_| none())
    };
    let read = match (page.strip_prefix(DETAILS), page.strip_prefix(RECORDS)) {
        (Some(row), _) => after(row).map(|row| details_alone(db, row, now)),
        (None, Some(row)) => after(row).map(|row| records(db, row, now)),
        (None, None) if page.is_empty() => Ok(records(db, 0, now)),
        (None, None) => after("").map(|row| records(db, row, now)),
    };
    read.map_or_else(|e| Ok(Err(e)), |read| read.map(Ok))
}

fn records(db: &Connection, after: i64, now: Timestamp) -> rusqlite::Result<KeptPage> {
    let mut read = db.prepare_cached(&READ_PAGE)?;
    let mut rows = read.query((after, PAGE as i64))?;
    let (mut page, mut seen, mut last) = (KeptPage::default(), 0, after);
    while let Some(row) = rows.next()? {
        (seen, last) = (seen + 1, row.get(COLUMNS.len() + 1)?);
        let id: String = row.get(0).unwrap_or_default();
        add(&mut page, id, read_order(db, row)?, now);
    }
    page.next = Some(match seen == PAGE {
        true => format!("{RECORDS}{last}"),
        false => format!("{DETAILS}0"),
    });
    Ok(page)
}

/// Details whose record has been deleted: they reserve their id.
fn details_alone(db: &Connection, after: i64, now: Timestamp) -> rusqlite::Result<KeptPage> {
    let mut read = db.prepare_cached(
        "SELECT Details, Digest, ExpiresAt, Checksum, OrderID, rowid FROM orders d
        WHERE rowid > ?1 AND NOT EXISTS (SELECT 1 FROM order_state s WHERE s.OrderID = d.OrderID)
        ORDER BY rowid LIMIT ?2",
    )?;
    let mut rows = read.query((after, PAGE as i64))?;
    let (mut page, mut seen, mut last) = (KeptPage::default(), 0, after);
    while let Some(row) = rows.next()? {
        (seen, last) = (seen + 1, row.get(5)?);
        let id: String = row.get(4)?;
        let read = details(row, 0, &id)?;
        add(&mut page, id.clone(), order(id, None, read), now);
    }
    page.next = (seen == PAGE).then(|| format!("{DETAILS}{last}"));
    Ok(page)
}

fn add(page: &mut KeptPage, id: String, read: Result<KeptOrder, StoreError>, now: Timestamp) {
    match read {
        Ok(order) => page.items.extend(
            order
                .at(now)
                .map(|order| StoredItem::Order(Box::new(order))),
        ),
        Err(why) => page.unreadable.push(Unreadable {
            order_id: id,
            why: why.to_string(),
        }),
    }
}

/// A row of [`READ`], whether or not it has expired.
fn read_order(db: &Connection, row: &Row<'_>) -> rusqlite::Result<Result<KeptOrder, StoreError>> {
    let id: String = row.get(0)?;
    let number = |name: &str| match record::place(name).map(|at| row.get_ref(at)) {
        Some(Ok(ValueRef::Integer(number))) => Some(number.cast_unsigned()),
        _ => None,
    };
    // No record expires before second 0, so expired records are read too.
    let record = match record::decode(row, 0) {
        Err(why) => return Ok(Err(why)),
        Ok(None) => None,
        Ok(Some(mut order)) => {
            if let Err(why) = outputs::complete(db, &mut order)? {
                return Ok(Err(why));
            }
            Some(KeptRecord {
                order: Arc::new(order),
                token: number("WriteToken").unwrap_or_default(),
                expires_s: number("ExpiresAt"),
            })
        }
    };
    let details = details(row, DETAILS_AT, &id)?;
    Ok(order(id, record, details))
}

fn order(
    id: String,
    record: Option<KeptRecord>,
    details: Result<Option<KeptDetails>, StoreError>,
) -> Result<KeptOrder, StoreError> {
    Ok(KeptOrder {
        id: OrderId::new(id).map_err(|e| StoreError::Item(e.to_string()))?,
        record,
        details: details?,
    })
}

/// The details whose columns begin at `at`; `None` if there are none.
fn details(
    row: &Row<'_>,
    at: usize,
    id: &str,
) -> rusqlite::Result<Result<Option<KeptDetails>, StoreError>> {
    let Some(json) = row.get::<_, Option<String>>(at)? else {
        return Ok(Ok(None));
    };
    let digest: String = row.get(at + 1)?;
    if row.get::<_, i64>(at + 3)? != sum_of_details(id, &json, &digest) {
        let why = format!("the stored details of {id} do not fit their checksum");
        return Ok(Err(StoreError::Item(why)));
    }
    Ok(Ok(Some(KeptDetails {
        json,
        digest,
        expires_s: row.get::<_, Option<i64>>(at + 2)?.map(i64::cast_unsigned),
    })))
}

/// The stored order with an id, whether or not it has expired.
fn stored_item(
    db: &Connection,
    id: &OrderId,
) -> rusqlite::Result<Result<Option<KeptOrder>, StoreError>> {
    let mut read = db.prepare_cached(&READ_ONE)?;
    let mut rows = read.query([id.as_str()])?;
    if let Some(row) = rows.next()? {
        return Ok(read_order(db, row)?.map(Some));
    }
    let mut read = db.prepare_cached(
        "SELECT Details, Digest, ExpiresAt, Checksum FROM orders WHERE OrderID = ?1",
    )?;
    let mut rows = read.query([id.as_str()])?;
    let Some(row) = rows.next()? else {
        return Ok(Ok(None));
    };
    let details = details(row, 0, id.as_str())?;
    Ok(order(id.to_string(), None, details).map(Some))
}

fn keep_order(
    db: &Connection,
    own: &KeptOrder,
    dry_run: bool,
) -> rusqlite::Result<Result<Keeping, StoreError>> {
    let keeping = match stored_item(db, &own.id)? {
        Ok(standing) => compared(standing.as_ref(), own),
        Err(why) => return Ok(Err(why)),
    };
    if keeping != Keeping::New {
        return Ok(Ok(keeping));
    }
    let record = own.record.as_ref().map(|record| {
        let KeptRecord {
            order,
            token,
            expires_s,
        } = record;
        record::encode_kept(order, *token, *expires_s)
    });
    let record = match record.transpose() {
        Ok(record) => record,
        Err(refused) => return Ok(Err(refused)),
    };
    if let Some(details) = &own.details
        && details.json.len() > MAX_DETAILS_BYTES
    {
        let (id, is) = (&own.id, details.json.len());
        let why =
            format!("the details of {id} have {is} bytes, and {MAX_DETAILS_BYTES} are allowed");
        return Ok(Err(StoreError::Item(why)));
    }
    if dry_run {
        return Ok(Ok(keeping));
    }
    if let Some(details) = &own.details {
        let expires = details.expires_s.map(signed);
        insert_details(db, own.id.as_str(), &details.json, &details.digest, expires)?;
    }
    if let Some(record) = &own.record {
        outputs::insert(db, &own.id, record.order.outputs_read())?;
    }
    if let Some(record) = record {
        insert_record(db, record)?;
    }
    Ok(Ok(Keeping::New))
}

fn control(db: &Connection, after: &str, now: i64) -> rusqlite::Result<KeptPage> {
    let mut read = db.prepare_cached(
        "SELECT Version, Value, WriteToken, ExpiresAt, Key FROM control
        WHERE Key > ?1 AND (ExpiresAt IS NULL OR ExpiresAt > ?2) ORDER BY Key LIMIT ?3",
    )?;
    let rows = read.query_map((after, now, PAGE as i64), |row| {
        control_of(row, row.get(4)?)
    })?;
    let records = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    let full = records.len() == PAGE;
    Ok(KeptPage {
        next: records.last().filter(|_| full).map(|last| last.key.clone()),
        items: records.into_iter().map(StoredItem::Control).collect(),
        unreadable: Vec::new(),
    })
}

fn control_of(row: &Row<'_>, key: String) -> rusqlite::Result<KeptControl> {
    let expires: Option<i64> = row.get(3)?;
    Ok(KeptControl {
        key,
        version: row.get::<_, i64>(0)?.cast_unsigned(),
        json: row.get(1)?,
        token: row.get::<_, i64>(2)?.cast_unsigned(),
        expires: expires.map(|at| Timestamp(at.cast_unsigned())),
    })
}

fn keep_control(
    db: &Connection,
    own: &KeptControl,
    now: i64,
    dry_run: bool,
) -> rusqlite::Result<Keeping> {
    let standing = db
        .prepare_cached(
            "SELECT Version, Value, WriteToken, ExpiresAt FROM control
            WHERE Key = ?1 AND (ExpiresAt IS NULL OR ExpiresAt > ?2)",
        )?
        .query_row((&own.key, now), |row| control_of(row, own.key.clone()))
        .optional()?;
    let keeping = match standing {
        None => Keeping::New,
        Some(standing) if standing.is_same(own) => Keeping::Same,
        Some(_) => Keeping::Different,
    };
    if keeping == Keeping::New && !dry_run {
        // A record that has expired and is not deleted yet counts as absent.
        db.prepare_cached(
            "INSERT OR REPLACE INTO control (Key, Version, Value, WriteToken, ExpiresAt)
            VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute((
            &own.key,
            signed(own.version),
            &own.json,
            signed(own.token),
            own.expires.map(|at| signed(at.0)),
        ))?;
    }
    Ok(keeping)
}

/// The versions, ordered by name and hash; the name of a page is the last version, as printed.
fn workflows(db: &Connection, after: &str) -> rusqlite::Result<KeptPage> {
    let mut read = db.prepare_cached(
        "SELECT w.Name || '@' || w.Hash, w.Definition, w.PublishedAt, c.Hash IS NOT NULL
        FROM workflows w LEFT JOIN current_workflows c ON c.Name = w.Name AND c.Hash = w.Hash
        WHERE w.Name || '@' || w.Hash > ?1 ORDER BY w.Name || '@' || w.Hash LIMIT ?2",
    )?;
    let mut rows = read.query((after, PAGE as i64))?;
    let (mut page, mut seen) = (KeptPage::default(), 0);
    while let Some(row) = rows.next()? {
        seen += 1;
        let name: String = row.get(0)?;
        page.next = Some(name.clone());
        let definition: WorkflowRef = match name.parse() {
            Ok(definition) => definition,
            Err(why) => {
                page.unreadable.push(Unreadable {
                    order_id: name,
                    why: why.to_string(),
                });
                continue;
            }
        };
        page.items.push(StoredItem::Workflow(KeptWorkflow {
            definition: definition.clone(),
            json: row.get(1)?,
            published_at: Timestamp(row.get::<_, i64>(2)?.cast_unsigned()),
        }));
        if row.get(3)? {
            page.items.push(StoredItem::Present(definition));
        }
    }
    page.next = page.next.filter(|_| seen == PAGE);
    Ok(page)
}

fn keep_workflow(db: &Connection, own: &KeptWorkflow, dry_run: bool) -> rusqlite::Result<Keeping> {
    let key = (own.definition.name.as_str(), own.definition.hash.as_str());
    let standing: Option<String> = db
        .prepare_cached("SELECT Definition FROM workflows WHERE Name = ?1 AND Hash = ?2")?
        .query_row(key, |row| row.get(0))
        .optional()?;
    let keeping = compared(standing.as_ref(), &own.json);
    if keeping == Keeping::New && !dry_run {
        let (name, hash) = key;
        db.execute(
            "INSERT INTO workflows (Name, Hash, Definition, PublishedAt) VALUES (?1, ?2, ?3, ?4)",
            (name, hash, &own.json, signed(own.published_at.0)),
        )?;
    }
    Ok(keeping)
}

fn keep_present(db: &Connection, own: &WorkflowRef, dry_run: bool) -> rusqlite::Result<Keeping> {
    let (name, hash) = (own.name.as_str(), own.hash.as_str());
    let standing: Option<String> = db
        .prepare_cached("SELECT Hash FROM current_workflows WHERE Name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()?;
    let keeping = compared(standing.as_deref(), hash);
    if keeping == Keeping::New && !dry_run {
        db.execute(
            "INSERT INTO current_workflows (Name, Hash) VALUES (?1, ?2)",
            (name, hash),
        )?;
    }
    Ok(keeping)
}
