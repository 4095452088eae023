//! Conditional writes: a new order in one transaction, a record on its version.

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    Put as PutOf, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update as UpdateOf,
};
use triad_core::outbox::Writer;
use triad_core::stored;
use triad_runtime::{Clock, Created, NewOrder, StoreError, Write, Written};

use crate::capacity::Kind;
use crate::error::{self, Cancelled, classify};
use crate::item::{self, Item, number, text};
use crate::orders;
use crate::store::DynamoStore;
use crate::tables::attr;

/// Puts of one commit: the second keeps an `ExpiresAt` that the first would have lowered.
const MAX_PUTS: usize = 2;

/// Result of a conditional put.
pub(crate) enum Put {
    /// The put took effect, now or when it was sent before.
    Done,
    /// The put's condition does not hold; the existing item, if there is one.
    Refused(Option<Item>),
}

/// The stored expiry, if the write was refused only because it is later than the write's own.
fn later(item: &Item, write: &Write, expires: Option<u64>) -> Option<u64> {
    let version = item::integer(item, attr::VERSION).ok()?;
    let at = item::optional_integer(item, attr::EXPIRES_AT).ok()??;
    (version == write.expected.0 && expires.is_some_and(|e| e < at)).then_some(at)
}

impl<C: Clock + Clone> DynamoStore<C> {
    /// The tables of orders' details and records, for people.
    pub(crate) fn update_expression(&self) -> String {
        format!("{} and {}", self.tables.orders, self.tables.order_state)
    }

