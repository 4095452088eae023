//! A bus and a store whose failures the test controls.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::sync::watch;
use triad_core::{Envelope, Order, OrderId, Timestamp, WorkflowRef};
use triad_runtime::ports::OrderPage;
use triad_runtime::{
    Bus, BusError, Created, DefinitionStore, DuePage, NewOrder, OutputsOf, StateStore, StoreError,
    Write, Written,
};
use triad_workflow::{DefinitionHash, WorkflowName};

/// A bus that keeps the sent messages, and delays or refuses acknowledgements as the test sets it.
#[derive(Debug, Clone)]
pub struct Heard {
    pub sent: Arc<Mutex<Vec<Envelope>>>,
    pub refuses: Arc<Mutex<Option<BusError>>>,
    is_open: watch::Sender<bool>,
}

impl Default for Heard {
    fn default() -> Self {
        Self {
            sent: Arc::default(),
            refuses: Arc::default(),
            is_open: watch::Sender::new(true),
        }
    }
}

impl Heard {
    /// Sets whether messages are acknowledged; if not, senders wait.
    pub fn open(&self, is_open: bool) {
        self.is_open.send_replace(is_open);
    }

    pub fn topics(&self) -> Vec<String> {
        let sent = self.sent.lock().unwrap();
        sent.iter().map(|message| message.topic.clone()).collect()
    }

    pub fn to(&self, topic: &str) -> Vec<Envelope> {
        let sent = self.sent.lock().unwrap();
        sent.iter().filter(|m| m.topic == topic).cloned().collect()
    }
}

impl Bus for Heard {
    async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
        let mut open = self.is_open.subscribe();
        open.wait_for(|open| *open).await.unwrap();
        if let Some(why) = self.refuses.lock().unwrap().clone() {
            return vec![Err(why); messages.len()];
        }
        let count = messages.len();
        self.sent.lock().unwrap().extend(messages);
        vec![Ok(()); count]
    }
}

/// A store that fails as the test sets it.
#[derive(Debug, Clone)]
pub struct Faulty<S> {
    inner: S,
    pub create: Arc<Mutex<Option<StoreError>>>,
    pub load: Arc<Mutex<Option<StoreError>>>,
    pub panics: Arc<Mutex<bool>>,
}

impl<S> Faulty<S> {
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            create: Arc::default(),
            load: Arc::default(),
            panics: Arc::default(),
        }
    }

    pub fn fail_create(&self, why: Option<StoreError>) {
        *self.create.lock().unwrap() = why;
    }

    pub fn fail_load(&self, why: Option<StoreError>) {
        *self.load.lock().unwrap() = why;
    }
}

impl<S: StateStore> StateStore for Faulty<S> {
    async fn create(&self, orders: Vec<NewOrder>) -> Vec<Result<Created, StoreError>> {
        assert!(!*self.panics.lock().unwrap(), "it is told to panic");
        if let Some(why) = self.create.lock().unwrap().clone() {
            return vec![Err(why); orders.len()];
        }
        self.inner.create(orders).await
    }
    async fn commit(&self, writes: Vec<Write>) -> Vec<Result<Written, StoreError>> {
        self.inner.commit(writes).await
    }
    async fn load(&self, orders: Vec<OrderId>) -> Vec<Result<Option<Order>, StoreError>> {
        if let Some(why) = self.load.lock().unwrap().clone() {
            return vec![Err(why); orders.len()];
        }
        self.inner.load(orders).await
    }
    async fn details(&self, orders: Vec<OrderId>) -> Vec<Result<Option<Arc<Value>>, StoreError>> {
        self.inner.details(orders).await
    }
    async fn outputs(&self, wanted: Vec<OutputsOf>) -> Vec<Result<Vec<Arc<Value>>, StoreError>> {
        self.inner.outputs(wanted).await
    }
    async fn due(
        &self,
        shard: u32,
        until: Timestamp,
        limit: u32,
        page: Option<String>,
    ) -> Result<DuePage, StoreError> {
        self.inner.due(shard, until, limit, page).await
    }
    async fn list(
        &self,
        state: Option<String>,
        page: Option<String>,
    ) -> Result<OrderPage, StoreError> {
        self.inner.list(state, page).await
    }
}

impl<S: DefinitionStore> DefinitionStore for Faulty<S> {
    async fn publish(&self, definition: WorkflowRef, json: String) -> Result<(), StoreError> {
        self.inner.publish(definition, json).await
    }
    async fn current(&self, name: WorkflowName) -> Result<Option<DefinitionHash>, StoreError> {
        self.inner.current(name).await
    }
    async fn definition(&self, definition: WorkflowRef) -> Result<Option<String>, StoreError> {
        self.inner.definition(definition).await
    }
}
