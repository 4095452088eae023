//! The rows of the attention index in one line, oldest first, read as they are asked for.

use std::cmp::Ordering;
use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use triad_core::due::SHARDS;
use triad_core::{Attention, Timestamp};
use triad_runtime::StoreError;
use triad_runtime::ports::{AttentionPage, AttentionRow, OperatorStore};

use crate::skipped::Skipped;

/// A place in the rows of some kinds: that of a row that was handed out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    at: Timestamp,
    /// Which of the shards of all kinds.
    shard: usize,
    order: String,
}

/// Behind every order id, where ids of one moment are sorted.
const BEHIND_ALL: &str = "\u{10FFFF}";

impl Place {
    /// The name of the page of a shard that begins behind this place, and the earliest moment of the rows
    /// that are still to be handed out: how a store sorts rows of one moment is its own affair.
    fn page_of(&self, shard: usize) -> (String, Timestamp) {
        let before = Timestamp(self.at.0.saturating_sub(1));
        let after = Timestamp(self.at.0.saturating_add(1));
        match shard.cmp(&self.shard) {
            // Of rows of one moment those of an earlier shard came before.
            Ordering::Less => (AttentionPage::behind(self.at, BEHIND_ALL), after),
            Ordering::Equal => (AttentionPage::behind(self.at, &self.order), self.at),
            Ordering::Greater => (AttentionPage::behind(before, BEHIND_ALL), self.at),
        }
    }
}

/// The shards of some kinds, merged. In memory is at most one page of each shard.
pub(crate) struct Rows<'a, S> {
    store: &'a S,
    shards: Vec<Shard>,
    skipped: Skipped,
    last: Option<Place>,
}

struct Shard {
    kind: Attention,
    number: u32,
    rows: VecDeque<AttentionRow>,
    next: Next,
    /// Rows of an earlier moment were handed out before.
    least: Timestamp,
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
            least: Timestamp(0),
        };
        let shards = kinds
            .iter()
            .flat_map(|kind| (0..SHARDS).map(|number| shard(*kind, number)));
        Self {
            store,
            shards: shards.collect(),
            skipped: Skipped::default(),
            last: None,
        }
    }

    /// Those behind a place that rows of the same kinds were at.
    pub(crate) fn behind(store: &'a S, kinds: &[Attention], place: &Place) -> Self {
        let mut rows = Self::of(store, kinds);
        for (at, shard) in rows.shards.iter_mut().enumerate() {
            let (page, least) = place.page_of(at);
            (shard.next, shard.least) = (Next::Page(Some(page)), least);
        }
        rows
    }

    /// The place of the row that was handed out last; `None` if none was.
    pub(crate) fn place(&self) -> Option<&Place> {
        self.last.as_ref()
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
        let shards = self.shards.iter_mut().enumerate();
        let with_rows = shards.filter(|(_, s)| !s.rows.is_empty());
        let oldest = with_rows.min_by_key(|(_, s)| s.rows.front().map(|row| row.at));
        let Some((shard, found)) = oldest else {
            return Ok(None);
        };
        let Some(row) = found.rows.pop_front() else {
            return Ok(None);
        };
        self.last = Some(Place {
            at: row.at,
            shard,
            order: row.order.to_string(),
        });
        Ok(Some((found.kind, row)))
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
            let rows = got.rows.into_iter();
            self.rows = rows.filter(|row| row.at >= self.least).collect();
            skipped.add(got.unreadable);
            self.next = got
                .next
                .map_or(Next::Nothing, |page| Next::Page(Some(page)));
        }
        Ok(())
    }
}
