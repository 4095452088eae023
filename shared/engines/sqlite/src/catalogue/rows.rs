//! Rows of the topics: their tables, their numbers, and bytes as text.

use rusqlite::Row;
use rusqlite::types::{ToSqlOutput, Type, ValueRef};
use serde_json::Value as Json;

use super::record::{Headers, NewRecord, StoredRecord};
use super::state::PartitionId;

/// Bits of a record's row number that hold its offset; those above hold its partition.
const OFFSET_BITS: u32 = 44;
/// Row number of a record.
pub(crate) fn place(partition: PartitionId, offset: i64) -> i64 {
    (partition << OFFSET_BITS) + offset
}

/// Offset of the record with this row number.
pub(crate) fn offset_of(place: i64) -> i64 {
    place & ((1 << OFFSET_BITS) - 1)
}

/// The tables of the topics, as SQL.
pub(crate) fn tables() -> &'static str {
    "CREATE TABLE IF NOT EXISTS bus (
        Id INTEGER PRIMARY KEY CHECK (Id = 1), Cluster TEXT NOT NULL,
        NextProducer INTEGER NOT NULL, Runs INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS topics (
        Topic INTEGER PRIMARY KEY AUTOINCREMENT, Name TEXT NOT NULL UNIQUE, Id TEXT NOT NULL, Settings TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS partitions (
        Partition INTEGER PRIMARY KEY AUTOINCREMENT, Topic INTEGER NOT NULL, Number INTEGER NOT NULL,
        Next INTEGER NOT NULL DEFAULT 0, UNIQUE (Topic, Number));
    CREATE TABLE IF NOT EXISTS records (
        Place INTEGER PRIMARY KEY, Time INTEGER NOT NULL, Latest INTEGER NOT NULL, Appended INTEGER NOT NULL,
        Total INTEGER NOT NULL, Key, Value, Headers TEXT);
    CREATE TABLE IF NOT EXISTS group_offsets (
        GroupName TEXT NOT NULL, Partition INTEGER NOT NULL, Offset INTEGER NOT NULL,
        LeaderEpoch INTEGER NOT NULL, Metadata TEXT NOT NULL,
        PRIMARY KEY (GroupName, Partition)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS producers (
        Partition INTEGER NOT NULL, Producer INTEGER NOT NULL, State TEXT NOT NULL, Last INTEGER NOT NULL,
        PRIMARY KEY (Partition, Producer)) WITHOUT ROWID;
    CREATE VIEW IF NOT EXISTS messages AS SELECT t.Name AS Topic, p.Number AS Partition,
        r.Place & 17592186044415 AS Offset, r.Time AS Time, r.Key AS Key, r.Value AS Value, r.Headers AS Headers
        FROM records r JOIN partitions p ON p.Partition = r.Place >> 44 JOIN topics t ON t.Topic = p.Topic;"
}

/// Text where the bytes are text, so that any client of SQLite can read it.
pub(crate) fn text_or_bytes(bytes: Option<&[u8]>) -> ToSqlOutput<'_> {
    let Some(bytes) = bytes else {
        return ToSqlOutput::Borrowed(ValueRef::Null);
    };
    ToSqlOutput::Borrowed(match std::str::from_utf8(bytes) {
        Ok(_) => ValueRef::Text(bytes),
        Err(_) => ValueRef::Blob(bytes),
    })
}

/// Headers as a JSON array of pairs. A value that is no text is an array of its bytes.
pub(crate) fn headers_as_json(record: &StoredRecord) -> Option<String> {
    let pair = |(name, value): (&str, Option<&[u8]>)| {
        let value = value.map(|bytes| match std::str::from_utf8(bytes) {
            Ok(text) => Json::from(text),
            Err(_) => Json::from(bytes),
        });
        Json::from(vec![Json::from(name), Json::from(value)])
    };
    let pairs: Vec<Json> = record.headers().map(pair).collect();
    (!pairs.is_empty()).then(|| Json::from(pairs).to_string())
}

/// The reverse of [`headers_as_json`]; `None` if the text is damaged.
fn headers_from_json(text: &str) -> Option<Headers> {
    let pairs: Vec<(String, Json)> = serde_json::from_str(text).ok()?;
    let value = |value| match value {
        Json::Null => Some(None),
        Json::String(text) => Some(Some(text.into_bytes())),
        bytes => serde_json::from_value(bytes).ok().map(Some),
    };
    let pair = |(name, json)| Some((name, value(json)?));
    pairs.into_iter().map(pair).collect()
}

/// A record and its offset, of a row with the columns Place, Time, Key, Value, Headers.
pub(crate) fn record_of(row: &Row<'_>) -> rusqlite::Result<(i64, NewRecord)> {
    let bytes = |at: usize| -> rusqlite::Result<Option<Vec<u8>>> {
        let value = row.get_ref(at)?;
        Ok(value.as_bytes_or_null()?.map(<[u8]>::to_vec))
    };
    let headers = match row.get_ref(4)?.as_str_or_null()? {
        None => Vec::new(),
        Some(text) => headers_from_json(text).ok_or_else(|| damaged("the headers of a record"))?,
    };
    let record = NewRecord {
        timestamp_ms: row.get(1)?,
        key: bytes(2)?,
        value: bytes(3)?,
        headers,
    };
    Ok((offset_of(row.get(0)?), record))
}

/// The error for a part of a row that cannot be read.
pub(crate) fn damaged(what: &str) -> rusqlite::Error {
    let why = format!("{what}: it is damaged");
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, why.into())
}
