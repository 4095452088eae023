//! The store of the command line: DynamoDB's API, or the SQLite file of one machine.

#[cfg_attr(not(feature = "aws"), path = "no_tables.rs")]
pub mod tables;

use std::sync::Arc;

use serde_json::Value;
use triad_core::{Attention, Order, OrderId, Timestamp, WorkflowRef};
#[cfg(feature = "aws")]
use triad_dynamodb::DynamoStore;
use triad_ingress::OrderEndWaiters;
use triad_runtime::moving::{Keeping, KeptPage, MovingStore, StorePart, StoredItem};
use triad_runtime::ports::{
    AttentionPage, Lately, OperatorStore, OrderPage, SearchPage, StoredVersion, Tally,
};
use triad_runtime::system::SystemClock;
use triad_runtime::{
    ControlRecord, ControlStore, ControlWrite, Created, DefinitionStore, DuePage, NewOrder,
    OutputsOf, StateStore, StoreError, Write, Written,
};
use triad_sqlite::SqliteStore;
use triad_workflow::{DefinitionHash, SearchKey, WorkflowName};

/// Address of tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// The URL of a server with DynamoDB's API.
    Url(String),
    /// Tables in the AWS account of the current credentials.
    Aws {
        /// The region. `None`: that of the environment or of the profile.
        region: Option<String>,
    },
}

/// Either store, with the real clock. One type, so that commands and handlers are compiled once. Clones share the
/// store, and the requests that wait for the ends of its orders.
#[derive(Debug, Clone)]
pub struct Store {
    /// Where the records are.
    pub engine: Engine,
    /// The requests of this process that wait for the ends of orders.
    pub ends: OrderEndWaiters,
}

impl From<Engine> for Store {
    fn from(engine: Engine) -> Self {
        Self {
            engine,
            ends: OrderEndWaiters::default(),
        }
    }
}

/// Where records are.
#[derive(Debug, Clone)]
pub enum Engine {
    /// DynamoDB, or a server with its API.
    #[cfg(feature = "aws")]
    Dynamo(DynamoStore<SystemClock>),
    /// The SQLite file of one machine.
    Sqlite(SqliteStore<SystemClock>),
}

/// Calls a function with the store of an engine.
macro_rules! with_store {
    ($engine:expr, $store:ident => $call:expr) => {
        match $engine {
            #[cfg(feature = "aws")]
            Engine::Dynamo($store) => $call,
            Engine::Sqlite($store) => $call,
        }
    };
}

/// Delegates the calls of ports to the store.
macro_rules! ports {
    ($($port:ident {
        $(with $own:item)?
        $(fn $call:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*
    })*) => {$(
        impl $port for Store {
            $($own)?
            $(
            async fn $call(&self, $($argument: $type),*) -> $answer {
                with_store!(&self.engine, store => $port::$call(store, $($argument),*).await)
            }
        )*}
    )*};
}

type Each<T> = Vec<Result<T, StoreError>>;

ports! {
    StateStore {
        with async fn commit(&self, writes: Vec<Write>) -> Each<Written> {
            with_store!(&self.engine, store => self.ends.commit(store, writes).await)
        }
        fn create(orders: Vec<NewOrder>) -> Each<Created>;
        fn load(orders: Vec<OrderId>) -> Each<Option<Order>>;
        fn load_eventually(orders: Vec<OrderId>) -> Each<Option<Order>>;
        fn details(orders: Vec<OrderId>) -> Each<Option<Arc<Value>>>;
        fn outputs(wanted: Vec<OutputsOf>) -> Each<Vec<Arc<Value>>>;
        fn due(shard: u32, until: Timestamp, limit: u32, page: Option<String>) -> Result<DuePage, StoreError>;
        fn list(state: Option<String>, page: Option<String>) -> Result<OrderPage, StoreError>;
    }
    DefinitionStore {
        fn publish(definition: WorkflowRef, canonical_json: String) -> Result<(), StoreError>;
        fn current(name: WorkflowName) -> Result<Option<DefinitionHash>, StoreError>;
        fn definition(definition: WorkflowRef) -> Result<Option<String>, StoreError>;
    }
    ControlStore {
        fn read(key: String, consistent: bool) -> Result<Option<ControlRecord>, StoreError>;
        fn write(write: ControlWrite) -> Result<Written, StoreError>;
    }
    OperatorStore {
        fn attention(kind: Attention, shard: u32, page: Option<String>) -> Result<AttentionPage, StoreError>;
        fn search(key: SearchKey, index: usize, page: Option<String>) -> Result<SearchPage, StoreError>;
        fn tally(late: Timestamp) -> Result<Option<Tally>, StoreError>;
        fn lately(since: Timestamp) -> Result<Option<Lately>, StoreError>;
        fn versions() -> Result<Vec<StoredVersion>, StoreError>;
        fn remove(definition: WorkflowRef) -> Result<(), StoreError>;
    }
    MovingStore {
        fn kept(part: StorePart, page: Option<String>) -> Result<KeptPage, StoreError>;
        fn keep(items: Vec<StoredItem>, dry_run: bool) -> Each<Keeping>;
    }
}
