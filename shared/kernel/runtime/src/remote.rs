//! The remote service of an agent: the trait that a team implements.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use triad_core::{Direction, IdempotencyKey, OrderId};
use triad_workflow::service::CallDefinition;
use triad_workflow::{Millis, StepId};

use crate::traces::{Attribute, AttributeValue};

/// Most notes of one call; further ones are dropped.
const MAX_NOTES: usize = 16;

/// Notes of a [`RemoteService`] implementation about one call, for the call's span: its destination and its status.
/// Do not note payloads or the values of headers.
#[derive(Debug, Default)]
pub struct CallNotes {
    notes: Mutex<Vec<Attribute>>,
    is_read: bool,
}

impl CallNotes {
    /// Notes that a span will read; those of [`CallNotes::default`] are dropped.
    pub(crate) fn read() -> Self {
        Self {
            is_read: true,
            ..Self::default()
        }
    }

    /// Whether a span will read the notes. If not, [`note`](Self::note) does nothing.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.is_read
    }

    /// Notes one value, under a name of OpenTelemetry's semantic conventions. At most 16 are kept; further
    /// ones are ignored.
    pub fn note(&self, name: &'static str, value: impl Into<AttributeValue>) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_read && notes.len() < MAX_NOTES {
            notes.push((name, value.into()));
        }
    }

    /// Takes all notes.
    pub(crate) fn take(&self) -> Vec<Attribute> {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *notes)
    }
}

/// One call to the remote service: what to do, for which order, under which key and within which time.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The order that the call is for.
    pub order_id: &'a OrderId,
    /// The step of the order's workflow that the call is for.
    pub step: &'a StepId,
    /// Whether to do the step, to compensate it, or to ask whether its effect happened.
    pub direction: Direction,
    /// The key of the effect. It is the same for every call and attempt that is for the same effect, and
    /// the service must apply the effect only once.
    pub idempotency_key: &'a IdempotencyKey,
    /// For a compensation: the idempotency key of the effect to compensate. `None` otherwise.
    pub compensates: Option<&'a IdempotencyKey>,
    /// The action that the workflow names for the step.
    pub action: &'a str,
    /// The action's input: the workflow's expressions, evaluated for this order.
    pub input: &'a Value,
    /// How the action is called, from the description of its service; `None` if it has none.
    pub form: Option<&'a CallDefinition>,
    /// Whether an earlier call under this key may have reached the service, and may still be worked on.
    pub repeats: bool,
    /// The token by which the service may call back once it has finished; `None` if it has to finish at once. Of a
    /// probe: the call asks whether work is finished that the service has taken.
    pub callback: Option<&'a str>,
    /// Where the service is asked, as path and query at its own address, in place of an action.
    pub location: Option<&'a str>,
    /// Milliseconds until the agent drops the call's future. A service should not work on after
    /// that.
    pub time_left: Millis,
    /// Number of the attempt, counted by the Scheduler from 1. For logs: an attempt may make
    /// several calls.
    pub attempt: u32,
    /// W3C trace context of this call, for the header `traceparent`; `None` if the order belongs to no trace.
    pub traceparent: Option<&'a str>,
}

