//! The disk that `/readyz` tries to write.

use futures::FutureExt;
use futures::future::BoxFuture;
use triad_broker::InProcessClient;
use triad_ingress::Writable;

use crate::store::Store;

/// The store's file and the broker's log.
#[derive(Debug)]
pub struct Disk {
    /// The store.
    pub store: Store,
    /// The client of the log.
    pub log: InProcessClient,
}

impl Writable for Disk {
    fn try_write(&self) -> BoxFuture<'_, Result<(), String>> {
        async {
            match &self.store {
                Store::Sqlite(store) => store.try_write().await.map_err(|e| e.to_string())?,
                #[cfg(feature = "aws")]
                Store::Dynamo(_) => {}
            }
            self.log.try_write().await.map_err(|e| e.to_string())
        }
        .boxed()
    }
}
