//! Replaces `tables` in a build without the feature `aws`; no value of its types can exist.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use triad_runtime::StoreError;
use triad_workflow::Millis;

use super::{Address, Store};
use crate::output::Usage;

fn not_built(what: &str) -> Usage {
    Usage(format!(
        "{what}: this program was built without DynamoDB; build it with --features aws"
    ))
}

/// Uninhabited.
#[derive(Debug)]
pub enum Tables {}

impl Tables {
    /// # Errors
    /// Always, saying which feature is missing.
    pub async fn reached(at: Address, _prefix: &str, _within: Duration) -> anyhow::Result<Self> {
        let option = match at {
            Address::Url(_) => "--dynamodb",
            Address::Aws { .. } => "--aws",
        };
        Err(not_built(option).into())
    }

    pub async fn make_missing(&self) -> Result<(), StoreError> {
        match *self {}
    }

    pub fn store(self, _retention: Millis, _details_retention: Option<Millis>) -> Store {
        match self {}
    }
}

/// Uninhabited.
pub enum Engine {}

impl Engine {
    /// # Errors
    /// Always, saying which feature is missing.
    pub async fn start(_: SocketAddr, _: Option<&Path>) -> Result<(Self, Tables), Usage> {
        Err(not_built(
            "--store dynamodb, --dynamodb-port and --external-agent need tables",
        ))
    }

    pub fn addr(&self) -> SocketAddr {
        match *self {}
    }
}
