//! Export of everything in the tables, page by page, and its import where no item exists.

mod definitions_and_control;
mod orders;

use futures::stream::{self, StreamExt};
use triad_runtime::moving::{Keeping, KeptPage, MovingStore, StorePart, StoredItem};
use triad_runtime::ports::Unreadable;
use triad_runtime::{Clock, StoreError};

use crate::error::classify;
use crate::item::Item;
use crate::store::{CONCURRENCY, DynamoStore};

/// Items of one page: the limit of `BatchGetItem`.
const PAGE: i32 = 100;

impl<C: Clock + Clone> MovingStore for DynamoStore<C> {
    async fn kept(&self, part: StorePart, page: Option<String>) -> Result<KeptPage, StoreError> {
        match part {
            StorePart::Workflows => self.kept_workflows(page).await,
            StorePart::Control => self.kept_control(page).await,
            StorePart::Orders => self.kept_orders(page).await,
        }
    }

    async fn keep(
        &self,
        items: Vec<StoredItem>,
        dry_run: bool,
    ) -> Vec<Result<Keeping, StoreError>> {
        stream::iter(items.into_iter().map(|item| self.keep_one(item, dry_run)))
            .buffered(CONCURRENCY)
            .collect()
            .await
    }
}

impl<C: Clock + Clone> DynamoStore<C> {
    async fn keep_one(&self, item: StoredItem, dry_run: bool) -> Result<Keeping, StoreError> {
        match item {
            StoredItem::Workflow(workflow) => self.keep_workflow(workflow, dry_run).await,
            StoredItem::Present(definition) => self.keep_present(definition, dry_run).await,
            StoredItem::Control(control) => self.keep_control(control, dry_run).await,
            StoredItem::Order(order) => self.keep_order(*order, dry_run).await,
        }
    }

    /// A page of a table, read consistently, and the start of the next one.
    async fn scanned(
        &self,
        table: &str,
        start: Option<Item>,
    ) -> Result<(Vec<Item>, Option<Item>), StoreError> {
        let got = self
            .client
            .scan()
            .table_name(table)
            .limit(PAGE)
            .consistent_read(true)
            .set_exclusive_start_key(start)
            .send()
            .await
            .map_err(|e| classify(&e, table))?;
        let next = got.last_evaluated_key().cloned();
        Ok((got.items.unwrap_or_default(), next))
    }
}

/// Adds an item to a page, or the error that it cannot be read.
fn add(page: &mut KeptPage, key: String, read: Result<Option<StoredItem>, StoreError>) {
    match read {
        Ok(read) => page.items.extend(read),
        Err(why) => page.unreadable.push(Unreadable {
            order_id: key,
            why: why.to_string(),
        }),
    }
}
