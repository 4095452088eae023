//! What only operators ask of the store: the attention index, and the versions of workflows.

use triad_core::Attention;
use triad_core::stored::attention_key;
use triad_core::{OrderId, Timestamp, WorkflowRef};
use triad_runtime::ports::{AttentionPage, AttentionRow, OperatorStore, StoredVersion};
use triad_runtime::{Clock, StoreError};

use crate::error::classify;
use crate::item::{self, Item, number, text};
use crate::store::{DynamoStore, definition};
use crate::tables::{ATTENTION_INDEX, attr};

/// Rows of one page.
const PAGE: i32 = 500;

impl<C: Clock + Clone> OperatorStore for DynamoStore<C> {
    async fn attention(
        &self,
        kind: Attention,
        shard: u32,
        page: Option<String>,
    ) -> Result<AttentionPage, StoreError> {
        let key = attention_key(kind, shard);
        let start = page
            .map(|p| {
                let (at, id) = p.split_once('/').ok_or_else(|| {
                    StoreError::Item(format!("{p:?} is not a page of the attention index"))
                })?;
                Ok(Item::from([
                    (attr::ATTENTION.to_owned(), text(&key)),
                    (attr::ATTENTION_AT.to_owned(), number(at)),
                    (attr::ORDER_ID.to_owned(), text(id)),
                ]))
            })
            .transpose()?;
        let got = self
            .client
            .query()
            .table_name(&self.tables.order_state)
            .index_name(ATTENTION_INDEX)
            .key_condition_expression("Attention = :key")
            .expression_attribute_values(":key", text(&key))
            .limit(PAGE)
            .set_exclusive_start_key(start)
            .send()
            .await
            .map_err(|e| classify(&e, &self.tables.order_state))?;
        let (rows, unreadable) = item::readable(got.items().iter(), row);
        let next = got.last_evaluated_key().and_then(|key| {
            let at = key.get(attr::ATTENTION_AT)?.as_n().ok()?;
            let id = key.get(attr::ORDER_ID)?.as_s().ok()?;
            Some(format!("{at}/{id}"))
        });
        Ok(AttentionPage {
            rows,
            unreadable,
            next,
        })
    }

    async fn versions(&self) -> Result<Vec<StoredVersion>, StoreError> {
        self.all_versions().await
    }

    async fn remove(&self, definition: WorkflowRef) -> Result<(), StoreError> {
        self.remove_version(&definition).await
    }
}

fn row(item: &Item) -> Result<AttentionRow, StoreError> {
    let id = item::string(item, attr::ORDER_ID)?;
    Ok(AttentionRow {
        order: OrderId::new(id).map_err(|e| StoreError::Item(e.to_string()))?,
        at: Timestamp(item::integer(item, attr::ATTENTION_AT)?),
        cause: item::optional_json(item, attr::CAUSE)?,
        workflow: definition(item),
    })
}
