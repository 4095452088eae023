//! Queries for operators only: the attention index, the search indexes, and the versions of workflows.

use triad_core::Attention;
use triad_core::stored::{SEARCH, attention_key};
use triad_core::{OrderId, Timestamp, WorkflowRef};
use triad_runtime::ports::{
    AttentionPage, AttentionRow, OperatorStore, SearchPage, SearchRow, StoredVersion,
};
use triad_runtime::{Clock, StoreError};
use triad_workflow::SearchKey;

use crate::capacity::Kind;
use crate::error::{classify, of_search_index};
use crate::item::{self, Item, number, text};
use crate::store::{DynamoStore, definition};
use crate::tables::{ATTENTION_INDEX, SEARCH_INDEXES, attr};

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
        let start = page.map(|p| {
            start(
                &p,
                ATTENTION_INDEX,
                attr::ATTENTION,
                &key,
                attr::ATTENTION_AT,
            )
        });
        let start = start.transpose()?;
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
        let last = got.last_evaluated_key();
        Ok(AttentionPage {
            rows,
            unreadable,
            next: last.and_then(|last| next(last, attr::ATTENTION_AT)),
        })
    }

    async fn search(
        &self,
        key: SearchKey,
        index: usize,
        page: Option<String>,
    ) -> Result<SearchPage, StoreError> {
        let table = &self.tables.order_state;
        let (Some(name), Some(hash)) = (SEARCH_INDEXES.get(index), SEARCH.get(index)) else {
            return Err(StoreError::Item(format!(
                "there is no search index {index}"
            )));
        };
        let key = key.to_string();
        let start = page.map(|p| start(&p, name, hash, &key, attr::SUBMITTED_AT));
        let got = self
            .client
            .query()
            .table_name(table)
            .index_name(*name)
            .key_condition_expression(format!("{hash} = :key"))
            .expression_attribute_values(":key", text(&key))
            .scan_index_forward(false)
            .limit(PAGE)
            .set_exclusive_start_key(start.transpose()?)
            .set_return_consumed_capacity(self.capacity.wanted())
            .send()
            .await
            .map_err(|e| of_search_index(&e, name, table))?;
        self.capacity.add(Kind::Read, got.consumed_capacity());
        let (rows, unreadable) = item::readable(got.items().iter(), search_row);
        let last = got.last_evaluated_key();
        Ok(SearchPage {
            rows,
            unreadable,
            next: last.and_then(|last| next(last, attr::SUBMITTED_AT)),
        })
    }

    async fn versions(&self) -> Result<Vec<StoredVersion>, StoreError> {
        self.all_versions().await
    }

    async fn remove(&self, definition: WorkflowRef) -> Result<(), StoreError> {
        self.remove_version(&definition).await
    }
}

/// The start of a page of an index, from its printed form: the key of the row before it.
fn start(page: &str, index: &str, hash: &str, key: &str, sort: &str) -> Result<Item, StoreError> {
    let (at, id) = page
        .split_once('/')
        .ok_or_else(|| StoreError::Item(format!("{page:?} is not a page of the {index} index")))?;
    Ok(Item::from([
        (hash.to_owned(), text(key)),
        (sort.to_owned(), number(at)),
        (attr::ORDER_ID.to_owned(), text(id)),
    ]))
}

/// The printed form of the start of the next page.
fn next(last: &Item, sort: &str) -> Option<String> {
    let at = last.get(sort)?.as_n().ok()?;
    let id = last.get(attr::ORDER_ID)?.as_s().ok()?;
    Some(format!("{at}/{id}"))
}

fn search_row(item: &Item) -> Result<SearchRow, StoreError> {
    let id = item::string(item, attr::ORDER_ID)?;
    Ok(SearchRow {
        order: OrderId::new(id).map_err(|e| StoreError::Item(e.to_string()))?,
        at: Timestamp(item::integer(item, attr::SUBMITTED_AT)?),
        workflow: definition(item),
    })
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
