//! The tables of DynamoDB, or of a server with its API. No other module of the command line creates a client of it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use triad_dynamodb::{
    Client, DynamoStore, Endpoint, Tables as Names, Unreached, connect, create_tables, reach,
};
use triad_embedded::{Embedded, StartError};
use triad_runtime::StoreError;
use triad_runtime::system::SystemClock;
use triad_workflow::Millis;

use super::{Address, Engine as StoreEngine, Store};
use crate::origin::origin;

/// The tables of one installation, with a client for them. The tables may not exist yet.
#[derive(Debug, Clone)]
pub struct Tables {
    client: Client,
    names: Names,
}

impl Tables {
    /// The tables at an address, whose names begin with `prefix`, after its first answer.
    ///
    /// # Errors
    /// A text that names the address and the next step, if there is no answer within this time.
    pub async fn reached(address: Address, prefix: &str, within: Duration) -> anyhow::Result<Self> {
        let (place, next) = match &address {
            Address::Url(url) => (
                format!("at {url}{}", origin("dynamodb")),
                "is it running, and is this the address that triad dev prints?",
            ),
            Address::Aws { region } => {
                let region = region
                    .as_ref()
                    .map(|r| format!(" in {r}{}", origin("region")));
                (
                    format!("of AWS{}", region.unwrap_or_default()),
                    "are you logged in, is the region right, and does the network let you out?",
                )
            }
        };
        let endpoint = match address {
            Address::Url(url) => Endpoint::Url(url),
            Address::Aws { region } => {
                Endpoint::Aws(triad_bootstrap::Account::of_user().in_region(region))
            }
        };
        let asked = async {
            let (client, names) = (connect(endpoint).await, Names::with_prefix(prefix));
            reach(&client, &names, within).await?;
            Ok(Self { client, names })
        };
        let late = Unreached::NoAnswer(format!("no answer within {} s", within.as_secs()));
        let asked = tokio::time::timeout(within, asked).await;
        asked.unwrap_or(Err(late)).map_err(|why| {
            anyhow::anyhow!("DynamoDB {place} cannot be reached: {why}; {next} -v shows more")
        })
    }

    /// Creates the missing tables, and does not wait until they can be used.
    ///
    /// # Errors
    /// The [`StoreError`] of the first table that cannot be created; those before it stay.
    pub async fn make_missing(&self) -> Result<(), StoreError> {
        create_tables(&self.client, &self.names).await
    }

    /// Client and names, to examine the tables.
    #[must_use]
    pub fn parts(&self) -> (&Client, &Names) {
        (&self.client, &self.names)
    }

    /// The store over the tables. Finished orders are kept for `retention`, and order details for
    /// `details_retention`, or as long as their order where that is `None`.
    #[must_use]
    pub fn store(self, retention: Millis, details_retention: Option<Millis>) -> Store {
        let store = DynamoStore::new(self.client, self.names, SystemClock, retention);
        StoreEngine::Dynamo(store.keeping_details(details_retention)).into()
    }
}

/// Why the embedded engine of tables did not start.
#[derive(Debug)]
pub enum Unstarted {
    /// The port cannot be listened on.
    Listen(std::io::Error),
    /// The content of its directory cannot be used, or no tables can be created.
    Unusable(anyhow::Error),
}

/// The embedded engine, with its tables.
pub struct Engine(Embedded);

impl Engine {
    /// Starts the engine: in this data directory, or else in memory. `listen` is the address of DynamoDB's API; port
    /// 0 takes a free one.
    ///
    /// # Errors
    /// [`Unstarted`].
    pub async fn start(
        listen: SocketAddr,
        data: Option<&Path>,
    ) -> Result<(Self, Tables), Unstarted> {
        let embedded = Embedded::start(listen, data).map_err(|error| match error {
            StartError::Listen(source) => Unstarted::Listen(source),
            error => Unstarted::Unusable(error.into()),
        })?;
        let tables = Tables {
            client: connect(Endpoint::InProcess(embedded.http_client())).await,
            names: Names::with_prefix(""),
        };
        let made = tables.make_missing().await;
        made.map_err(|e| Unstarted::Unusable(e.into()))?;
        Ok((Self(embedded), tables))
    }

    /// Address of DynamoDB's API.
    pub fn addr(&self) -> SocketAddr {
        self.0.addr()
    }
}
