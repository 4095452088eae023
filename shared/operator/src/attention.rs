//! The rows of the attention index in one line, oldest first, read as they are asked for.

use std::collections::VecDeque;

use triad_core::Attention;
use triad_core::due::SHARDS;
use triad_runtime::StoreError;
use triad_runtime::ports::{AttentionRow, OperatorStore};

use crate::skipped::Skipped;

/// The shards of some kinds, merged. In memory is at most one page of each shard.
pub(crate) struct Rows<'a, S> {
    store: &'a S,
    shards: Vec<Shard>,
    skipped: Skipped,
}

struct Shard {
    kind: Attention,
    number: u32,
    rows: VecDeque<AttentionRow>,
    next: Next,
}

/// What is still to be read of a shard.
enum Next {
    Page(Option<String>),
    Nothing,
}

impl<'a, S: OperatorStore> Rows<'a, S> {
    pub(crate) fn of(store: &'a S, kinds: &[Attention]) -> Self {
        let shard = |kind, number| Shard {
            kind,
            number,
            rows: VecDeque::new(),
            next: Next::Page(None),
        };
        let shards = kinds
            .iter()
            .flat_map(|kind| (0..SHARDS).map(|number| shard(*kind, number)));
        Self {
            store,
            shards: shards.collect(),
            skipped: Skipped::default(),
        }
    }

    /// The rows that could not be read.
    pub(crate) fn skipped(self) -> Skipped {
        self.skipped
    }

    /// The next row, with what its order needs an operator for; `None` at the end. Of rows of one
    /// moment those of the first kind and shard come first.
    pub(crate) async fn next(&mut self) -> Result<Option<(Attention, AttentionRow)>, StoreError> {
        for shard in &mut self.shards {
            shard.fill(self.store, &mut self.skipped).await?;
        }
        let with_rows = self.shards.iter_mut().filter(|s| !s.rows.is_empty());
        let oldest = with_rows.min_by_key(|s| s.rows.front().map(|row| row.at));
        Ok(oldest.and_then(|s| Some((s.kind, s.rows.pop_front()?))))
    }
}

impl Shard {
    /// Reads on until a row is at hand or the shard ends.
    async fn fill(
        &mut self,
        store: &impl OperatorStore,
        skipped: &mut Skipped,
    ) -> Result<(), StoreError> {
        while self.rows.is_empty() {
            let Next::Page(page) = std::mem::replace(&mut self.next, Next::Nothing) else {
                return Ok(());
            };
            let got = store.attention(self.kind, self.number, page).await?;
            self.rows = got.rows.into();
            skipped.add(got.unreadable);
            self.next = got
                .next
                .map_or(Next::Nothing, |page| Next::Page(Some(page)));
        }
        Ok(())
    }
}
