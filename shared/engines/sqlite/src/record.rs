//! A process record as a row: a column for each attribute, and a checksum over all of them.

use rusqlite::Row;
use rusqlite::types::{Value, ValueRef};
use triad_core::stored::{self, NotScalar, Scalar, attribute as attr};
use triad_core::{Order, Timestamp};
use triad_runtime::StoreError;
use triad_workflow::Millis;

use crate::error::signed;

/// The key column.
pub(crate) const KEY: &str = attr::ORDER_ID;

/// The columns of a record, in the order of the table.
pub(crate) const COLUMNS: [&str; 38] = [
    KEY,
    attr::VERSION,
    attr::PROCESS_STATE,
    attr::LOCKED_BY,
    attr::COMPLETE_BY,
    attr::FAILURE_COUNT,
    attr::WORKFLOW,
    attr::PRIORITY,
    attr::REPLY_TOPIC,
    attr::TRACE,
    attr::SUBMITTED_AT,
    attr::FINISHED_AT,
    attr::CAUSE,
    attr::COMPENSATED_FOR,
    attr::STEPS,
    attr::SEQUENCE,
    attr::OUTBOX,
    attr::INCIDENTS,
    attr::DROPPED,
    attr::RUN,
    attr::SET_ASIDE,
    attr::DEADLINE,
    attr::LATE_SINCE,
    attr::PAUSED,
    attr::CLOSED,
    attr::WRITE_TOKEN,
    attr::DUE_SHARD,
    attr::DUE_AT,
    attr::ATTENTION,
    attr::ATTENTION_AT,
    attr::EXPIRES_AT,
    attr::SEARCH_1,
    attr::SEARCH_2,
    attr::CAMPAIGN,
    ADDED[0],
    ADDED[1],
    ADDED[2],
    ADDED[3],
];

/// The columns that versions 3 to 6 of the tables have added, one each.
pub(crate) const ADDED: [&str; 4] = [attr::EVENTS, attr::AMENDMENT, attr::PARENT, attr::START_AT];

/// Position of the column with the time of expiry.
const EXPIRES_AT: usize = COLUMNS.len() - stored::SEARCH.len() - ADDED.len() - 2;

/// The columns that an index holds. A write that changes none of them does not touch the indexes.
pub(crate) const INDEXED: [&str; 10] = [
    KEY,
    attr::WORKFLOW,
    attr::DUE_SHARD,
    attr::DUE_AT,
    attr::ATTENTION,
    attr::ATTENTION_AT,
    attr::EXPIRES_AT,
    attr::SUBMITTED_AT,
    attr::SEARCH_1,
    attr::SEARCH_2,
];

/// Largest record, in bytes of all its values: the limit of an item in DynamoDB, so that every record can be moved
/// there.
const MAX_BYTES: usize = 400 * 1024;

/// Position of a column in [`COLUMNS`].
pub(crate) fn place(name: &str) -> Option<usize> {
    COLUMNS.iter().position(|column| *column == name)
}

/// A record as the values of its columns, and their checksum.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) values: [Value; COLUMNS.len()],
    pub(crate) checksum: i64,
}

/// A record as a row. It expires `retention` after [`Order::kept_from`], and not before `standing`, in seconds.
///
/// # Errors
/// [`StoreError::Item`] if it is larger than the store takes.
pub(crate) fn encode(
    order: &Order,
    token: u64,
    retention: Millis,
    standing: Option<u64>,
) -> Result<Encoded, StoreError> {
    encode_with(order, token, retention, |expires| {
        expires.map(|at| standing.map_or(at, |standing| at.max(standing)))
    })
}

/// A record as a row that expires at this moment, in seconds, or never.
///
/// # Errors
/// [`StoreError::Item`] if it is larger than the store takes.
pub(crate) fn encode_kept(
    order: &Order,
    token: u64,
    expires_s: Option<u64>,
) -> Result<Encoded, StoreError> {
    encode_with(order, token, Millis(0), |_| expires_s)
}

