//! Execution of passes: for many orders at once, each phase one call of its port.

use triad_core::TraceContext;
use triad_core::invariants::Breach;
use triad_core::pass::{Pass, Task, WriteResult};

use crate::metric;
use crate::ports::{Bus, BusError, Clock, Entropy, StateStore, StoreError, Write, Written};
use crate::traces::{OpenSpan, Tracing};

/// Most waves of messages of a pass.
const MAX_WAVES: usize = 2;

/// A pass, and its errors.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) pass: Pass,
    /// The hop that caused it, if that was a message.
    pub(crate) cause: Option<TraceContext>,
    /// The span of its work, if tracing is on.
    pub(crate) span: Option<OpenSpan>,
    /// Why the write is not known to have succeeded.
    pub(crate) unwritten: Option<StoreError>,
    /// Why the order is not confirmed. Until it is, a sweep sends all its messages again, with the same ids.
    pub(crate) unconfirmed: Option<StoreError>,
    /// Why not everything was sent.
    pub(crate) unsent: Option<BusError>,
    /// The topics that refuse their messages.
    pub(crate) refused: Vec<String>,
}

impl Carried {
    pub(crate) fn new(pass: Pass) -> Self {
        Self {
            pass,
            cause: None,
            span: None,
            unwritten: None,
            unconfirmed: None,
            unsent: None,
            refused: Vec::new(),
        }
    }
}

/// Executes the writes, messages and confirmations of passes, until each has ended or must read.
pub(crate) async fn carry_out<S, B, C, E>(
    store: &S,
    bus: &B,
    entropy: &E,
    tracing: &Tracing<'_, C>,
    mut passes: Vec<&mut Carried>,
) where
    S: StateStore,
    B: Bus,
    C: Clock,
    E: Entropy,
{
    write(store, entropy, tracing, &mut passes).await;
    for _ in 0..MAX_WAVES {
        publish(bus, tracing, &mut passes).await;
    }
    confirm(store, entropy, tracing, &mut passes).await;
}

/// All decided writes in one call, each on its own condition.
async fn write<S: StateStore, C: Clock, E: Entropy>(
    store: &S,
    entropy: &E,
    tracing: &Tracing<'_, C>,
    passes: &mut [&mut Carried],
) {
    let mut writes = Vec::new();
    let mut writers = Vec::new();
    for carried in passes {
        if let Task::Write {
            expected,
            next,
            messages,
            due_if_unsent,
        } = carried.pass.task()
        {
            let cause = carried.cause;
            writes.push(Write {
                messages: messages
                    .iter()
                    .map(|m| m.clone().caused_by(cause))
                    .collect(),
                due_if_unsent,
                ..Write::silent(expected, next.clone(), entropy.next_u64())
            });
            writers.push(carried);
        }
    }
    if writes.is_empty() {
        return;
    }
    let began = tracing.now();
    for (carried, result) in writers.into_iter().zip(store.commit(writes).await) {
        if let (Some(span), Task::Write { next, messages, .. }) =
            (&carried.span, carried.pass.task())
        {
            tracing.wrote(span, began, next, &result);
            if result == Ok(Written::WithMessages) {
                for message in messages {
                    tracing.sent(Some(span), carried.cause, message, began, Ok(()));
                }
            }
        }
        let outcome = match result {
            Ok(Written::Written) => WriteResult::Written,
            Ok(Written::WithMessages) => WriteResult::WrittenWithMessages,
            Ok(Written::Conflict) => {
                metric::lost_a_race();
                WriteResult::Conflict
            }
            Err(e) => {
                carried.unwritten = Some(e);
                WriteResult::Unknown
            }
        };
        carried.pass.written(outcome);
    }
}

/// The next wave of every pass, in one call.
async fn publish<B: Bus, C: Clock>(bus: &B, tracing: &Tracing<'_, C>, passes: &mut [&mut Carried]) {
    let mut messages = Vec::new();
    let mut senders = Vec::new();
    for carried in passes {
        if let Task::Publish(wave) = carried.pass.task() {
            let cause = carried.cause;
            messages.extend(wave.iter().map(|m| m.clone().caused_by(cause)));
            let count = wave.len();
            senders.push((carried, count));
        }
    }
    if messages.is_empty() {
        return;
    }
    let began = tracing.now();
    let mut results = bus.publish(messages).await.into_iter();
    for (carried, count) in senders {
        // Takes all results of this pass, even after a failure.
        let own: Vec<_> = results.by_ref().take(count).collect();
        if let Task::Publish(wave) = carried.pass.task() {
            for (message, result) in wave.iter().zip(&own) {
                if result.as_ref().is_err_and(BusError::is_of_its_topic) {
                    carried.refused.push(message.topic.clone());
                }
                if let Some(span) = &carried.span {
                    let result = result.as_ref().copied();
                    tracing.sent(Some(span), carried.cause, message, began, result);
                }
            }
        }
        let failed: Vec<BusError> = own.into_iter().filter_map(Result::err).collect();
        carried.pass.published(failed.is_empty());
        carried.unsent = carried.unsent.take().or(failed.into_iter().next());
    }
}

/// Records that all messages are sent. A lost race or a failure is harmless: the order stays in the due index, and a
/// sweep confirms it.
async fn confirm<S: StateStore, C: Clock, E: Entropy>(
    store: &S,
    entropy: &E,
    tracing: &Tracing<'_, C>,
    passes: &mut [&mut Carried],
) {
    let mut writes = Vec::new();
    let mut writers = Vec::new();
    for carried in passes {
        if let Task::Confirm { expected, next } = carried.pass.task() {
            let token = entropy.next_u64();
            writes.push(Write::silent(expected, next.clone(), token));
            writers.push(carried);
        }
    }
    if writes.is_empty() {
        return;
    }
    let began = tracing.now();
    for (carried, result) in writers.into_iter().zip(store.commit(writes).await) {
        if let (Some(span), Task::Confirm { next, .. }) = (&carried.span, carried.pass.task()) {
            tracing.wrote(span, began, next, &result);
        }
        carried
            .pass
            .confirmed(result.as_ref().is_ok_and(|w| w.is_written()));
        carried.unconfirmed = result.err();
    }
}

/// Logs, as errors, invariants that do not hold.
pub(crate) fn report_breaches(breaches: &[Breach]) {
    for breach in breaches {
        metric::breached(breach.invariant);
        tracing::error!(
            invariant = breach.invariant,
            seen = breach.seen,
            "INVARIANT BREACH"
        );
    }
}