    pub(crate) async fn create_one(&self, new: NewOrder) -> Result<Created, StoreError> {
        let details = orders::encode(&new.order.id, &new.details, &new.digest);
        let record = item::encode(&new.order, 0, self.retention);
        let put = |table: &str, item: Item| {
            PutOf::builder()
                .table_name(table)
                .set_item(Some(item))
                .condition_expression("attribute_not_exists(OrderID)")
                .return_values_on_condition_check_failure(
                    ReturnValuesOnConditionCheckFailure::AllOld,
                )
                .build()
                .map(|p| TransactWriteItem::builder().put(p).build())
                .map_err(|e| StoreError::Item(e.to_string()))
        };
        let result = self
            .client
            .transact_write_items()
            .transact_items(put(&self.tables.orders, details)?)
            .transact_items(put(&self.tables.order_state, record)?)
            .set_return_consumed_capacity(self.capacity.wanted())
            .send()
            .await;
        match result {
            Ok(done) => {
                self.capacity.add(Kind::Write, done.consumed_capacity());
                Ok(Created::Created)
            }
            Err(e) => {
                if let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) =
                    e.as_service_error()
                {
                    let reasons = cancelled.cancellation_reasons();
                    return match error::cancelled(reasons, &self.update_expression()) {
                        // The service orders the reasons like the items: details first.
                        Cancelled::Condition => Ok(Created::Exists {
                            digest: reasons
                                .first()
                                .and_then(|r| r.item())
                                .map(orders::digest)
                                .unwrap_or_default(),
                        }),
                        Cancelled::Error(e) => Err(e),
                    };
                }
                Err(classify(&e, &self.update_expression()))
            }
        }
    }

    /// Writes a record if its condition holds, and its new outputs before it. At the order's end its outputs get the
    /// expiry of its record.
    pub(crate) async fn commit_one(&self, write: Write) -> Result<Written, StoreError> {
        let next = &write.next;
        self.put_outputs(&next.id, next.new_outputs(), None).await?;
        let ends = next.kept_from().is_some();
        if !ends && next.outbox.writer == Writer::Operator {
            // A new run may have begun, and the outputs then expire no more with the earlier end.
            self.expire_outputs(next, None).await?;
        }
        let Some(expires_s) = self.commit_record(&write).await? else {
            return Ok(Written::Conflict);
        };
        if ends && let Err(e) = self.expire_outputs(next, expires_s).await {
            tracing::warn!(order = %next.id, error = %e, "outputs of a finished order keep their provisional expiry");
        }
        Ok(Written::Written)
    }

    /// Writes the record. Returns when it expires, in seconds since the Unix epoch, if ever; `None`: another writer was
    /// first. The stored `ExpiresAt` is never lowered: the condition refuses that,
    /// and then the put is repeated with the stored time. So the rule costs nothing unless this writer has a shorter
    /// retention than the one before it.
    async fn commit_record(&self, write: &Write) -> Result<Option<Option<u64>>, StoreError> {
        let mut standing = None;
        // The loop ends: while the version is unchanged, only a change by hand can move the expiry.
        for _ in 0..MAX_PUTS {
            let expires = stored::expires_at(&write.next, self.retention).max(standing);
            let put = match self.details(write)? {
                None => {
                    self.put(self.put_record(write, expires), write.token)
                        .await?
                }
                Some(details) => self.put_both(write, expires, details).await?,
            };
            match put {
                Put::Done => return Ok(Some(expires)),
                Put::Refused(item) => match item.and_then(|i| later(&i, write, expires)) {
                    Some(at) => standing = Some(at),
                    None => return Ok(None),
                },
            }
        }
        Err(StoreError::Transient(format!(
            "table {}: the expiry of order {} changes while its version stands",
            self.tables.order_state, write.next.id
        )))
    }

    /// The write to an order's details beside its record: their expiry at its end, or its removal if an operator may
    /// have started a new run.
    fn details(&self, write: &Write) -> Result<Option<TransactWriteItem>, StoreError> {
        let Some(retention) = self.details_retention else {
            return Ok(None);
        };
        let update = UpdateOf::builder()
            .table_name(&self.tables.orders)
            .key(attr::ORDER_ID, text(write.next.id.as_str()));
        let update = match write.next.kept_from() {
            // Details that have expired already leave an item of these two attributes, which expires.
            Some(at) => update
                .update_expression("SET ExpiresAt = :at")
                .expression_attribute_values(":at", number(at.plus(retention).0 / 1000)),
            None if write.next.outbox.writer == Writer::Operator => update
                .update_expression("REMOVE ExpiresAt")
                .condition_expression("attribute_exists(Digest)"),
            None => return Ok(None),
        };
        let update = update
            .build()
            .map_err(|e| StoreError::Item(e.to_string()))?;
        Ok(Some(TransactWriteItem::builder().update(update).build()))
    }

    /// The conditional put of a record, and the write to its details, in one transaction.
    async fn put_both(
        &self,
        write: &Write,
        expires: Option<u64>,
        details: TransactWriteItem,
    ) -> Result<Put, StoreError> {
        let record = self.put_record(write, expires);
        let record = PutOf::builder()
            .table_name(&self.tables.order_state)
            .set_item(record.get_item().clone())
            .set_condition_expression(record.get_condition_expression().clone())
            .set_expression_attribute_values(record.get_expression_attribute_values().clone())
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .build()
            .map_err(|e| StoreError::Item(e.to_string()))?;
        let request = self
            .client
            .transact_write_items()
            .transact_items(TransactWriteItem::builder().put(record).build())
            .transact_items(details)
            .set_return_consumed_capacity(self.capacity.wanted());
        let e = match request.send().await {
            Ok(done) => {
                self.capacity.add(Kind::Write, done.consumed_capacity());
                return Ok(Put::Done);
            }
            Err(e) => e,
        };
        let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) =
            e.as_service_error()
        else {
            return Err(classify(&e, &self.update_expression()));
        };
        let reasons = cancelled.cancellation_reasons();
        match error::cancelled(reasons, &self.update_expression()) {
            Cancelled::Condition => {}
            Cancelled::Error(e) => return Err(e),
        }
        // The service orders the reasons like the items: the record first.
        let first = reasons.first();
        if first.and_then(|r| r.code()) != Some("ConditionalCheckFailed") {
            let id = &write.next.id;
            return Err(StoreError::Item(format!(
                "table {}: the details of order {id} have expired",
                self.tables.orders
            )));
        }
        let item = first.and_then(|r| r.item());
        Ok(match item.and_then(item::token) {
            Some(token) if token == write.token => Put::Done,
            _ => Put::Refused(item.cloned()),
        })
    }

    /// The conditional put of a record that expires at a moment, in seconds.
    fn put_record(&self, write: &Write, expires: Option<u64>) -> PutItemFluentBuilder {
        let mut record = item::encode(&write.next, write.token, self.retention);
        let mut request = self
            .client
            .put_item()
            .table_name(&self.tables.order_state)
            .expression_attribute_values(":expected", number(write.expected));
        // The version alone fences every writer.
        let mut condition = "Version = :expected".to_owned();
        // A claim also checks the pattern's own condition.
        if let Some(claim) = write.next.state.locked_by() {
            condition += " AND (attribute_type(LockedBy, :null) OR LockedBy = :claim)";
            request = request
                .expression_attribute_values(":null", text("NULL"))
                .expression_attribute_values(":claim", text(&claim.0));
        }
        if let Some(at) = expires {
            record.insert(attr::EXPIRES_AT.to_owned(), number(at));
            condition += " AND (attribute_not_exists(ExpiresAt) OR ExpiresAt <= :expires)";
            request = request.expression_attribute_values(":expires", number(at));
        }
        request
            .set_item(Some(record))
            .condition_expression(condition)
    }

    /// Executes a conditional put whose item holds the token.
    pub(crate) async fn put(
        &self,
        request: PutItemFluentBuilder,
        token: u64,
    ) -> Result<Put, StoreError> {
        let request = request
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .set_return_consumed_capacity(self.capacity.wanted());
        let table = request.get_table_name().clone().unwrap_or_default();
        match request.send().await {
            Ok(done) => {
                self.capacity.add(Kind::Write, done.consumed_capacity());
                Ok(Put::Done)
            }
            Err(e) => match e.as_service_error() {
                Some(PutItemError::ConditionalCheckFailedException(failed)) => {
                    // An earlier try of the same write may have taken effect.
                    let own = failed
                        .item()
                        .and_then(item::token)
                        .is_some_and(|t| t == token);
                    Ok(if own {
                        Put::Done
                    } else {
                        Put::Refused(failed.item().cloned())
                    })
                }
                _ => Err(classify(&e, &table)),
            },
        }
    }
}
