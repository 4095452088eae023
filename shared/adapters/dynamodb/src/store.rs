//! The ports of the runtime on DynamoDB.

use std::collections::HashMap;
use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::KeysAndAttributes;
use futures::stream::{self, StreamExt};
use serde_json::Value;
use triad_core::agent::backoff;
use triad_core::{Order, OrderId, Timestamp, WorkflowRef};
use triad_runtime::ports::OrderPage;
use triad_runtime::system::SystemEntropy;
use triad_runtime::{
    Clock, Created, DuePage, DueRow, Entropy, NewOrder, OutputsOf, StateStore, StoreError, Write,
    Written,
};
use triad_workflow::Millis;

use crate::capacity::{Capacity, Kind};
use crate::error::{classify, in_table};
use crate::item::{self, Item, number, text};
use crate::orders;
use crate::tables::{DUE_INDEX, Tables, attr};

/// Concurrent calls of one batch.
pub(crate) const CONCURRENCY: usize = 32;
/// Items of one `BatchGetItem` call: the service's limit.
const BATCH_GET: usize = 100;
/// Most calls for the keys of one `BatchGetItem`, including the first: each asks for the keys that the one before
/// left unprocessed because the table is throttled.
const MAX_ROUNDS: u32 = 8;
/// Bound of the wait before the second call; doubled before each further one, with full jitter.
const FIRST_WAIT: Millis = Millis(50);
/// Longest wait between two calls. All waits of one batch together are at most 3.2 s.
const LONGEST_WAIT: Millis = Millis(800);
/// Records of one page of [`StateStore::list`].
const LIST_PAGE: i32 = 500;

/// The state store, the definition store, the control store and the operators' store, in DynamoDB tables. `C`
/// is the clock by which records expire. Clones share the client.
#[derive(Debug, Clone)]
pub struct DynamoStore<C> {
    pub(crate) client: Client,
    pub(crate) tables: Tables,
    pub(crate) clock: C,
    pub(crate) retention: Millis,
    pub(crate) details_retention: Option<Millis>,
    pub(crate) capacity: Arc<Capacity>,
}

impl<C: Clock + Clone> DynamoStore<C> {
    /// A store over a client. Finished records expire `retention` milliseconds after their end;
    /// details never, unless [`keeping_details`](Self::keeping_details) says otherwise. Nothing is
    /// read or written yet.
    pub fn new(client: Client, tables: Tables, clock: C, retention: Millis) -> Self {
        Self {
            client,
            tables,
            clock,
            retention,
            details_retention: None,
            capacity: Arc::default(),
        }
    }

    /// The names of the store's tables.
    #[must_use]
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The same store, which lets an order's details expire too: `retention` milliseconds after the
    /// moment from which the retention of the record counts. `None`: never.
    ///
    /// With `Some`, the write that ends an order is a transaction with the details. An order that
    /// is submitted again once record and details are gone is a new one.
    #[must_use]
    pub fn keeping_details(mut self, retention: Option<Millis>) -> Self {
        self.details_retention = retention;
        self
    }

    /// The same store, whose reads and writes of orders and control records are counted in `capacity`. Not
    /// counted are [`StateStore::list`], the attention index, and calls about definitions.
    #[must_use]
    pub fn metered(mut self, capacity: Arc<Capacity>) -> Self {
        self.capacity = capacity;
        self
    }

    /// Reads items by order id; the result is in the order of the ids.
    pub(crate) async fn get(
        &self,
        table: &str,
        ids: &[OrderId],
        consistent: bool,
    ) -> Vec<Result<Option<Item>, StoreError>> {
        match ids {
            [] => Vec::new(),
            [one] => vec![self.get_one(table, one.as_str(), consistent).await],
            many => {
                let mut found = Vec::with_capacity(many.len());
                for chunk in many.chunks(BATCH_GET) {
                    found.extend(self.get_batch(table, chunk, consistent).await);
                }
                found
            }
        }
    }

    pub(crate) async fn get_one(
        &self,
        table: &str,
        key: &str,
        consistent: bool,
    ) -> Result<Option<Item>, StoreError> {
        let got = self
            .client
            .get_item()
            .table_name(table)
            .key(attr::ORDER_ID, text(key))
            .consistent_read(consistent)
            .set_return_consumed_capacity(self.capacity.wanted())
            .send()
            .await
            .map_err(|e| classify(&e, table))?;
        self.capacity.add(Kind::Read, got.consumed_capacity());
        Ok(got.item)
    }