fn encode_with(
    order: &Order,
    token: u64,
    retention: Millis,
    expires: impl FnOnce(Option<u64>) -> Option<u64>,
) -> Result<Encoded, StoreError> {
    let mut values = [const { Value::Null }; COLUMNS.len()];
    let mut bytes = 0;
    for (name, value) in stored::encode(order, token, retention) {
        let place = place(name)
            .ok_or_else(|| StoreError::Item(format!("there is no column for {name}")))?;
        bytes += name.len();
        values[place] = match value {
            Scalar::Text(text) => {
                bytes += text.len();
                Value::Text(text)
            }
            Scalar::Number(number) => Value::Integer(signed(number)),
            Scalar::Null => Value::Null,
        };
    }
    if bytes > MAX_BYTES {
        return Err(StoreError::Item(format!(
            "the record of {} has {bytes} bytes, and {MAX_BYTES} are allowed",
            order.id
        )));
    }
    let at = match &values[EXPIRES_AT] {
        Value::Integer(at) => Some(at.cast_unsigned()),
        _ => None,
    };
    values[EXPIRES_AT] = expires(at).map_or(Value::Null, |at| Value::Integer(signed(at)));
    let checksum = sum_of_record(&values.each_ref().map(ValueRef::from));
    Ok(Encoded { values, checksum })
}

/// Reads a row that begins with the columns of a record and its checksum. `None` if it has expired.
///
/// # Errors
/// [`StoreError::Item`] if the row is damaged; the text says in which attribute.
pub(crate) fn decode(row: &Row<'_>, now_s: i64) -> Result<Option<Order>, StoreError> {
    let value = |at: usize| row.get_ref(at).map_err(|e| StoreError::Item(e.to_string()));
    if matches!(value(EXPIRES_AT)?, ValueRef::Integer(at) if at <= now_s) {
        return Ok(None);
    }
    let mut values = [ValueRef::Null; COLUMNS.len()];
    for (at, slot) in values.iter_mut().enumerate() {
        *slot = value(at)?;
    }
    if value(COLUMNS.len())? != ValueRef::Integer(sum_of_record(&values)) {
        return Err(StoreError::Item(
            "a stored record does not fit its checksum: it is damaged, or was changed by hand"
                .into(),
        ));
    }
    let order = stored::decode(|name| match place(name).map(|at| values[at]) {
        None | Some(ValueRef::Null) => Ok(None),
        Some(ValueRef::Integer(number)) => Ok(Some(Scalar::Number(number.cast_unsigned()))),
        Some(ValueRef::Text(text)) => match std::str::from_utf8(text) {
            Ok(text) => Ok(Some(Scalar::Text(text.to_owned()))),
            Err(e) => Err(NotScalar(e.to_string())),
        },
        Some(ValueRef::Real(_) | ValueRef::Blob(_)) => {
            Err(NotScalar("is neither text nor a whole number".to_owned()))
        }
    });
    order.map(Some).map_err(|e| StoreError::Item(e.to_string()))
}

/// The checksum of a record. The columns that were added count only up to the last one with a value: rows of earlier
/// versions have none.
fn sum_of_record(values: &[ValueRef<'_>; COLUMNS.len()]) -> i64 {
    let (earlier, added) = values.split_at(COLUMNS.len() - ADDED.len());
    let last = added.iter().rposition(|value| *value != ValueRef::Null);
    let counted = &added[..last.map_or(0, |last| last + 1)];
    checksum(earlier.iter().chain(counted).copied())
}

/// CRC-32C of values, each with its type and its length.
pub(crate) fn checksum<'a>(values: impl Iterator<Item = ValueRef<'a>>) -> i64 {
    let mut sum = 0;
    for value in values {
        sum = match value {
            ValueRef::Null => crc32c::crc32c_append(sum, &[0]),
            ValueRef::Integer(number) => {
                let sum = crc32c::crc32c_append(sum, &[1]);
                crc32c::crc32c_append(sum, &number.to_le_bytes())
            }
            ValueRef::Real(number) => {
                let sum = crc32c::crc32c_append(sum, &[2]);
                crc32c::crc32c_append(sum, &number.to_le_bytes())
            }
            ValueRef::Text(bytes) => of_bytes(sum, 3, bytes),
            ValueRef::Blob(bytes) => of_bytes(sum, 4, bytes),
        };
    }
    i64::from(sum)
}

fn of_bytes(sum: u32, kind: u8, bytes: &[u8]) -> u32 {
    let sum = crc32c::crc32c_append(sum, &[kind]);
    let sum = crc32c::crc32c_append(sum, &(bytes.len() as u64).to_le_bytes());
    crc32c::crc32c_append(sum, bytes)
}

/// A moment as an SQLite number: times beyond its largest number become that number.
pub(crate) fn bound(at: Timestamp) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}
