//! Records and rows that a search could not read.

use serde::{Deserialize, Serialize};
use triad_core::{Order, OrderId};
use triad_runtime::ports::Unreadable;
use triad_runtime::{StateStore, StoreError};

/// Most records and rows that one search names because they cannot be read. Further ones are only
/// counted, in [`Skipped::others`].
pub const MAX_UNREADABLE: usize = 1_000;

/// Records, and rows of an index, that a search could not read. Each of them might have fitted the
/// search, or not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The first of these, at most [`MAX_UNREADABLE`], each order once: the order and why it cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// How many more there were beyond `unreadable`. An order may be counted more than once here.
    pub others: u64,
}

impl Skipped {
    /// Reads records. Unreadable ones are noted here, missing ones left out.
    ///
    /// # Errors
    /// As [`StateStore::load`], if the store cannot be read.
    pub(crate) async fn readable<S: StateStore>(
        &mut self,
        store: &S,
        ids: Vec<OrderId>,
    ) -> Result<Vec<Order>, StoreError> {
        let mut orders = Vec::with_capacity(ids.len());
        if ids.is_empty() {
            return Ok(orders);
        }
        let loaded = store.load(ids.clone()).await;
        for (id, order) in ids.into_iter().zip(loaded) {
            match order {
                Ok(order) => orders.extend(order),
                Err(StoreError::Item(why)) => self.add([Unreadable {
                    order_id: id.to_string(),
                    why,
                }]),
                Err(other) => return Err(other),
            }
        }
        Ok(orders)
    }

    /// Adds what another part of a search could not read.
    pub(crate) fn add_all(&mut self, other: Self) {
        self.add(other.unreadable);
        self.others += other.others;
    }

    pub(crate) fn add(&mut self, unreadable: impl IntoIterator<Item = Unreadable>) {
        for one in unreadable {
            // An order may be in more than one part of an index.
            if self.unreadable.iter().any(|u| u.order_id == one.order_id) {
                continue;
            }
            if self.unreadable.len() < MAX_UNREADABLE {
                self.unreadable.push(one);
            } else {
                self.others += 1;
            }
        }
    }
}
