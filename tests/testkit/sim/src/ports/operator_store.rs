//! The operators' queries of the simulated store: the attention index, the search indexes, and the versions of
//! workflows.

use triad_core::due::shard_of;
use triad_core::stored::SEARCH;
use triad_core::{Attention, Order, Timestamp, WorkflowRef};
use triad_runtime::StoreError;
use triad_runtime::ports::{
    AttentionPage, AttentionRow, OperatorStore, SearchPage, SearchRow, StoredVersion,
};
use triad_workflow::SearchKey;

use super::Ports;
use crate::store::StoreState;

/// Number of rows in a page: small, so that there are several pages.
const PAGE: usize = 3;

impl OperatorStore for Ports {
    async fn attention(
        &self,
        kind: Attention,
        shard: u32,
        page: Option<String>,
    ) -> Result<AttentionPage, StoreError> {
        let read = move |store: &StoreState| attention(store, kind, shard, page.as_deref());
        self.reading(|state| read(&state.store)).await
    }

    async fn search(
        &self,
        key: SearchKey,
        index: usize,
        page: Option<String>,
    ) -> Result<SearchPage, StoreError> {
        if index >= SEARCH.len() {
            return Err(StoreError::Item(format!(
                "there is no search index {index}"
            )));
        }
        self.reading(move |state| search(&state.store, &key, index, page.as_deref()))
            .await
    }

    async fn versions(&self) -> Result<Vec<StoredVersion>, StoreError> {
        self.reading(|state| state.store.versions()).await?
    }

    async fn remove(&self, definition: WorkflowRef) -> Result<(), StoreError> {
        self.reading(move |state| state.store.remove(&definition))
            .await?
    }
}

/// One page of the attention index. A page token is the position of the row before the page.
fn attention(store: &StoreState, kind: Attention, shard: u32, page: Option<&str>) -> AttentionPage {
    let mut rows: Vec<AttentionRow> = store
        .orders_there()
        .filter(|order| shard_of(&order.id) == shard)
        .filter_map(|order| {
            let (_, at) = Attention::of(order).filter(|(found, _)| *found == kind)?;
            Some(AttentionRow {
                order: order.id.clone(),
                at,
                cause: order.state.cause().cloned(),
                workflow: Some(order.workflow.clone()),
            })
        })
        .collect();
    rows.sort_by(|a, b| (a.at, &a.order).cmp(&(b.at, &b.order)));
    if let Some((at, id)) = page.and_then(place) {
        rows.retain(|row| (row.at, row.order.as_str()) > (at, id));
    }
    let more = rows.len() > PAGE;
    rows.truncate(PAGE);
    let last = rows.last().filter(|_| more);
    AttentionPage {
        unreadable: Vec::new(),
        next: last.map(|row| AttentionPage::behind(row.at, row.order.as_str())),
        rows,
    }
}

/// The search key under which this index has an order.
pub(crate) fn searched_by(order: &Order, index: usize) -> Option<&SearchKey> {
    order.search.get(index)
}

/// One page of a search index. A page token is the position of the row before the page.
fn search(store: &StoreState, key: &SearchKey, index: usize, page: Option<&str>) -> SearchPage {
    let mut rows: Vec<SearchRow> = store
        .orders_there()
        .filter(|order| searched_by(order, index) == Some(key))
        .map(|order| SearchRow {
            order: order.id.clone(),
            at: order.submitted_at,
            workflow: Some(order.workflow.clone()),
        })
        .collect();
    rows.sort_by(|a, b| (b.at, &b.order).cmp(&(a.at, &a.order)));
    if let Some((at, id)) = page.and_then(place) {
        rows.retain(|row| (row.at, row.order.as_str()) < (at, id));
    }
    let more = rows.len() > PAGE;
    rows.truncate(PAGE);
    let last = rows.last().filter(|_| more);
    SearchPage {
        unreadable: Vec::new(),
        next: last.map(|row| AttentionPage::behind(row.at, row.order.as_str())),
        rows,
    }
}

/// The position after which a page begins.
fn place(page: &str) -> Option<(Timestamp, &str)> {
    let (at, id) = page.split_once('/')?;
    Some((Timestamp(at.parse().ok()?), id))
}

impl StoreState {
    fn versions(&self) -> Result<Vec<StoredVersion>, StoreError> {
        let version = |((name, hash), at): (&(String, String), &u64)| {
            let read = format!("{name}@{hash}").parse::<WorkflowRef>();
            let definition = read.map_err(|e| StoreError::Item(e.to_string()))?;
            Ok(StoredVersion {
                is_current: self.current(name) == Some(hash),
                definition,
                published_at: Timestamp(*at),
            })
        };
        self.published.iter().map(version).collect()
    }

    fn remove(&mut self, definition: &WorkflowRef) -> Result<(), StoreError> {
        let key = (definition.name.to_string(), definition.hash.to_string());
        if self.current(&key.0) == Some(&key.1) {
            return Err(StoreError::Item(format!(
                "{definition} is the present version"
            )));
        }
        self.published.remove(&key);
        self.definitions.remove(&key);
        Ok(())
    }
}
