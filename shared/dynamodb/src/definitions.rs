//! Published workflow definitions as items: one for each version, and one that names the present
//! version of each name.

use triad_core::{InvalidWorkflowRef, Timestamp, WorkflowRef};
use triad_runtime::ports::StoredVersion;
use triad_runtime::{Clock, DefinitionStore, StoreError};
use triad_workflow::{DefinitionHash, InvalidHash, WorkflowName};

use crate::error::{classify, in_table};
use crate::item::{self, Item, number, text};
use crate::store::DynamoStore;
use crate::tables::attr;

/// Sort key under which the present version of a workflow is named.
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
        let put = |version: &str| {
            self.client
                .put_item()
                .table_name(&self.tables.workflows)
                .item(attr::NAME, text(definition.name.as_str()))
                .item(attr::VERSION, text(version))
                .item(PUBLISHED_AT, number(self.clock.now().0))
        };
        // The content first: a name never points at what is not there.
        put(definition.hash.as_str())
            .item(DEFINITION, text(canonical_json))
            .send()
            .await
            .map_err(|e| classify(&e, &self.tables.workflows))?;
        put(CURRENT)
            .item(HASH, text(definition.hash.as_str()))
            .send()
            .await
            .map_err(|e| classify(&e, &self.tables.workflows))?;
        Ok(())
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
    /// All versions of all workflows. The table is small: it is read whole.
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

    /// Removes a version that is not the present one.
    pub(crate) async fn remove_version(&self, definition: &WorkflowRef) -> Result<(), StoreError> {
        if self.current(definition.name.clone()).await?.as_ref() == Some(&definition.hash) {
            return Err(StoreError::Item(format!(
                "{definition} is the present version"
            )));
        }
        self.client
            .delete_item()
            .table_name(&self.tables.workflows)
            .key(attr::NAME, text(definition.name.as_str()))
            .key(attr::VERSION, text(definition.hash.as_str()))
            .send()
            .await
            .map_err(|e| classify(&e, &self.tables.workflows))?;
        Ok(())
    }
}

/// The version that an item holds; `None` of one that names the present version. `current` are the names of
/// workflows with the hashes of their present versions.
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