    async fn get_batch(
        &self,
        table: &str,
        ids: &[OrderId],
        consistent: bool,
    ) -> Vec<Result<Option<Item>, StoreError>> {
        let mut found: HashMap<String, Item> = HashMap::new();
        let mut wanted: Vec<Item> = Vec::with_capacity(ids.len());
        for id in ids {
            let key = Item::from([(attr::ORDER_ID.to_owned(), text(id.as_str()))]);
            if !wanted.contains(&key) {
                wanted.push(key);
            }
        }
        let mut failure = None;
        for round in 0..MAX_ROUNDS {
            if round > 0 {
                let wait = backoff(round, FIRST_WAIT, LONGEST_WAIT, SystemEntropy.next_u64());
                self.clock.sleep(wait).await;
            }
            let keys = KeysAndAttributes::builder()
                .set_keys(Some(std::mem::take(&mut wanted)))
                .consistent_read(consistent)
                .build();
            let keys = match keys {
                Ok(keys) => keys,
                Err(e) => {
                    failure = Some(StoreError::Item(e.to_string()));
                    break;
                }
            };
            let got = self
                .client
                .batch_get_item()
                .request_items(table, keys)
                .set_return_consumed_capacity(self.capacity.wanted())
                .send()
                .await;
            match got {
                Err(e) => {
                    failure = Some(classify(&e, table));
                    break;
                }
                Ok(got) => {
                    self.capacity.add(Kind::Read, got.consumed_capacity());
                    let items = got.responses.unwrap_or_default().remove(table);
                    for item in items.unwrap_or_default() {
                        if let Ok(id) = item::string(&item, attr::ORDER_ID) {
                            found.insert(id, item);
                        }
                    }
                    let left = got.unprocessed_keys.unwrap_or_default().remove(table);
                    wanted = left.map(|k| k.keys).unwrap_or_default();
                }
            }
            if wanted.is_empty() {
                break;
            }
        }
        if !wanted.is_empty() && failure.is_none() {
            failure = Some(StoreError::Transient(format!(
                "table {table}: keys were left unprocessed"
            )));
        }
        ids.iter()
            .map(|id| match (found.get(id.as_str()), &failure) {
                (Some(item), _) => Ok(Some(item.clone())),
                (None, Some(e)) => Err(e.clone()),
                (None, None) => Ok(None),
            })
            .collect()
    }

    fn live(&self, item: Option<Item>) -> Result<Option<Order>, StoreError> {
        match item {
            Some(item) if !item::is_expired(&item, self.clock.now()) => {
                let order = item::decode(&item).map_err(|e| in_table(e, &self.tables.order_state));
                order.map(Some)
            }
            _ => Ok(None),
        }
    }
}

impl<C: Clock + Clone> StateStore for DynamoStore<C> {
    async fn create(&self, orders: Vec<NewOrder>) -> Vec<Result<Created, StoreError>> {
        stream::iter(orders.into_iter().map(|o| self.create_one(o)))
            .buffered(CONCURRENCY)
            .collect()
            .await
    }

    async fn commit(&self, writes: Vec<Write>) -> Vec<Result<Written, StoreError>> {
        stream::iter(writes.into_iter().map(|w| self.commit_one(w)))
            .buffered(CONCURRENCY)
            .collect()
            .await
    }

    async fn load(&self, ids: Vec<OrderId>) -> Vec<Result<Option<Order>, StoreError>> {
        let items = self.get(&self.tables.order_state, &ids, true).await;
        items.into_iter().map(|i| self.live(i?)).collect()
    }

    async fn load_eventually(&self, ids: Vec<OrderId>) -> Vec<Result<Option<Order>, StoreError>> {
        let items = self.get(&self.tables.order_state, &ids, false).await;
        items.into_iter().map(|i| self.live(i?)).collect()
    }

