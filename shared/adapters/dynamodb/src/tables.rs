//! The tables: names, keys, index, time to live.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType, TimeToLiveSpecification,
};
use triad_core::stored::SEARCH;
use triad_runtime::StoreError;

use crate::error::classify;

/// Names of the four tables of one installation. [`Tables::with_prefix`] makes all four from one prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    /// Order details, `PREFIXorders`; its key is the order's id.
    pub orders: String,
    /// Process records, `PREFIXorder-state`, with the due index, the attention index and the two search
    /// indexes; its key is the order's id.
    pub order_state: String,
    /// Published workflow definitions, `PREFIXworkflows`; its key is name and version.
    pub workflows: String,
    /// Records of the control store, `PREFIXcontrol`: circuit breakers and pauses, rate limits, the
    /// call ledger, reports of pressure.
    pub control: String,
}

impl Tables {
    /// The four names with this prefix, which may be empty.
    #[must_use]
    pub fn with_prefix(prefix: &str) -> Self {
        Self {
            orders: format!("{prefix}orders"),
            order_state: format!("{prefix}order-state"),
            workflows: format!("{prefix}workflows"),
            control: format!("{prefix}control"),
        }
    }
}

/// The sparse due index on the process records.
pub(crate) const DUE_INDEX: &str = "due";
/// The sparse index of orders that need an operator.
pub(crate) const ATTENTION_INDEX: &str = "attention";
/// The sparse indexes by search key, in the order of [`SEARCH`].
pub(crate) const SEARCH_INDEXES: [&str; SEARCH.len()] = ["search-1", "search-2"];

/// Attribute names of keys, conditions and filters; the other names are in `item`.
pub(crate) mod attr {
    pub use triad_core::stored::attribute::{
        ATTENTION, ATTENTION_AT, CAUSE, DUE_AT, DUE_SHARD, EXPIRES_AT, ORDER_ID, SUBMITTED_AT,
        VERSION, WORKFLOW, WRITE_TOKEN,
    };
    /// Attribute with the key of a record of the control store.
    pub const KEY: &str = "Key";
    /// Attribute with the name of a workflow.
    pub const NAME: &str = "Name";
}

