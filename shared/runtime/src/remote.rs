//! What an agent wraps: the trait with which a team writes its own.

use std::future::Future;
use std::pin::Pin;

use serde_json::Value;
use triad_core::{Direction, IdempotencyKey, OrderId};
use triad_workflow::{Millis, StepId};

/// One call to the remote service.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The order.
    pub order_id: &'a OrderId,
    /// The step.
    pub step: &'a StepId,
    /// Doing or undoing.
    pub direction: Direction,
    /// The same for every try of the same effect: the service must apply it once.
    pub idempotency_key: &'a IdempotencyKey,
    /// Of a compensation: the key of the effect that it compensates.
    pub undoes: Option<&'a IdempotencyKey>,
    /// What is to be done.
    pub action: &'a str,
    /// With what.
    pub input: &'a Value,
    /// Time left. The agent drops the call when it is over.
    pub time_left: Millis,
    /// Attempt, counted by the Scheduler, for logs.
    pub attempt: u32,
    /// W3C trace context, if the order has one.
    pub traceparent: Option<&'a str>,
}

/// What went wrong with a call: the service's wrapper classifies it, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// May pass: try again with the same key.
    Transient {
        /// Short and stable: `http-503`, `connect`.
        code: String,
        /// For a person.
        message: String,
        /// The service's own wish.
        retry_after: Option<Millis>,
        /// Whether the call may have had an effect: true unless it surely never arrived.
        maybe_applied: bool,
    },
    /// The service refused, and the call had no effect.
    Permanent {
        /// Short and stable: `out-of-stock`.
        code: String,
        /// For a person.
        message: String,
    },
}

/// A remote service, as its agent calls it.
///
/// An implementation makes exactly one call and does not retry: retry, backoff, deadline and
/// idempotency key are the agent's. It must be safe to drop the future at any moment.
pub trait RemoteService: Send + Sync + 'static {
    /// Calls the service once.
    ///
    /// # Errors
    /// [`Fault`], classified.
    fn call(&self, call: Call<'_>) -> impl Future<Output = Result<Value, Fault>> + Send;
}

/// [`RemoteService`] behind a pointer, so that one process can run agents of several kinds.
pub(crate) trait AnyRemote: Send + Sync + 'static {
    fn call<'a>(
        &'a self,
        call: Call<'a>,
    ) -> Pin<Box<dyn Future<Output = Result<Value, Fault>> + Send + 'a>>;
}

impl<T: RemoteService> AnyRemote for T {
    fn call<'a>(
        &'a self,
        call: Call<'a>,
    ) -> Pin<Box<dyn Future<Output = Result<Value, Fault>> + Send + 'a>> {
        Box::pin(RemoteService::call(self, call))
    }
}
