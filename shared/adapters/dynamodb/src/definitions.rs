//! Published workflow definitions as items: one for each version, and one that names the current version of each
//! name.

use aws_sdk_dynamodb::error::{BuildError, SdkError};
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{ConditionCheck, Delete, Put, TransactWriteItem};
use triad_core::{InvalidWorkflowRef, Timestamp, WorkflowRef};
use triad_runtime::ports::StoredVersion;
use triad_runtime::{Clock, DefinitionStore, StoreError};
use triad_workflow::{DefinitionHash, InvalidHash, WorkflowName};

use crate::error::{Cancelled, cancelled, classify, in_table};
use crate::item::{self, Item, number, text};
use crate::store::DynamoStore;
use crate::tables::attr;

/// Sort key of the item that names the current version of a workflow.
pub(crate) const CURRENT: &str = "current";
pub(crate) const DEFINITION: &str = "Definition";
pub(crate) const HASH: &str = "Hash";
pub(crate) const PUBLISHED_AT: &str = "PublishedAt";

impl<C: Clock + Clone> DefinitionStore for DynamoStore<C> {
    async fn publish(
        &self,
        definition: WorkflowRef,
        canonical_json: String,
    ) -> Result<(), StoreError> {
        if self.current(definition.name.clone()).await?.as_ref() == Some(&definition.hash) {
            return Ok(());
        }
        let put = |version: &str| {
            Put::builder()
                .table_name(&self.tables.workflows)
                .item(attr::NAME, text(definition.name.as_str()))
                .item(attr::VERSION, text(version))
                .item(PUBLISHED_AT, number(self.clock.now().0))
        };
        let content = put(definition.hash.as_str()).item(DEFINITION, text(canonical_json));
        let current = put(CURRENT).item(HASH, text(definition.hash.as_str()));
        // In one transaction, so that the content cannot be removed before the name points at it.
        let mut both = self.client.transact_write_items();
        for put in [content, current] {
            let put = put.build().map_err(|e| StoreError::Item(e.to_string()))?;
            both = both.transact_items(TransactWriteItem::builder().put(put).build());
        }
        match both.send().await {
            Ok(_) => Ok(()),
            Err(e) => Err(self.of_transaction(&e)),
        }
    }

    async fn current(&self, name: WorkflowName) -> Result<Option<DefinitionHash>, StoreError> {
        let Some(found) = self.workflow_item(&name, CURRENT).await? else {
            return Ok(None);
        };
        let hash = item::string(&found, HASH).and_then(|h| {
            h.parse()
                .map_err(|e: InvalidHash| StoreError::Item(e.to_string()))
        });
        hash.map(Some).map_err(|e| self.of_workflow(e, &name))
    }

    async fn definition(&self, wanted: WorkflowRef) -> Result<Option<String>, StoreError> {
        match self
            .workflow_item(&wanted.name, wanted.hash.as_str())
            .await?
        {
            Some(found) => item::string(&found, DEFINITION)
                .map(Some)
                .map_err(|e| self.of_workflow(e, &wanted)),
            None => Ok(None),
        }
    }
}

impl<C: Clock + Clone> DynamoStore<C> {
    /// The error of an item that cannot be read, with the workflow and the table.
    fn of_workflow(&self, error: StoreError, what: &impl std::fmt::Display) -> StoreError {
        let error = match error {
            StoreError::Item(why) => StoreError::Item(format!("workflow {what}: {why}")),
            other => other,
        };
        in_table(error, &self.tables.workflows)
    }

    pub(crate) async fn workflow_item(
        &self,
        name: &WorkflowName,
        version: &str,
    ) -> Result<Option<Item>, StoreError> {
        let got = self
            .client
            .get_item()
            .table_name(&self.tables.workflows)
            .key(attr::NAME, text(name.as_str()))
            .key(attr::VERSION, text(version))
            .consistent_read(true)
            .send()
            .await
            .map_err(|e| classify(&e, &self.tables.workflows))?;
        Ok(got.item)
    }
}

