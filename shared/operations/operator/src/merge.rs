//! Merges the rows of several parts of an index by their moments. Rows are read when needed.

use std::cmp::Ordering;
use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use triad_core::{OrderId, Timestamp};
use triad_runtime::StoreError;
use triad_runtime::ports::{AttentionPage, OperatorStore, Unreadable};

use crate::skipped::Skipped;

/// Rows of one read of a part.
pub(crate) struct IndexPage<R> {
    pub(crate) rows: Vec<R>,
    pub(crate) unreadable: Vec<Unreadable>,
    /// Name of the next page: [`AttentionPage::behind`] of a row.
    pub(crate) next: Option<String>,
}

/// A part of an index, which a store reads page by page in the order of the rows' moments.
pub(crate) trait IndexPart: Sync {
    type Row: Send;
    /// Whether the latest row comes first.
    const NEWEST_FIRST: bool;

    fn read<S: OperatorStore>(
        &self,
        store: &S,
        page: Option<String>,
    ) -> impl Future<Output = Result<IndexPage<Self::Row>, StoreError>> + Send;

    fn at(row: &Self::Row) -> Timestamp;

    fn order(row: &Self::Row) -> &OrderId;
}

/// A position in the merged rows: that of the last row returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MergePosition {
    at: Timestamp,
    /// Index of the part.
    #[serde(rename = "shard")]
    part: usize,
    order: String,
}

/// Sorts behind every order id of the same moment.
const BEHIND_ALL: &str = "\u{10FFFF}";

impl MergePosition {
    /// The name of a part's page that begins behind this position, and the first moment of the rows that are still to
    /// be returned. The order of rows with the same moment depends on the store.
    fn page_of<P: IndexPart>(&self, part: usize) -> (String, Timestamp) {
        let less = Timestamp(self.at.0.saturating_sub(1));
        let more = Timestamp(self.at.0.saturating_add(1));
        let (before, after) = match P::NEWEST_FIRST {
            true => (more, less),
            false => (less, more),
        };
        match part.cmp(&self.part) {
            // Rows of the same moment in an earlier part were returned before.
            Ordering::Less => (AttentionPage::behind(self.at, BEHIND_ALL), after),
            Ordering::Equal => (AttentionPage::behind(self.at, &self.order), self.at),
            Ordering::Greater => (AttentionPage::behind(before, BEHIND_ALL), self.at),
        }
    }
}

/// Some parts, merged. In memory is at most one page of each.
pub(crate) struct Rows<'a, S, P: IndexPart> {
    store: &'a S,
    parts: Vec<Reading<P>>,
    skipped: Skipped,
    last: Option<MergePosition>,
}

struct Reading<P: IndexPart> {
    part: P,
    rows: VecDeque<P::Row>,
    next: NextRow,
    /// First moment to return; earlier rows were returned before.
    first: Option<Timestamp>,
}

/// What is still to be read of a part.
enum NextRow {
    Page(Option<String>),
    Nothing,
}

impl<'a, S: OperatorStore, P: IndexPart> Rows<'a, S, P> {
    pub(crate) fn of(store: &'a S, parts: impl IntoIterator<Item = P>) -> Self {
        let reading = |part| Reading {
            part,
            rows: VecDeque::new(),
            next: NextRow::Page(None),
            first: None,
        };
        Self {
            store,
            parts: parts.into_iter().map(reading).collect(),
            skipped: Skipped::default(),
            last: None,
        }
    }

    /// Begins after this position, which must come from rows of the same parts.
    pub(crate) fn behind(mut self, place: &MergePosition) -> Self {
        for (at, reading) in self.parts.iter_mut().enumerate() {
            let (page, first) = place.page_of::<P>(at);
            (reading.next, reading.first) = (NextRow::Page(Some(page)), Some(first));
        }
        self
    }

    /// The position of the last row returned; `None` before the first.
    pub(crate) fn place(&self) -> Option<&MergePosition> {
        self.last.as_ref()
    }

    /// The rows that could not be read.
    pub(crate) fn skipped(self) -> Skipped {
        self.skipped
    }

    /// The next row, with its part; `None` at the end. Among rows of the same moment the first part's come first.
    pub(crate) async fn next(&mut self) -> Result<Option<(&P, P::Row)>, StoreError> {
        for reading in &mut self.parts {
            reading.fill(self.store, &mut self.skipped).await?;
        }
        let moments = self.parts.iter().enumerate();
        let moments = moments.filter_map(|(at, part)| Some((at, P::at(part.rows.front()?))));
        let first = match P::NEWEST_FIRST {
            // `max_by_key` takes the last of equal values.
            true => moments.rev().max_by_key(|(_, moment)| *moment),
            false => moments.min_by_key(|(_, moment)| *moment),
        };
        let Some((part, at)) = first else {
            return Ok(None);
        };
        let found = &mut self.parts[part];
        let Some(row) = found.rows.pop_front() else {
            return Ok(None);
        };
        let order = P::order(&row).to_string();
        self.last = Some(MergePosition { at, part, order });
        Ok(Some((&found.part, row)))
    }
}

impl<P: IndexPart> Reading<P> {
    /// Reads a part until it has a row in memory or ends.
    async fn fill(
        &mut self,
        store: &impl OperatorStore,
        skipped: &mut Skipped,
    ) -> Result<(), StoreError> {
        while self.rows.is_empty() {
            let NextRow::Page(page) = std::mem::replace(&mut self.next, NextRow::Nothing) else {
                return Ok(());
            };
            let got = self.part.read(store, page).await?;
            let is_new = |row: &P::Row| {
                self.first.is_none_or(|first| match P::NEWEST_FIRST {
                    true => P::at(row) <= first,
                    false => P::at(row) >= first,
                })
            };
            self.rows = got.rows.into_iter().filter(is_new).collect();
            skipped.add(got.unreadable);
            self.next = got
                .next
                .map_or(NextRow::Nothing, |page| NextRow::Page(Some(page)));
        }
        Ok(())
    }
}
