//! Shards of the attention index, for each reason.

use triad_core::due::SHARDS;
use triad_core::{Attention, OrderId, Timestamp};
use triad_runtime::StoreError;
use triad_runtime::ports::{AttentionRow, OperatorStore};

use crate::merge::{IndexPage, IndexPart};

/// One shard of the orders that need an operator for one reason, the oldest first.
pub(crate) struct Shard {
    pub(crate) kind: Attention,
    number: u32,
}

/// All shards of some reasons.
pub(crate) fn shards(kinds: &[Attention]) -> impl Iterator<Item = Shard> {
    let shard = |kind, number| Shard { kind, number };
    let kinds = kinds.iter();
    kinds.flat_map(move |kind| (0..SHARDS).map(move |number| shard(*kind, number)))
}

impl IndexPart for Shard {
    type Row = AttentionRow;
    const NEWEST_FIRST: bool = false;

    async fn read<S: OperatorStore>(
        &self,
        store: &S,
        page: Option<String>,
    ) -> Result<IndexPage<AttentionRow>, StoreError> {
        let got = store.attention(self.kind, self.number, page).await?;
        Ok(IndexPage {
            rows: got.rows,
            unreadable: got.unreadable,
            next: got.next,
        })
    }

    fn at(row: &AttentionRow) -> Timestamp {
        row.at
    }

    fn order(row: &AttentionRow) -> &OrderId {
        &row.order
    }
}
