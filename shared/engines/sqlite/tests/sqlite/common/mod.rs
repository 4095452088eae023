//! Fixtures of the tests of the store: a clock that the test moves, and orders.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use triad_core::{Accepted, Order, OrderId, Priority, Timestamp, WorkflowRef};
use triad_runtime::{Clock, NewOrder};
use triad_sim::contract::TimedStore;
use triad_sqlite::SqliteStore;
use triad_workflow::{Limits, Millis, Workflow};

/// A clock that only the test moves. Copies share the time.
#[derive(Debug, Clone)]
pub struct Hand(Arc<AtomicU64>);

impl Hand {
    pub fn at(now: u64) -> Self {
        Self(Arc::new(AtomicU64::new(now)))
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
    async fn sleep(&self, _span: Millis) {}
}

pub fn id(text: &str) -> OrderId {
    OrderId::new(text).unwrap()
}

pub fn new(text: &str) -> NewOrder {
    let definition = json!({"workflow": "w",
        "steps": [{"id": "a", "agent": "x", "action": "go", "compensation": "none"}]});
    let definition = serde_json::from_value(definition).unwrap();
    let workflow = Workflow::compile(definition, &Limits::published()).unwrap();
    let accepted = Accepted {
        order_id: id(text),
        workflow: WorkflowRef {
            name: workflow.name.clone(),
            hash: workflow.hash.clone(),
        },
        priority: Priority::Normal,
        reply_topic: None,
        traceparent: None,
        submitted_at: Timestamp(1),
        due: Timestamp(5_000),
        start_at: None,
        deadline: None,
        search: Vec::new(),
        parent: None,
        details: json!({}),
    };
    NewOrder {
        order: Order::new(&accepted, &workflow, accepted.due),
        details: Arc::new(json!({"n": 1})),
        digest: "d".into(),
        messages: Vec::new(),
    }
}

/// A store, and the clock that the test moves.
pub struct Timed(pub SqliteStore<Hand>, pub Hand);

impl Timed {
    /// Start of the clock: the year 2100, far from the machine's time.
    pub const FROM: u64 = 4_102_444_800_000;
}

impl TimedStore for Timed {
    type Store = SqliteStore<Hand>;

    fn keeping(&self, retention: Millis) -> Self::Store {
        self.0.keeping(retention, self.1.clone())
    }

    fn now(&self) -> Timestamp {
        self.1.now()
    }

    async fn pass(&self, span: Millis) {
        self.1.0.fetch_add(span.0, Ordering::SeqCst);
    }
}
