//! Orders: records and details.

use std::sync::Arc;

use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{ConditionCheck, Put, TransactWriteItem};
use triad_core::OrderId;
use triad_runtime::moving::{
    Keeping, KeptDetails, KeptOrder, KeptPage, KeptRecord, StoredItem, compared,
};
use triad_runtime::{Clock, OutputsOf, StoreError};
use triad_workflow::Millis;

use super::add;
use crate::error::{self, Cancelled, classify};
use crate::item::{self, Item, number, text};
use crate::store::DynamoStore;
use crate::tables::attr;
use crate::{orders, outputs};

/// Prefix of the name of a page that lists orders by their records.
const RECORDS: &str = "records/";
/// Prefix of the name of a page that lists orders by their details, and returns those without a record.
const DETAILS: &str = "details/";
/// Condition that no item with the id exists.
const ABSENT: &str = "attribute_not_exists(OrderID)";

impl<C: Clock + Clone> DynamoStore<C> {
    pub(super) async fn kept_orders(&self, page: Option<String>) -> Result<KeptPage, StoreError> {
        let page = page.unwrap_or_else(|| RECORDS.to_owned());
        let start = |id: &str| {
            let key = || Item::from([(attr::ORDER_ID.to_owned(), text(id))]);
            (!id.is_empty()).then(key)
        };
        if let Some(id) = page.strip_prefix(RECORDS) {
            let (mut page, next) = self.with_records(start(id)).await?;
            let next = next.map(|id| format!("{RECORDS}{id}"));
            page.next = next.or_else(|| Some(DETAILS.to_owned()));
            return Ok(page);
        }
        let none = || StoreError::Item(format!("{page:?} is not a page of the orders"));
        let id = page.strip_prefix(DETAILS).ok_or_else(none)?;
        let (mut page, next) = self.without_record(start(id)).await?;
        page.next = next.map(|id| format!("{DETAILS}{id}"));
        Ok(page)
    }

    async fn with_records(
        &self,
        start: Option<Item>,
    ) -> Result<(KeptPage, Option<String>), StoreError> {
        let (records, next) = self.scanned(&self.tables.order_state, start).await?;
        let details = self.beside(&records, &self.tables.orders).await?;
        let mut page = KeptPage::default();
        for (record, details) in records.iter().zip(&details) {
            self.take(&mut page, Some(record), details.as_ref()).await;
        }
        Ok((page, next.map(|key| id_in(&key))))
    }

    async fn without_record(
        &self,
        start: Option<Item>,
    ) -> Result<(KeptPage, Option<String>), StoreError> {
        let (mut details, next) = self.scanned(&self.tables.orders, start).await?;
        details.retain(|item| !outputs::is_output(item));
        let records = self.beside(&details, &self.tables.order_state).await?;
        let mut page = KeptPage::default();
        for (details, record) in details.iter().zip(&records) {
            if record.is_none() {
                self.take(&mut page, None, Some(details)).await;
            }
        }
        Ok((page, next.map(|key| id_in(&key))))
    }

    /// The items of another table with the same ids, in the same order.
    async fn beside(&self, items: &[Item], table: &str) -> Result<Vec<Option<Item>>, StoreError> {
        let ids = items.iter().map(|item| OrderId::new(id_in(item)).ok());
        let ids: Vec<Option<OrderId>> = ids.collect();
        let known: Vec<OrderId> = ids.iter().flatten().cloned().collect();
        let mut found = self.get(table, &known, true).await.into_iter();
        // An invalid id has no item in the other table: it cannot be read.
        let beside = ids.iter().map(|id| match id {
            Some(_) => found.next().transpose().map(Option::flatten),
            None => Ok(None),
        });
        beside.collect()
    }

    async fn take(&self, page: &mut KeptPage, record: Option<&Item>, details: Option<&Item>) {
        let id = record.or(details).map(id_in).unwrap_or_default();
        let read = match order_of(&id, record, details).map(|order| order.at(self.clock.now())) {
            Ok(Some(order)) => self.with_outputs(order).await.map(Some),
            other => other,
        };
        let read = read.map(|order| order.map(|order| StoredItem::Order(Box::new(order))));
        add(page, id, read);
    }

    /// Adds the outputs beside the record.
    async fn with_outputs(&self, mut read: KeptOrder) -> Result<KeptOrder, StoreError> {
        if let Some(record) = &mut read.record {
            let digests: Vec<_> = record.order.outputs_beside().cloned().collect();
            let wanted = OutputsOf {
                order: read.id.clone(),
                digests: digests.clone(),
            };
            let outputs = self.get_outputs(wanted).await?;
            Arc::make_mut(&mut record.order).take_outputs(digests.iter().zip(&outputs));
        }
        Ok(read)
    }

