//! A server over a SQLite store in its own directory, a bus that the test controls, and a client that checks every
//! answer against the OpenAPI document.

pub mod client;
pub mod document;
pub mod ports;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use triad_core::{Order, OrderId, ProcessState, Version, WorkflowRef};
use triad_ingress::{OrderEndWaiters, Server, Settings};
use triad_operator::operations::{Local, Operations, Parts};
use triad_runtime::operator::Operator;
use triad_runtime::submission::Submission;
use triad_runtime::system::{SystemClock, SystemEntropy};
use triad_runtime::{Clock, DefinitionStore, StateStore, Write, Written};
use triad_sqlite::SqliteStore;
use triad_workflow::hash::canonical_json;
use triad_workflow::{Limits as WorkflowLimits, Millis, Workflow};

use crate::operators::console;
use client::{Client, Said};
use ports::{Faulty, Heard};

pub type Sqlite = SqliteStore<SystemClock>;

/// Limit of each wait.
pub const WITHIN: Duration = Duration::from_secs(30);

/// The parts from which a test's world is built.
pub struct Made {
    pub settings: Settings,
    pub handlers: triad_runtime::settings::Settings,
    pub ends: OrderEndWaiters,
}

impl Default for Made {
    fn default() -> Self {
        let mut settings = Settings::on(([127, 0, 0, 1], 0).into());
        // The server does not poll the store during a test, and notices changed files at once.
        settings.limits.look_every = Duration::from_secs(3_600);
        settings.limits.files_every = Duration::from_millis(5);
        Self {
            settings,
            handlers: triad_runtime::settings::Settings::default(),
            ends: OrderEndWaiters::default(),
        }
    }
}

pub struct World {
    pub store: Faulty<Sqlite>,
    pub sqlite: Sqlite,
    pub heard: Heard,
    pub ends: OrderEndWaiters,
    pub server: Option<Server>,
    pub client: Client,
    _dir: TempDir,
}

impl World {
    /// A server with four workflows: `w`; `strict`, whose details must have a number `n`; `waits`, whose second step waits
    /// for the event `paid`; and `later`, whose service may finish its work within an hour.
    pub async fn start() -> Self {
        Self::with(Made::default()).await
    }

    pub async fn with(made: Made) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let sqlite = SqliteStore::open(dir.path(), SystemClock, Millis(3_600_000)).unwrap();
        let step = json!([{"id": "a", "agent": "x", "action": "go", "compensation": "none"}]);
        publish(&sqlite, &json!({"workflow": "w", "steps": step})).await;
        let schema = json!({"type": "object", "required": ["n"],
            "properties": {"n": {"type": "integer"}}});
        let strict = json!({"workflow": "strict", "details_schema": schema, "steps": step});
        publish(&sqlite, &strict).await;
        let waits = json!({"workflow": "waits", "steps": [step[0],
            {"id": "b", "await": {"event": "paid", "within": "1h"}}]});
        publish(&sqlite, &waits).await;
        let mut later = json!({"workflow": "later", "steps": step});
        later["steps"][0]["finishes_later"] = json!({"within": "1h"});
        publish(&sqlite, &later).await;
        let store = Faulty::new(sqlite.clone());
        let heard = Heard::default();
        let bus = heard.clone();
        let mut settings = made.settings;
        settings.operations = Some(operations(&sqlite, &heard, &made.handlers));
        let submission = Submission::new(store.clone(), bus, SystemClock, made.handlers);
        let server = Server::start(
            settings,
            Arc::new(submission),
            store.clone(),
            made.ends.clone(),
        );
        let server = server.await.unwrap();
        let client = Client::to(server.address());
        Self {
            store,
            sqlite,
            heard,
            ends: made.ends,
            server: Some(server),
            client,
            _dir: dir,
        }
    }

    pub async fn stop(&mut self) {
        self.server.take().expect("it is stopped once").stop().await;
    }

    pub async fn submit(&self, id: &str) -> Said {
        self.client.post("/v1/orders", &order(id)).await
    }

    pub async fn get(&self, path: &str) -> Said {
        self.client.send("GET", path, &[], b"").await
    }

    pub async fn stored(&self, id: &str) -> Option<Order> {
        let mut found = self.sqlite.load(vec![OrderId::new(id).unwrap()]).await;
        found.pop().unwrap().unwrap()
    }

    /// The next version of an order.
    pub async fn next(&self, id: &str) -> Order {
        let mut order = self.stored(id).await.expect("it is stored");
        order.version = order.version.next();
        order
    }

    /// The version of an order with which it ends.
    pub async fn end_of(&self, id: &str) -> Order {
        let mut order = self.next(id).await;
        order.due = None;
        order.state = ProcessState::Processed {
            at: SystemClock.now(),
        };
        order
    }

    /// Writes a version as the handlers of the server's process do.
    pub async fn write(&self, next: Order, expected: Version) -> Written {
        let write = Write::silent(expected, Arc::new(next), 7);
        let written = self.ends.commit(&self.sqlite, vec![write]).await;
        written.into_iter().next().unwrap().unwrap()
    }

    /// Writes the end of an order as the handlers of the server's process do.
    pub async fn finish(&self, id: &str) {
        let before = self.stored(id).await.expect("it is stored").version;
        let end = self.end_of(id).await;
        assert_eq!(self.write(end, before).await, Written::Written);
    }

    /// Waits until this many requests wait for the end of an order.
    pub async fn waiting(&self, requests: usize) {
        until("requests wait", || self.ends.waiting() == requests).await;
    }

    /// Waits until an order is in the store; its request may not be answered yet.
    pub async fn until_stored(&self, id: &str) {
        let stored = async { while self.stored(id).await.is_none() {} };
        let stored = tokio::time::timeout(WITHIN, stored).await;
        stored.expect("it is stored");
    }

    /// Waits until the server's queue of orders is full.
    pub async fn full(&self) {
        let full = async {
            while self.get("/readyz").await.code() != "queue-full" {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(WITHIN, full)
            .await
            .expect("it is full");
    }
}

/// Waits until a condition holds.
pub async fn until(what: &str, holds: impl Fn() -> bool) {
    let held = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let held = tokio::time::timeout(WITHIN, held).await;
    assert!(held.is_ok(), "not in time: {what}");
}

pub fn order(id: &str) -> Value {
    json!({"order_id": id, "workflow": "w", "details": {"n": 1}})
}

/// What executes the events and cancellations of applications.
fn operations(
    store: &Sqlite,
    bus: &Heard,
    handlers: &triad_runtime::settings::Settings,
) -> Arc<dyn Operations> {
    let operator = Operator::new(
        store.clone(),
        bus.clone(),
        SystemClock,
        SystemEntropy,
        handlers.clone(),
    );
    let parts = Parts {
        store: store.clone(),
        bus: bus.clone(),
        clock: SystemClock,
        entropy: SystemEntropy,
        operator,
        topics: console::Heard::default(),
    };
    Arc::new(Local::new(parts, Default::default()))
}

async fn publish(store: &Sqlite, definition: &Value) {
    let definition = serde_json::from_value(definition.clone()).unwrap();
    let json = canonical_json(&definition);
    let workflow = Workflow::compile(definition, &WorkflowLimits::published()).unwrap();
    let named = WorkflowRef {
        name: workflow.name,
        hash: workflow.hash,
    };
    store.publish(named, json).await.unwrap();
}
