//! Workflows and control records.

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use triad_core::{Timestamp, WorkflowRef};
use triad_runtime::moving::{Keeping, KeptControl, KeptPage, KeptWorkflow, StoredItem, compared};
use triad_runtime::{Clock, StoreError};

use super::add;
use crate::control::VALUE;
use crate::definitions::{CURRENT, DEFINITION, HASH, PUBLISHED_AT};
use crate::error::classify;
use crate::item::{self, Item, number, text};
use crate::store::DynamoStore;
use crate::tables::attr;

/// Separator of the two keys of a workflow's item in the name of a page: no workflow's name contains it.
const BETWEEN: char = '@';

impl<C: Clock + Clone> DynamoStore<C> {
    pub(super) async fn kept_workflows(
        &self,
        page: Option<String>,
    ) -> Result<KeptPage, StoreError> {
        let start = page.map(|page| {
            let none = || StoreError::Item(format!("{page:?} is not a page of the workflows"));
            let (name, version) = page.split_once(BETWEEN).ok_or_else(none)?;
            Ok(Item::from([
                (attr::NAME.to_owned(), text(name)),
                (attr::VERSION.to_owned(), text(version)),
            ]))
        });
        let (items, next) = self
            .scanned(&self.tables.workflows, start.transpose()?)
            .await?;
        let mut page = KeptPage::default();
        for item in &items {
            add(&mut page, workflow_key(item), workflow_of(item).map(Some));
        }
        page.next = next.as_ref().map(workflow_key);
        Ok(page)
    }

    pub(super) async fn keep_workflow(
        &self,
        own: KeptWorkflow,
        dry_run: bool,
    ) -> Result<Keeping, StoreError> {
        let (name, hash) = (&own.definition.name, own.definition.hash.as_str());
        let standing = self.workflow_item(name, hash).await?;
        let standing = standing.map(|item| item::string(&item, DEFINITION));
        let keeping = compared(standing.transpose()?.as_ref(), &own.json);
        if keeping != Keeping::New || dry_run {
            return Ok(keeping);
        }
        let put = self.put_workflow(name.as_str(), hash, own.published_at);
        self.put_absent(put.item(DEFINITION, text(own.json))).await
    }

    pub(super) async fn keep_present(
        &self,
        own: WorkflowRef,
        dry_run: bool,
    ) -> Result<Keeping, StoreError> {
        let hash = own.hash.as_str();
        let standing = self.workflow_item(&own.name, CURRENT).await?;
        let standing = standing.map(|item| item::string(&item, HASH)).transpose()?;
        let keeping = compared(standing.as_deref(), hash);
        if keeping != Keeping::New || dry_run {
            return Ok(keeping);
        }
        let put = self.put_workflow(own.name.as_str(), CURRENT, self.clock.now());
        self.put_absent(put.item(HASH, text(hash))).await
    }

    fn put_workflow(&self, name: &str, version: &str, at: Timestamp) -> PutItemFluentBuilder {
        self.client
            .put_item()
            .table_name(&self.tables.workflows)
            .item(attr::NAME, text(name))
            .item(attr::VERSION, text(version))
            .item(PUBLISHED_AT, number(at.0))
            .condition_expression("attribute_not_exists(#key)")
            .expression_attribute_names("#key", attr::NAME)
    }

    /// Puts an item on the condition that its key is free. If another write came between the check and the put, the
    /// next try compares with its item.
    async fn put_absent(&self, put: PutItemFluentBuilder) -> Result<Keeping, StoreError> {
        let table = put.get_table_name().clone().unwrap_or_default();
        match put.send().await {
            Ok(_) => Ok(Keeping::New),
            Err(e) => match e.as_service_error() {
                Some(PutItemError::ConditionalCheckFailedException(_)) => {
                    let why =
                        format!("table {table}: another process writes there at the same moment");
                    Err(StoreError::Transient(why))
                }
                _ => Err(classify(&e, &table)),
            },
        }
    }

    pub(super) async fn kept_control(&self, page: Option<String>) -> Result<KeptPage, StoreError> {
        let start = page.map(|key| Item::from([(attr::KEY.to_owned(), text(key))]));
        let (items, next) = self.scanned(&self.tables.control, start).await?;
        let now = self.clock.now();
        let mut page = KeptPage::default();
        for item in items.iter().filter(|item| !item::is_expired(item, now)) {
            let key = item::optional_string(item, attr::KEY).unwrap_or_default();
            add(
                &mut page,
                key,
                control_of(item).map(|c| Some(StoredItem::Control(c))),
            );
        }
        page.next = next.and_then(|key| item::optional_string(&key, attr::KEY));
        Ok(page)
    }

    pub(super) async fn keep_control(
        &self,
        own: KeptControl,
        dry_run: bool,
    ) -> Result<Keeping, StoreError> {
        let now = self.clock.now();
        let got = self
            .client
            .get_item()
            .table_name(&self.tables.control)
            .key(attr::KEY, text(&own.key))
            .consistent_read(true)
            .send()
            .await
            .map_err(|e| classify(&e, &self.tables.control))?;
        if let Some(item) = got.item.filter(|item| !item::is_expired(item, now)) {
            return Ok(match control_of(&item)?.is_same(&own) {
                true => Keeping::Same,
                false => Keeping::Different,
            });
        }
        if dry_run {
            return Ok(Keeping::New);
        }
        let mut put = self
            .client
            .put_item()
            .table_name(&self.tables.control)
            .item(attr::KEY, text(own.key))
            .item(attr::VERSION, number(own.version))
            .item(VALUE, text(own.json))
            .item(attr::WRITE_TOKEN, number(own.token))
            // An expired item may not have been deleted yet.
            .condition_expression("attribute_not_exists(#key) OR ExpiresAt <= :now")
            .expression_attribute_names("#key", attr::KEY)
            .expression_attribute_values(":now", number(now.0 / 1000));
        if let Some(at) = own.expires {
            put = put.item(attr::EXPIRES_AT, number(at.0.div_ceil(1000)));
        }
        self.put_absent(put).await
    }
}

/// The two keys of a workflow's item.
fn workflow_key(item: &Item) -> String {
    let part = |name| item::optional_string(item, name).unwrap_or_default();
    format!("{}{BETWEEN}{}", part(attr::NAME), part(attr::VERSION))
}

fn workflow_of(item: &Item) -> Result<StoredItem, StoreError> {
    let name = item::string(item, attr::NAME)?;
    let version = item::string(item, attr::VERSION)?;
    let reference = |hash: &str| {
        let text = format!("{name}@{hash}");
        let read = text.parse::<WorkflowRef>();
        read.map_err(|e| StoreError::Item(e.to_string()))
    };
    if version == CURRENT {
        return reference(&item::string(item, HASH)?).map(StoredItem::Present);
    }
    Ok(StoredItem::Workflow(KeptWorkflow {
        definition: reference(&version)?,
        json: item::string(item, DEFINITION)?,
        published_at: Timestamp(item::optional_integer(item, PUBLISHED_AT)?.unwrap_or(0)),
    }))
}

fn control_of(item: &Item) -> Result<KeptControl, StoreError> {
    let expires = item::optional_integer(item, attr::EXPIRES_AT)?;
    Ok(KeptControl {
        key: item::string(item, attr::KEY)?,
        version: item::integer(item, attr::VERSION)?,
        json: item::string(item, VALUE)?,
        token: item::token(item).unwrap_or_default(),
        expires: expires.map(|at| Timestamp(at.saturating_mul(1000))),
    })
}
