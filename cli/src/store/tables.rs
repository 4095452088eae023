//! The tables of DynamoDB, or of what speaks its API. No other module of the command line makes a client of
//! it.

use std::time::Duration;

use triad_dynamodb::{Client, DynamoStore, connect, create_tables, reach};
use triad_runtime::StoreError;
use triad_runtime::system::SystemClock;
use triad_workflow::Millis;

pub use triad_dynamodb::{Endpoint, Tables as Names, Unreached};

use super::Store;

/// The tables of one installation, with a client for them. They need not be there yet.
#[derive(Debug, Clone)]
pub struct Tables {
    client: Client,
    names: Names,
}

impl Tables {
    /// The tables at `endpoint`. Nothing is asked yet; credentials may be, over the network.
    pub async fn at(endpoint: Endpoint, names: Names) -> Self {
        Self {
            client: connect(endpoint).await,
            names,
        }
    }

    /// Does what [`at`](Self::at) does, once somebody has answered there.
    ///
    /// # Errors
    /// [`Unreached`] if nobody has within this time.
    pub async fn reached(
        endpoint: Endpoint,
        names: Names,
        within: Duration,
    ) -> Result<Self, Unreached> {
        let asked = async {
            let tables = Self::at(endpoint, names).await;
            reach(&tables.client, &tables.names, within).await?;
            Ok(tables)
        };
        let late = Unreached::NoAnswer(format!("no answer within {} s", within.as_secs()));
        let asked = tokio::time::timeout(within, asked).await;
        asked.unwrap_or(Err(late))
    }

    /// Makes the tables that are missing, and does not wait until they can be used.
    ///
    /// # Errors
    /// The [`StoreError`] of the first table that cannot be made; those before it stay.
    pub async fn make_missing(&self) -> Result<(), StoreError> {
        create_tables(&self.client, &self.names).await
    }

    /// The store over the tables. Finished orders are kept for `retention`, and order details for
    /// `details_retention`, or as long as their order where that is `None`.
    #[must_use]
    pub fn store(self, retention: Millis, details_retention: Option<Millis>) -> Store {
        let store = DynamoStore::new(self.client, self.names, SystemClock, retention);
        Store::Dynamo(store.keeping_details(details_retention))
    }
}
