//! The file that `/readyz` tries to write.

use futures::FutureExt;
use futures::future::BoxFuture;
use triad_ingress::Writable;

use crate::store::{Engine, Store};

/// The store's file, which also has the topics.
#[derive(Debug)]
pub struct Disk(pub Store);

impl Writable for Disk {
    fn try_write(&self) -> BoxFuture<'_, Result<(), String>> {
        async {
            match &self.0.engine {
                Engine::Sqlite(store) => store.try_write().await.map_err(|e| e.to_string()),
                #[cfg(feature = "aws")]
                Engine::Dynamo(_) => Ok(()),
            }
        }
        .boxed()
    }
}