/// Why a call has not succeeded. Only the implementation of [`RemoteService`] classifies the failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// A transient failure: the agent tries again with the same key, while time and allowance last.
    Transient {
        /// A short, stable word for the kind of failure, such as `http-503` or `connect`.
        code: String,
        /// The failure in words, for people.
        message: String,
        /// The least time until the next try, if the service has asked for one (HTTP
        /// `Retry-After`), in milliseconds.
        retry_after: Option<Millis>,
        /// Whether the call may have had its effect. True unless it is certain that it never
        /// reached the service.
        maybe_applied: bool,
    },
    /// The service works on it: it has taken the work and finishes it later ([`Call::callback`]), or it is still working
    /// on an earlier call under this key. In the second case the work is deferred and asked for again under the same
    /// key; it does not count as failed.
    InProgress {
        /// A short, stable word, such as `http-409`.
        code: String,
        /// The answer in words, for people.
        message: String,
        /// The least time until the next try, if the service has asked for one, in milliseconds.
        retry_after: Option<Millis>,
        /// What it answered; null if that is nothing.
        output: Value,
        /// Where it wants to be asked, as path and query at its own address; `None` if it named nothing.
        location: Option<String>,
    },
    /// The service refused, and the call had no effect. The agent does not try again.
    Permanent {
        /// A short, stable word for the refusal, such as `out-of-stock`.
        code: String,
        /// The refusal in words, for people.
        message: String,
    },
    /// The service does not accept the caller: its credentials have expired, a right is missing, or the address
    /// belongs to another service. The order is not the cause: the circuit breaker opens, operators get an alert, and
    /// the work is deferred without counting as failed.
    CallerRefused {
        /// A short, stable word for the refusal, such as `http-401`.
        code: String,
        /// The refusal in words, for people.
        message: String,
        /// Whether the call may have had its effect, such as one that was answered with a redirect.
        maybe_applied: bool,
    },
}

impl Call<'_> {
    /// Whether the call asks for the end of work that the service has taken.
    #[must_use]
    pub fn is_poll(&self) -> bool {
        self.direction == Direction::Probe && self.callback.is_some()
    }
}

impl Fault {
    /// The short, stable word for the fault.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Transient { code, .. }
            | Self::InProgress { code, .. }
            | Self::Permanent { code, .. }
            | Self::CallerRefused { code, .. } => code,
        }
    }

    /// The cause, for people.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::Transient { message, .. }
            | Self::InProgress { message, .. }
            | Self::Permanent { message, .. }
            | Self::CallerRefused { message, .. } => message,
        }
    }
}

/// A remote service, as its agent calls it.
///
/// An implementation makes exactly one call and does not retry: the agent handles retries, backoff, deadline and
/// idempotency key. The agent may drop the future at any moment, and the implementation must tolerate that.
pub trait RemoteService: Send + Sync + 'static {
    /// Calls the service once and returns its output.
    ///
    /// # Errors
    /// [`Fault::Transient`] if another try may succeed, [`Fault::InProgress`] if an earlier one is being worked on,
    /// [`Fault::Permanent`] if the service refused, [`Fault::CallerRefused`] if it does not accept the caller.
    fn call(&self, call: Call<'_>) -> impl Future<Output = Result<Value, Fault>> + Send;

    /// Calls the service as [`call`](Self::call) does, and adds notes for the call's span. An agent calls this
    /// method; the default implementation only makes the call and adds no notes.
    ///
    /// # Errors
    /// [`Fault::Transient`] if another try may succeed, [`Fault::InProgress`] if an earlier one is being worked on,
    /// [`Fault::Permanent`] if the service refused, [`Fault::CallerRefused`] if it does not accept the caller.
    fn call_noting(
        &self,
        call: Call<'_>,
        _notes: &CallNotes,
    ) -> impl Future<Output = Result<Value, Fault>> + Send {
        self.call(call)
    }
}

/// [`RemoteService`] behind a pointer, so that one process can run agents of several kinds.
pub(crate) trait AnyRemote: Send + Sync + 'static {
    fn call<'a>(
        &'a self,
        call: Call<'a>,
        notes: &'a CallNotes,
    ) -> Pin<Box<dyn Future<Output = Result<Value, Fault>> + Send + 'a>>;
}

impl<T: RemoteService> AnyRemote for T {
    fn call<'a>(
        &'a self,
        call: Call<'a>,
        notes: &'a CallNotes,
    ) -> Pin<Box<dyn Future<Output = Result<Value, Fault>> + Send + 'a>> {
        Box::pin(RemoteService::call_noting(self, call, notes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_one_call_16_notes_are_kept_if_somebody_reads_them() {
        let notes = CallNotes::read();
        (0..20).for_each(|n: i64| notes.note("n", n));
        let kept = notes.take();
        assert_eq!(kept.len(), 16);
        assert_eq!(kept.last(), Some(&("n", AttributeValue::Number(15))));
        let unread = CallNotes::default();
        unread.note("n", 1);
        assert_eq!(unread.take(), []);
    }
}
