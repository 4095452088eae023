//! Order details as items.
//!
//! Details are JSON text, as submitted. They are gzipped if that saves a write unit: the transaction that creates an
//! order costs two units per kilobyte.

use std::io::{Read, Write};

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;
use triad_core::OrderId;
use triad_runtime::StoreError;

use crate::item::{Item, optional_string, string, text};
use crate::tables::attr;

const DETAILS: &str = "Details";
const DETAILS_GZIP: &str = "DetailsGzip";
const DIGEST: &str = "Digest";
/// Bytes of one write unit.
const UNIT_BYTES: usize = 1024;
/// Largest details after decompression; submissions are smaller.
const MAX_DETAILS_BYTES: u64 = 1 << 20;

/// Details as an item.
pub(crate) fn encode(id: &OrderId, details: &Value, digest: &str) -> Item {
    encode_json(id, details.to_string(), digest)
}

/// Details that are JSON text already, as an item.
pub(crate) fn encode_json(id: &OrderId, plain: String, digest: &str) -> Item {
    let mut item = Item::from([
        (attr::ORDER_ID.to_owned(), text(id.as_str())),
        (DIGEST.to_owned(), text(digest)),
    ]);
    pack(&mut item, DETAILS, DETAILS_GZIP, plain);
    item
}

/// Adds a text to an item whose other attributes are texts and numbers: under the first name as it is, or under the
/// second one gzipped if that saves a write unit.
pub(crate) fn pack(item: &mut Item, name: &str, gzip_name: &str, plain: String) {
    let size = |(name, value): (&String, &AttributeValue)| {
        let value = match value {
            AttributeValue::S(text) | AttributeValue::N(text) => text.len(),
            _ => 0,
        };
        name.len() + value
    };
    let around: usize = item.iter().map(size).sum();
    let units = |name: &str, bytes: usize| (around + name.len() + bytes).div_ceil(UNIT_BYTES);
    if units(name, plain.len()) > 1
        && let Some(packed) = gzip(plain.as_bytes())
        && units(gzip_name, packed.len()) < units(name, plain.len())
    {
        let value = AttributeValue::B(Blob::new(packed));
        item.insert(gzip_name.to_owned(), value);
    } else {
        item.insert(name.to_owned(), text(plain));
    }
}

/// The text that [`pack`] has added to an item.
///
/// # Errors
/// [`StoreError::Item`] if the item cannot be read.
pub(crate) fn unpack(item: &Item, name: &str, gzip_name: &str) -> Result<String, StoreError> {
    match item.get(gzip_name) {
        Some(AttributeValue::B(packed)) => gunzip(packed.as_ref()),
        _ => string(item, name),
    }
}

/// An item as details.
///
/// # Errors
/// [`StoreError::Item`] if the item cannot be read.
pub(crate) fn decode(item: &Item) -> Result<Value, StoreError> {
    serde_json::from_str(&json(item)?)
        .map_err(|e| StoreError::Item(format!("stored details cannot be read: {e}")))
}

/// The JSON text of an item's details.
///
/// # Errors
/// [`StoreError::Item`] if the item cannot be read.
pub(crate) fn json(item: &Item) -> Result<String, StoreError> {
    unpack(item, DETAILS, DETAILS_GZIP)
}

/// Whether an item has details: after they have expired it has none.
pub(crate) fn has_details(item: &Item) -> bool {
    item.contains_key(DETAILS) || item.contains_key(DETAILS_GZIP)
}

/// The digest of the submission that wrote an item.
pub(crate) fn digest(item: &Item) -> String {
    optional_string(item, DIGEST).unwrap_or_default()
}

fn gzip(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

fn gunzip(bytes: &[u8]) -> Result<String, StoreError> {
    let mut json = String::new();
    GzDecoder::new(bytes)
        .take(MAX_DETAILS_BYTES)
        .read_to_string(&mut json)
        .map_err(|e| StoreError::Item(format!("a stored text cannot be unpacked: {e}")))?;
    Ok(json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn details_survive_both_forms() {
        let id = OrderId::new("1").unwrap();
        let small = json!({"n": 14.0, "s": "é"});
        let large = json!({"text": "abc ".repeat(400)});
        for (details, form) in [(small, DETAILS), (large, DETAILS_GZIP)] {
            let item = encode(&id, &details, "d");
            assert!(item.contains_key(form));
            assert_eq!(decode(&item).unwrap(), details);
            assert_eq!(digest(&item), "d");
        }
    }
}
