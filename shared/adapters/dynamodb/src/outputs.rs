//! Outputs beside the records: items in the table of details.
//!
//! The key of an output is the order's id, `/` and the output's digest; an order's id never has a `/`. An output is
//! written before the record that names it. The write has no condition, because every item with this key has the same
//! content. If the write of the record then fails, the item is an orphan.
//!
//! An output expires with its record. Until the order ends, it has a provisional expiry, which also bounds how long an
//! orphan stays.

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::Value;
use triad_core::{Order, OrderId, OutputDigest};
use triad_runtime::{Clock, OutputsOf, StoreError};
use triad_workflow::Millis;

use crate::capacity::Kind;
use crate::error::{classify, in_table};
use crate::item::{Item, number, text};
use crate::orders;
use crate::store::{CONCURRENCY, DynamoStore};
use crate::tables::attr;

const OUTPUT: &str = "Output";
const OUTPUT_GZIP: &str = "OutputGzip";
/// Time from an output's write to its provisional expiry: ten years. An order that has not ended by then loses its
/// outputs.
const PROVISIONAL: Millis = Millis(10 * 366 * 24 * 3_600_000);

fn key(order: &OrderId, digest: &OutputDigest) -> String {
    format!("{order}/{}", digest.0)
}

/// Whether an item of the table of details is an output.
pub(crate) fn is_output(item: &Item) -> bool {
    item.contains_key(OUTPUT) || item.contains_key(OUTPUT_GZIP)
}

impl<C: Clock + Clone> DynamoStore<C> {
    /// Stores outputs of an order, which expire at a moment in seconds since the Unix epoch; `None`: provisionally.
    pub(crate) async fn put_outputs<'a>(
        &self,
        order: &OrderId,
        outputs: impl Iterator<Item = (&'a OutputDigest, &'a Arc<Value>)>,
        expires_s: Option<u64>,
    ) -> Result<(), StoreError> {
        let expires_s = expires_s.unwrap_or_else(|| self.provisional_expiry());
        let items: Vec<Item> = outputs
            .map(|(digest, output)| {
                let mut item = Item::from([
                    (attr::ORDER_ID.to_owned(), text(key(order, digest))),
                    (attr::EXPIRES_AT.to_owned(), number(expires_s)),
                ]);
                orders::pack(&mut item, OUTPUT, OUTPUT_GZIP, output.to_string());
                item
            })
            .collect();
        let table = &self.tables.orders;
        let put = async |item: Item| {
            let put = self.client.put_item().table_name(table);
            let put = put
                .set_item(Some(item))
                .set_return_consumed_capacity(self.capacity.wanted());
            let done = put.send().await.map_err(|e| classify(&e, table))?;
            self.capacity.add(Kind::Write, done.consumed_capacity());
            Ok(())
        };
        stream::iter(items.into_iter().map(put))
            .buffer_unordered(CONCURRENCY)
            .try_collect()
            .await
    }

    /// Reads outputs of an order, in the order of the digests. An output never changes, so an eventually consistent
    /// read is enough; an output that it does not find is read again consistently.
    pub(crate) async fn get_outputs(
        &self,
        wanted: OutputsOf,
    ) -> Result<Vec<Arc<Value>>, StoreError> {
        let OutputsOf { order, digests } = &wanted;
        let reads = digests.iter().map(|digest| self.get_output(order, digest));
        let reads: Vec<_> = reads.collect();
        stream::iter(reads)
            .buffered(CONCURRENCY)
            .try_collect()
            .await
    }

    async fn get_output(
        &self,
        order: &OrderId,
        digest: &OutputDigest,
    ) -> Result<Arc<Value>, StoreError> {
        let (table, key) = (&self.tables.orders, key(order, digest));
        let mut item = self.get_one(table, &key, false).await?;
        if item.is_none() {
            item = self.get_one(table, &key, true).await?;
        }
        let missing = || {
            let digest = &digest.0;
            StoreError::Item(format!("the output {digest} of {order} is not stored"))
        };
        let read = |item: Item| {
            let json = orders::unpack(&item, OUTPUT, OUTPUT_GZIP)?;
            digest.read(&json).map_err(StoreError::Item)
        };
        let read = item.ok_or_else(missing).and_then(read);
        read.map(Arc::new).map_err(|e| in_table(e, table))
    }

    /// Sets when the outputs of an order expire, in seconds since the Unix epoch; `None`: provisionally.
    ///
    /// # Errors
    /// [`StoreError::Item`] if an output has expired already.
    pub(crate) async fn expire_outputs(
        &self,
        order: &Order,
        expires_s: Option<u64>,
    ) -> Result<(), StoreError> {
        let table = &self.tables.orders;
        let expires_s = expires_s.unwrap_or_else(|| self.provisional_expiry());
        let keys: Vec<String> = order
            .outputs_beside()
            .map(|digest| key(&order.id, digest))
            .collect();
        let update = async |key: String| {
            let update = self.client.update_item().table_name(table);
            let done = update
                .key(attr::ORDER_ID, text(&key))
                .update_expression("SET ExpiresAt = :at")
                .condition_expression("attribute_exists(OrderID)")
                .expression_attribute_values(":at", number(expires_s))
                .set_return_consumed_capacity(self.capacity.wanted())
                .send()
                .await;
            match done {
                Ok(done) => {
                    self.capacity.add(Kind::Write, done.consumed_capacity());
                    Ok(())
                }
                Err(e)
                    if e.as_service_error()
                        .is_some_and(|e| e.is_conditional_check_failed_exception()) =>
                {
                    let id = &order.id;
                    let why = format!("table {table}: outputs of order {id} have expired");
                    Err(StoreError::Item(why))
                }
                Err(e) => Err(classify(&e, table)),
            }
        };
        stream::iter(keys.into_iter().map(update))
            .buffer_unordered(CONCURRENCY)
            .try_collect()
            .await
    }

    fn provisional_expiry(&self) -> u64 {
        self.clock.now().plus(PROVISIONAL).0 / 1000
    }
}