/// Creates the tables that are missing, with their indexes and time to live, and does not wait
/// until they can be used. For local runs and tests; in the cloud the templates create the tables,
/// with backups and protection.
///
/// # Errors
/// The [`StoreError`] of the first call that fails. Tables that were created before it stay. A table that is
/// there already is no error, whatever its form.
pub async fn create_tables(client: &Client, tables: &Tables) -> Result<(), StoreError> {
    let key = |name: &str, kind| {
        build(
            KeySchemaElement::builder()
                .attribute_name(name)
                .key_type(kind)
                .build(),
        )
    };
    let attribute = |name: &str, kind| {
        build(
            AttributeDefinition::builder()
                .attribute_name(name)
                .attribute_type(kind)
                .build(),
        )
    };
    let hash = KeyType::Hash;
    let text = ScalarAttributeType::S;
    let number = ScalarAttributeType::N;

    let orders = client
        .create_table()
        .table_name(&tables.orders)
        .billing_mode(BillingMode::PayPerRequest)
        .key_schema(key(attr::ORDER_ID, hash.clone())?)
        .attribute_definitions(attribute(attr::ORDER_ID, text.clone())?);
    if created(orders.send().await, &tables.orders)? {
        expire(client, &tables.orders).await?;
    }

    let included = |attributes: &[&str]| {
        Projection::builder()
            .projection_type(ProjectionType::Include)
            .set_non_key_attributes(Some(attributes.iter().map(ToString::to_string).collect()))
            .build()
    };
    let due = GlobalSecondaryIndex::builder()
        .index_name(DUE_INDEX)
        .key_schema(key(attr::DUE_SHARD, hash.clone())?)
        .key_schema(key(attr::DUE_AT, KeyType::Range)?)
        .projection(included(&[attr::WORKFLOW]))
        .build();
    let attention = GlobalSecondaryIndex::builder()
        .index_name(ATTENTION_INDEX)
        .key_schema(key(attr::ATTENTION, hash.clone())?)
        .key_schema(key(attr::ATTENTION_AT, KeyType::Range)?)
        .projection(included(&[attr::CAUSE, attr::WORKFLOW]))
        .build();
    let mut order_state = client
        .create_table()
        .table_name(&tables.order_state)
        .billing_mode(BillingMode::PayPerRequest)
        .key_schema(key(attr::ORDER_ID, hash.clone())?)
        .attribute_definitions(attribute(attr::ORDER_ID, text.clone())?)
        .attribute_definitions(attribute(attr::DUE_SHARD, number.clone())?)
        .attribute_definitions(attribute(attr::DUE_AT, number.clone())?)
        .attribute_definitions(attribute(attr::ATTENTION, text.clone())?)
        .attribute_definitions(attribute(attr::ATTENTION_AT, number.clone())?)
        .attribute_definitions(attribute(attr::SUBMITTED_AT, number)?)
        .global_secondary_indexes(build(due)?)
        .global_secondary_indexes(build(attention)?);
    for (name, hash_key) in SEARCH_INDEXES.into_iter().zip(SEARCH) {
        let index = GlobalSecondaryIndex::builder()
            .index_name(name)
            .key_schema(key(hash_key, hash.clone())?)
            .key_schema(key(attr::SUBMITTED_AT, KeyType::Range)?)
            .projection(included(&[attr::WORKFLOW]))
            .build();
        order_state = order_state
            .attribute_definitions(attribute(hash_key, text.clone())?)
            .global_secondary_indexes(build(index)?);
    }
    if created(order_state.send().await, &tables.order_state)? {
        expire(client, &tables.order_state).await?;
    }
    let control = client
        .create_table()
        .table_name(&tables.control)
        .billing_mode(BillingMode::PayPerRequest)
        .key_schema(key(attr::KEY, hash.clone())?)
        .attribute_definitions(attribute(attr::KEY, text.clone())?);
    if created(control.send().await, &tables.control)? {
        expire(client, &tables.control).await?;
    }

    let workflows = client
        .create_table()
        .table_name(&tables.workflows)
        .billing_mode(BillingMode::PayPerRequest)
        .key_schema(key(attr::NAME, hash)?)
        .key_schema(key(attr::VERSION, KeyType::Range)?)
        .attribute_definitions(attribute(attr::NAME, text.clone())?)
        .attribute_definitions(attribute(attr::VERSION, text)?);
    created(workflows.send().await, &tables.workflows)?;
    Ok(())
}

/// Enables the time to live of a table's items.
async fn expire(client: &Client, table: &str) -> Result<(), StoreError> {
    let ttl = TimeToLiveSpecification::builder()
        .attribute_name(attr::EXPIRES_AT)
        .enabled(true)
        .build();
    client
        .update_time_to_live()
        .table_name(table)
        .time_to_live_specification(build(ttl)?)
        .send()
        .await
        .map_err(|e| classify(&e, table))?;
    Ok(())
}

/// True if the call created the table, false if it was there.
fn created<T, R>(
    result: Result<T, SdkError<aws_sdk_dynamodb::operation::create_table::CreateTableError, R>>,
    table: &str,
) -> Result<bool, StoreError>
where
    R: std::fmt::Debug + Send + Sync + 'static,
{
    match result {
        Ok(_) => Ok(true),
        Err(e) => match e.as_service_error() {
            Some(s) if s.is_resource_in_use_exception() => Ok(false),
            _ => Err(classify(&e, table)),
        },
    }
}

fn build<T>(built: Result<T, aws_sdk_dynamodb::error::BuildError>) -> Result<T, StoreError> {
    built.map_err(|e| StoreError::Item(e.to_string()))
}