    async fn details(&self, ids: Vec<OrderId>) -> Vec<Result<Option<Arc<Value>>, StoreError>> {
        // Details never change, so an eventually consistent read at half the price is enough; ids that it does not
        // find are read again consistently.
        let table = &self.tables.orders;
        let mut items = self.get(table, &ids, false).await;
        let missing: Vec<usize> = (0..ids.len())
            .filter(|&i| matches!(items[i], Ok(None)))
            .collect();
        if !missing.is_empty() {
            let again: Vec<_> = missing.iter().map(|&i| ids[i].clone()).collect();
            let found = self.get(table, &again, true).await;
            for (i, item) in missing.into_iter().zip(found) {
                items[i] = item;
            }
        }
        items
            .into_iter()
            .map(|item| item?.map(|i| orders::decode(&i).map(Arc::new)).transpose())
            .map(|read| read.map_err(|e| in_table(e, table)))
            .collect()
    }

    async fn outputs(&self, wanted: Vec<OutputsOf>) -> Vec<Result<Vec<Arc<Value>>, StoreError>> {
        stream::iter(wanted.into_iter().map(|wanted| self.get_outputs(wanted)))
            .buffered(CONCURRENCY)
            .collect()
            .await
    }

    async fn due(
        &self,
        shard: u32,
        until: Timestamp,
        limit: u32,
        page: Option<String>,
    ) -> Result<DuePage, StoreError> {
        let start = page.as_deref().map(|p| due_key(shard, p)).transpose()?;
        let got = self
            .client
            .query()
            .table_name(&self.tables.order_state)
            .index_name(DUE_INDEX)
            .key_condition_expression("DueShard = :shard AND DueAt <= :until")
            .expression_attribute_values(":shard", number(shard))
            .expression_attribute_values(":until", number(until.0))
            .limit(i32::try_from(limit).unwrap_or(i32::MAX))
            .set_exclusive_start_key(start)
            .set_return_consumed_capacity(self.capacity.wanted())
            .send()
            .await
            .map_err(|e| classify(&e, &self.tables.order_state))?;
        self.capacity.add(Kind::Read, got.consumed_capacity());
        let rows = got
            .items()
            .iter()
            .filter_map(|i| {
                Some(DueRow {
                    order: OrderId::new(item::string(i, attr::ORDER_ID).ok()?).ok()?,
                    workflow: definition(i).map(|w| w.name),
                })
            })
            .collect();
        let next = got.last_evaluated_key().and_then(|key| {
            let at = key.get(attr::DUE_AT)?.as_n().ok()?;
            let id = key.get(attr::ORDER_ID)?.as_s().ok()?;
            Some(format!("{at}/{id}"))
        });
        Ok(DuePage { rows, next })
    }

    async fn list(
        &self,
        state: Option<String>,
        page: Option<String>,
    ) -> Result<OrderPage, StoreError> {
        let mut request = self
            .client
            .scan()
            .table_name(&self.tables.order_state)
            .limit(LIST_PAGE)
            .set_exclusive_start_key(
                page.map(|id| Item::from([(attr::ORDER_ID.to_owned(), text(id))])),
            );
        if let Some(state) = state {
            request = request
                .filter_expression("ProcessState = :state")
                .expression_attribute_values(":state", text(state));
        }
        let got = request
            .send()
            .await
            .map_err(|e| classify(&e, &self.tables.order_state))?;
        let now = self.clock.now();
        let there = got.items().iter().filter(|i| !item::is_expired(i, now));
        let (orders, unreadable) = item::readable(there, item::decode);
        let next = got
            .last_evaluated_key()
            .and_then(|key| item::string(key, attr::ORDER_ID).ok());
        Ok(OrderPage {
            this: None,
            orders,
            unreadable,
            next,
        })
    }
}

/// The definition that an item or an index row refers to.
pub(crate) fn definition(item: &Item) -> Option<WorkflowRef> {
    item::optional_string(item, attr::WORKFLOW)?.parse().ok()
}

/// The start of a page of the due index, from its printed form.
fn due_key(shard: u32, page: &str) -> Result<Item, StoreError> {
    let (at, id) = page
        .split_once('/')
        .ok_or_else(|| StoreError::Item(format!("{page:?} is not a page of the due index")))?;
    Ok(Item::from([
        (attr::DUE_SHARD.to_owned(), number(shard)),
        (attr::DUE_AT.to_owned(), number(at)),
        (attr::ORDER_ID.to_owned(), text(id)),
    ]))
}
