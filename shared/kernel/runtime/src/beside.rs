//! What lies beside a record: the order's details, and its larger outputs.

use std::sync::Arc;

use triad_core::input::outputs_to_read;
use triad_core::pass::Snapshot;
use triad_core::{Order, OutputDigest};
use triad_workflow::Workflow;

use crate::ports::{OutputsOf, StateStore, StoreError};

/// Most reads that one decision needs, inclusive: the details with the outputs that most decisions read, then all
/// outputs.
pub(crate) const MOST_READS: usize = 2;

/// Reads what decisions have asked for: the details, if they have not been read, and the outputs that the next steps
/// read or, after these, all.
///
/// # Errors
/// For each order, in their order: the error of the store, or [`StoreError::Item`] if its details or an output are not
/// stored.
pub(crate) async fn read_for_decisions<S: StateStore>(
    store: &S,
    wanting: Vec<Snapshot>,
) -> Vec<Result<Snapshot, StoreError>> {
    read(store, wanting, outputs_to_read).await
}

/// Reads the details of an order, if they have not been read, and all of its outputs.
///
/// # Errors
/// The error of the store, or [`StoreError::Item`] if its details or an output are not stored.
pub async fn read_all<S: StateStore>(store: &S, order: Snapshot) -> Result<Snapshot, StoreError> {
    let all = |_: &Workflow, order: &Order| order.outputs_beside().cloned().collect();
    let mut read = read(store, vec![order], all).await;
    let nothing = || Err(StoreError::Item("the store has not answered".into()));
    read.pop().unwrap_or_else(nothing)
}

async fn read<S: StateStore>(
    store: &S,
    wanting: Vec<Snapshot>,
    outputs_of: impl Fn(&Workflow, &Order) -> Vec<OutputDigest>,
) -> Vec<Result<Snapshot, StoreError>> {
    let without = wanting.iter().filter(|read| read.details.is_none());
    let ids: Vec<_> = without.map(|read| read.order.id.clone()).collect();
    let mut details = match ids.is_empty() {
        true => Vec::new(),
        false => store.details(ids).await,
    }
    .into_iter();
    let named: Vec<Vec<OutputDigest>> = wanting
        .iter()
        .map(|read| outputs_of(&read.workflow, &read.order))
        .collect();
    let wanted = wanting.iter().zip(&named).filter(|(_, d)| !d.is_empty());
    let wanted = wanted.map(|(read, digests)| OutputsOf {
        order: read.order.id.clone(),
        digests: digests.clone(),
    });
    let wanted: Vec<OutputsOf> = wanted.collect();
    let mut outputs = match wanted.is_empty() {
        true => Vec::new(),
        false => store.outputs(wanted).await,
    }
    .into_iter();
    let complete = |(mut read, digests): (Snapshot, Vec<OutputDigest>)| {
        // Both answers are taken first, because each belongs to this order even if the other is an error.
        let own_details = read.details.is_none().then(|| details.next()).flatten();
        let own_outputs = (!digests.is_empty()).then(|| outputs.next()).flatten();
        if let Some(found) = own_details {
            let missing = || StoreError::Item("its details are not stored".into());
            read.details = Some(found?.ok_or_else(missing)?);
        }
        if let Some(found) = own_outputs {
            Arc::make_mut(&mut read.order).take_outputs(digests.iter().zip(&found?));
        }
        Ok(read)
    };
    wanting.into_iter().zip(named).map(complete).collect()
}