impl<C: Clock + Clone> DynamoStore<C> {
    /// All versions of all workflows. The table is small, so it is scanned.
    pub(crate) async fn all_versions(&self) -> Result<Vec<StoredVersion>, StoreError> {
        let mut items: Vec<Item> = Vec::new();
        let mut start = None;
        loop {
            let got = self
                .client
                .scan()
                .table_name(&self.tables.workflows)
                .projection_expression("#name, Version, #hash, PublishedAt")
                .expression_attribute_names("#name", attr::NAME)
                .expression_attribute_names("#hash", HASH)
                .consistent_read(true)
                .set_exclusive_start_key(start)
                .send()
                .await
                .map_err(|e| classify(&e, &self.tables.workflows))?;
            start = got.last_evaluated_key().cloned();
            items.extend(got.items.unwrap_or_default());
            if start.is_none() {
                break;
            }
        }
        let current: Vec<(String, String)> = items
            .iter()
            .filter(|i| item::optional_string(i, attr::VERSION).as_deref() == Some(CURRENT))
            .filter_map(|i| {
                let name = item::optional_string(i, attr::NAME)?;
                Some((name, item::optional_string(i, HASH)?))
            })
            .collect();
        let mut versions = Vec::new();
        for found in &items {
            let version = version(found, &current);
            versions.extend(version.map_err(|e| in_table(e, &self.tables.workflows))?);
        }
        versions.sort_by_key(|v| (v.definition.name.to_string(), v.published_at));
        Ok(versions)
    }

    /// Removes a version on the condition that it is not the current one.
    pub(crate) async fn remove_version(&self, definition: &WorkflowRef) -> Result<(), StoreError> {
        let built = |e: BuildError| StoreError::Item(e.to_string());
        let is_another = ConditionCheck::builder()
            .table_name(&self.tables.workflows)
            .key(attr::NAME, text(definition.name.as_str()))
            .key(attr::VERSION, text(CURRENT))
            .condition_expression("attribute_not_exists(#hash) OR #hash <> :removed")
            .expression_attribute_names("#hash", HASH)
            .expression_attribute_values(":removed", text(definition.hash.as_str()))
            .build()
            .map_err(built)?;
        let delete = Delete::builder()
            .table_name(&self.tables.workflows)
            .key(attr::NAME, text(definition.name.as_str()))
            .key(attr::VERSION, text(definition.hash.as_str()))
            .build()
            .map_err(built)?;
        let is_another = TransactWriteItem::builder().condition_check(is_another);
        let delete = TransactWriteItem::builder().delete(delete);
        let removed = self
            .client
            .transact_write_items()
            .transact_items(is_another.build())
            .transact_items(delete.build())
            .send()
            .await;
        match removed {
            Ok(_) => Ok(()),
            Err(e) if is_refused(&e) => Err(StoreError::Item(format!(
                "{definition} is the present version"
            ))),
            Err(e) => Err(self.of_transaction(&e)),
        }
    }

    /// The error of a transaction on the table of workflows.
    fn of_transaction(&self, error: &SdkError<TransactWriteItemsError>) -> StoreError {
        if let Some(TransactWriteItemsError::TransactionCanceledException(e)) =
            error.as_service_error()
            && let Cancelled::Error(e) = cancelled(e.cancellation_reasons(), &self.tables.workflows)
        {
            return e;
        }
        classify(error, &self.tables.workflows)
    }
}

/// Whether only the condition of a transaction failed.
fn is_refused(error: &SdkError<TransactWriteItemsError>) -> bool {
    matches!(
        error.as_service_error(),
        Some(TransactWriteItemsError::TransactionCanceledException(e))
            if matches!(cancelled(e.cancellation_reasons(), ""), Cancelled::Condition)
    )
}

/// The version that an item holds; `None` for an item that names the current version. `current` maps workflow names
/// to the hashes of their current versions.
fn version(
    found: &Item,
    current: &[(String, String)],
) -> Result<Option<StoredVersion>, StoreError> {
    let name = item::string(found, attr::NAME)?;
    let version = item::string(found, attr::VERSION)?;
    if version == CURRENT {
        return Ok(None);
    }
    let read = format!("{name}@{version}").parse();
    let at = item::optional_integer(found, PUBLISHED_AT)?.unwrap_or(0);
    Ok(Some(StoredVersion {
        definition: read.map_err(|e: InvalidWorkflowRef| StoreError::Item(e.to_string()))?,
        is_current: current.contains(&(name, version)),
        published_at: Timestamp(at),
    }))
}
