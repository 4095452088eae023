//! The file that `/readyz` tries to write, and why it cannot.

use futures::FutureExt;
use futures::future::BoxFuture;
use triad_ingress::Writable;
use triad_runtime::StoreError;

use crate::store::{Engine, Store};

/// The store's file, which also has the topics.
#[derive(Debug)]
pub struct Disk(pub Store);

impl Writable for Disk {
    fn try_write(&self) -> BoxFuture<'_, Result<(), String>> {
        async {
            match &self.0.engine {
                Engine::Sqlite(store) => store.try_write().await.map_err(sentence),
                #[cfg(feature = "aws")]
                Engine::Dynamo(_) => Ok(()),
            }
        }
        .boxed()
    }
}

/// What to do about a write that failed, in one sentence.
pub fn sentence(error: StoreError) -> String {
    match error {
        // What follows says what to mend.
        StoreError::Configuration(why) => why,
        error => error.to_string(),
    }
}