    /// The stored order with an id, whether or not it has expired.
    async fn stored_order(&self, id: &OrderId) -> Result<Option<KeptOrder>, StoreError> {
        let ids = std::slice::from_ref(id);
        let (record, details) = tokio::join!(
            self.get(&self.tables.order_state, ids, true),
            self.get(&self.tables.orders, ids, true)
        );
        let one = |mut found: Vec<_>| found.pop().transpose().map(Option::flatten);
        let (record, details): (Option<Item>, Option<Item>) = (one(record)?, one(details)?);
        if record.is_none() && details.is_none() {
            return Ok(None);
        }
        order_of(id.as_str(), record.as_ref(), details.as_ref()).map(Some)
    }

    pub(super) async fn keep_order(
        &self,
        own: KeptOrder,
        dry_run: bool,
    ) -> Result<Keeping, StoreError> {
        if !dry_run && self.put_order(&own).await? {
            return Ok(Keeping::New);
        }
        let standing = self.stored_order(&own.id).await?;
        Ok(match compared(standing.as_ref(), &own) {
            // Another process has removed the conflicting item a moment ago.
            Keeping::New if !dry_run => {
                let id = &own.id;
                let why = format!("{}: order {id} changes meanwhile", self.update_expression());
                return Err(StoreError::Transient(why));
            }
            keeping => keeping,
        })
    }

    /// Writes record and details, on the condition that neither exists; false if one does.
    async fn put_order(&self, own: &KeptOrder) -> Result<bool, StoreError> {
        if let Some(record) = &own.record
            && record.order.outputs_beside().next().is_some()
        {
            // An order that is there keeps its outputs and their expiry.
            let (table, id) = (&self.tables.order_state, own.id.as_str());
            if self.get_one(table, id, true).await?.is_some() {
                return Ok(false);
            }
            let outputs = record.order.outputs_read();
            self.put_outputs(&own.id, outputs, record.expires_s).await?;
        }
        let record = self.half(&self.tables.order_state, &own.id, record_item(own))?;
        let details = self.half(&self.tables.orders, &own.id, details_item(own))?;
        let request = self
            .client
            .transact_write_items()
            .transact_items(details)
            .transact_items(record);
        let Err(e) = request.send().await else {
            return Ok(true);
        };
        let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) =
            e.as_service_error()
        else {
            return Err(classify(&e, &self.update_expression()));
        };
        match error::cancelled(cancelled.cancellation_reasons(), &self.update_expression()) {
            Cancelled::Condition => Ok(false),
            Cancelled::Error(e) => Err(e),
        }
    }

    /// One part of a transaction: the put of an item, or a check that none exists.
    fn half(
        &self,
        table: &str,
        id: &OrderId,
        item: Option<Item>,
    ) -> Result<TransactWriteItem, StoreError> {
        let part = TransactWriteItem::builder();
        let part = match item {
            Some(item) => {
                let put = Put::builder().table_name(table).set_item(Some(item));
                put.condition_expression(ABSENT)
                    .build()
                    .map(|put| part.put(put))
            }
            None => {
                let check = ConditionCheck::builder().table_name(table);
                check
                    .key(attr::ORDER_ID, text(id.as_str()))
                    .condition_expression(ABSENT)
                    .build()
                    .map(|check| part.condition_check(check))
            }
        };
        part.map(aws_sdk_dynamodb::types::builders::TransactWriteItemBuilder::build)
            .map_err(|e| StoreError::Item(e.to_string()))
    }
}

fn id_in(item: &Item) -> String {
    item::optional_string(item, attr::ORDER_ID).unwrap_or_default()
}

fn order_of(
    id: &str,
    record: Option<&Item>,
    details: Option<&Item>,
) -> Result<KeptOrder, StoreError> {
    let record = record.map(|item| {
        Ok(KeptRecord {
            order: Arc::new(item::decode(item)?),
            token: item::token(item).unwrap_or_default(),
            expires_s: item::optional_integer(item, attr::EXPIRES_AT)?,
        })
    });
    let details = details
        .filter(|item| orders::has_details(item))
        .map(|item| {
            Ok(KeptDetails {
                json: orders::json(item)?,
                digest: orders::digest(item),
                expires_s: item::optional_integer(item, attr::EXPIRES_AT)?,
            })
        });
    Ok(KeptOrder {
        id: OrderId::new(id).map_err(|e| StoreError::Item(e.to_string()))?,
        record: record.transpose()?,
        details: details.transpose()?,
    })
}

fn expiring(mut item: Item, expires_s: Option<u64>) -> Item {
    match expires_s {
        Some(at) => item.insert(attr::EXPIRES_AT.to_owned(), number(at)),
        None => item.remove(attr::EXPIRES_AT),
    };
    item
}

fn record_item(own: &KeptOrder) -> Option<Item> {
    let record = own.record.as_ref()?;
    let item = item::encode(&record.order, record.token, Millis(0));
    Some(expiring(item, record.expires_s))
}

fn details_item(own: &KeptOrder) -> Option<Item> {
    let details = own.details.as_ref()?;
    let item = orders::encode_json(&own.id, details.json.clone(), &details.digest);
    Some(expiring(item, details.expires_s))
}
