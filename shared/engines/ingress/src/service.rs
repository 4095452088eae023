//! The state that requests of applications share, and what they do with it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use http::request::Parts;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use triad_console::request::{InPath, in_path, media};
use triad_console::tokens::Role;
use triad_console::{Answer, Body, Hidden, answer};
use triad_core::{OrderId, Timing};
use triad_operator::operations::{Operations, Problem};
use triad_runtime::StateStore;

use crate::forms::{GetQuery, SubmitQuery, query, wait};
use crate::front::Front;
use crate::order_end_waiters::OrderEndWaiters;
use crate::problem::with_next;
use crate::queue::Queue;
use crate::ready::Writable;

/// How long a successful readiness check is cached.
const READY_FOR: Duration = Duration::from_secs(1);

/// State that all requests share.
pub(crate) struct Service<S> {
    pub(crate) store: S,
    pub(crate) queue: Queue,
    pub(crate) ends: OrderEndWaiters,
    pub(crate) front: Arc<Front>,
    pub(crate) timing: Timing,
    /// The fields of payloads whose values are not shown.
    pub(crate) hidden: Hidden,
    /// Executes what applications do to their orders.
    pub(crate) operations: Option<Arc<dyn Operations>>,
    /// Concurrent ones; further ones wait.
    pub(crate) turns: Semaphore,
    /// Storage that every order needs.
    pub(crate) written: Vec<Arc<dyn Writable>>,
    /// Time of the last successful readiness check.
    pub(crate) ready_at: Mutex<Option<Instant>>,
}

pub(crate) type Shared<S> = State<Arc<Service<S>>>;

pub(crate) fn answered(made: Result<Answer, Problem>) -> Answer {
    made.unwrap_or_else(|problem| answer::problem(&with_next(problem)))
}

/// The order that a path names.
pub(crate) fn named(head: &Parts, id: InPath) -> Result<OrderId, Problem> {
    let bad = |why| Problem::bad("bad-order-id", why);
    let fields = in_path(&head.uri, id).map_err(|problem| bad(problem.detail.into_owned()))?;
    let id = fields.iter().next().map(|(_, id)| id).unwrap_or_default();
    OrderId::new(id).map_err(|e| bad(e.to_string()))
}

impl<S: StateStore> Service<S> {
    /// Takes an order, or a batch.
    pub(crate) async fn take(&self, head: &Parts, body: Body) -> Result<Answer, Problem> {
        self.front.access.check(head, Role::Submit)?;
        let query: SubmitQuery = query(&head.uri)?;
        let wait = wait(query.wait.as_deref(), self.front.limits.wait)?;
        let known = [
            "application/json",
            "application/x-ndjson",
            "application/jsonl",
        ];
        match media(&head.headers, &known)? {
            "application/json" => self.submit(wait, query.priority, &head.headers, body).await,
            _ if wait.is_some() => {
                let text = "?wait is not allowed for a batch; query each order with GET /v1/orders/{id}?wait";
                Err(Problem::bad("bad-query", text))
            }
            _ => self.submit_batch(query.priority, &head.headers, body).await,
        }
    }

    /// Shows an order.
    pub(crate) async fn show(&self, head: &Parts, id: InPath) -> Result<Answer, Problem> {
        self.front.access.check(head, Role::Read)?;
        let query: GetQuery = query(&head.uri)?;
        let wait = wait(query.wait.as_deref(), self.front.limits.wait)?;
        self.get(&named(head, id)?, wait).await
    }

    /// Whether orders can be accepted: the server is not stopping, the store answers, and every storage can be
    /// written. A success is cached for a second.
    pub(crate) async fn is_ready(&self) -> Result<(), Problem> {
        if self.front.stopping.is_cancelled() {
            return Err(Problem::later("stopping", "the server is stopping", 5));
        }
        if !self.queue.has_room() {
            let text = "too many orders wait to be stored";
            return Err(Problem::later("queue-full", text, 1));
        }
        let last = *self.ready_at();
        if last.is_some_and(|at| at.elapsed() < READY_FOR) {
            return Ok(());
        }
        // Any id: only the store's answer counts, not the order.
        let any = OrderId::new("readyz").map_err(|e| Problem::internal(e.to_string()))?;
        self.load(&any).await?;
        for each in &self.written {
            let written = each.try_write().await;
            written.map_err(|why| Problem::later("not-writable", why, 5))?;
        }
        *self.ready_at() = Some(Instant::now());
        Ok(())
    }

    fn ready_at(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.ready_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
