//! Compares the tables with what the store needs.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{IndexStatus, TableStatus, TimeToLiveStatus};

use triad_runtime::StoreError;

use crate::error::classify;
use crate::tables::{ATTENTION_INDEX, DUE_INDEX, SEARCH_INDEXES, Tables};

/// A table, and its first fault if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examined {
    /// Name of the table.
    pub table: String,
    /// Why the table cannot be used, for people. `None`: it can.
    pub fault: Option<String>,
}

/// Examines the four tables: that each exists and is active, its indexes too, and that items expire. Reads no item.
pub async fn examine(client: &Client, tables: &Tables) -> Vec<Examined> {
    let indexes = [
        DUE_INDEX,
        ATTENTION_INDEX,
        SEARCH_INDEXES[0],
        SEARCH_INDEXES[1],
    ];
    let all: [(&str, &[&str], bool); 4] = [
        (&tables.orders, &[], true),
        (&tables.order_state, &indexes, true),
        (&tables.workflows, &[], false),
        (&tables.control, &[], true),
    ];
    let mut examined = Vec::new();
    for (table, indexes, expires) in all {
        examined.push(Examined {
            table: table.to_owned(),
            fault: fault(client, table, indexes, expires).await.err(),
        });
    }
    examined
}

async fn fault(
    client: &Client,
    table: &str,
    indexes: &[&str],
    expires: bool,
) -> Result<(), String> {
    let described = client.describe_table().table_name(table).send().await;
    let described = described.map_err(|e| said(classify(&e, table)))?;
    let described = described.table.ok_or("the answer has no table")?;
    match described.table_status {
        Some(TableStatus::Active | TableStatus::Updating) => {}
        other => {
            let state = other.as_ref().map_or("unknown", TableStatus::as_str);
            return Err(format!("its state is {state}: wait until it is ACTIVE"));
        }
    }
    let there = described.global_secondary_indexes.unwrap_or_default();
    for index in indexes {
        let found = there
            .iter()
            .find(|one| one.index_name.as_deref() == Some(index));
        match found.map(|one| one.index_status.as_ref()) {
            None => return Err(format!("it has no index {index}: apply the module again")),
            Some(Some(IndexStatus::Active | IndexStatus::Updating) | None) => {}
            Some(Some(other)) => {
                let state = other.as_str();
                return Err(format!(
                    "the state of its index {index} is {state}: wait until it is ACTIVE"
                ));
            }
        }
    }
    if !expires {
        return Ok(());
    }
    let described = client
        .describe_time_to_live()
        .table_name(table)
        .send()
        .await;
    let described = described.map_err(|e| said(classify(&e, table)))?;
    let state = described
        .time_to_live_description
        .and_then(|d| d.time_to_live_status);
    match state {
        Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling) => Ok(()),
        _ => Err(
            "its items do not expire: turn on time to live for ExpiresAt (apply the module again)"
                .to_owned(),
        ),
    }
}

fn said(error: StoreError) -> String {
    match error {
        StoreError::Transient(text) | StoreError::Configuration(text) | StoreError::Item(text) => {
            text
        }
    }
}
