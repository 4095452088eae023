//! Submission's messages for each record, and their order.

use std::collections::{HashMap, HashSet};

use triad_core::status::Status;
use triad_core::submission::SubmissionRefusal;
use triad_core::{
    Accepted, Envelope, Failure, FailureKind, OrderId, Timestamp, TraceContext, render,
};

use super::Submission;
use super::submitted::Submitted;
use super::traced::Opened;
use crate::dead_letter::{Cause, dead_letter, shortened};
use crate::metric;
use crate::misconfigured::Misconfigured;
use crate::ports::{Bus, BusError, Clock, DefinitionStore, StateStore};
use crate::record::InputRecord;
use crate::traces::Tracing;

/// The recipient of an order's statuses: the order's id, and its reply topic.
pub(super) type Sender = (OrderId, Option<String>);

/// Messages of one record.
pub(super) struct ToSend {
    index: usize,
    messages: Messages,
}

/// Messages in waves: those of `first` are acknowledged before those of `then` are sent.
#[derive(Default)]
struct Messages {
    first: Vec<Envelope>,
    then: Vec<Envelope>,
    /// Sent last, and dropped if the bus refuses their topic: the letter and its alert have the same content, and the
    /// records behind in the partition do not need it.
    beside: Vec<Envelope>,
    /// The short form of the letter in `first`, for a topic with a smaller limit.
    short: Option<Envelope>,
    /// Whether the order is stored, and so in the due index: a sweep sends what cannot be sent now.
    is_stored: bool,
}

impl ToSend {
    /// The position of its record.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// The messages of a stored order. The status `received` goes first, so that the Scheduler's later statuses
    /// cannot overtake it; `None`: it is stored with the order. An order that is set aside is not announced yet.
    pub(super) fn stored(
        index: usize,
        received: Option<Envelope>,
        announcement: Option<Envelope>,
    ) -> Self {
        let messages = Messages {
            first: received.into_iter().collect(),
            then: announcement.into_iter().collect(),
            is_stored: true,
            ..Messages::default()
        };
        Self { index, messages }
    }

    /// The status `rejected` of an order without room.
    pub(super) fn rejected(index: usize, accepted: &Accepted, why: &str, now: Timestamp) -> Self {
        metric::rejected();
        tracing::warn!(order = %accepted.order_id, why, "order rejected");
        let cause = Failure::new(FailureKind::Transient, "too-many-in-flight", why);
        let trace = accepted.traceparent.as_deref();
        let status = render::not_accepted(
            (&accepted.order_id, accepted.reply_topic.as_deref()),
            trace.and_then(TraceContext::parse),
            Status::Rejected,
            cause,
            now,
        );
        let messages = Messages {
            first: vec![status],
            ..Messages::default()
        };
        Self { index, messages }
    }

    /// The dead letter of a record, its alert, and the status `rejected` or `conflict` for its application.
    pub(super) fn refused(
        index: usize,
        record: &InputRecord,
        refusal: &SubmissionRefusal,
        sender: Option<Sender>,
        now: Timestamp,
    ) -> Self {
        let cause = Cause::new(refusal.code(), refusal.to_string());
        let rejected = sender.map(|(id, topic)| {
            let cause = Failure::new(FailureKind::Permanent, cause.code, &cause.message);
            let status = match refusal {
                SubmissionRefusal::Conflict(_) => Status::Conflict,
                _ => Status::Rejected,
            };
            let sender = (&id, topic.as_deref());
            render::not_accepted(sender, record.trace(), status, cause, now)
        });
        // As in `dead_letter::send`: the alert after its letter is acknowledged.
        let [letter, alert] = dead_letter(record, &cause, now);
        let messages = Messages {
            short: shortened(&letter),
            first: vec![letter],
            then: vec![alert],
            beside: rejected.into_iter().collect(),
            is_stored: false,
        };
        Self { index, messages }
    }
}

impl<S, B, C> Submission<S, B, C>
where
    S: StateStore + DefinitionStore + Clone,
    B: Bus,
    C: Clock,
{
    /// Sends the messages of each record.
    pub(super) async fn send(
        &self,
        to_send: Vec<ToSend>,
        opened: &mut Opened,
        answers: &mut [Submitted],
    ) {
        opened.announced(to_send.iter().map(ToSend::index));
        let tracing = self.tracing();
        let (bus, misconfigured) = (&self.bus, &self.misconfigured);
        send(bus, to_send, misconfigured, &tracing, opened, answers).await;
    }
}

/// Sends all waves of all records; a record with an unsent message is redelivered.
async fn send<B: Bus, C: Clock>(
    bus: &B,
    to_send: Vec<ToSend>,
    misconfigured: &Misconfigured,
    tracing: &Tracing<'_, C>,
    opened: &Opened,
    answers: &mut [Submitted],
) {
    let publish = |messages| publish(bus, tracing, opened, messages);
    let mut first = Vec::new();
    let mut then = Vec::new();
    let mut beside = Vec::new();
    let mut short = HashMap::new();
    let mut stored = HashSet::new();
    for item in to_send {
        if item.messages.is_stored {
            stored.insert(item.index);
        }
        short.extend(item.messages.short.map(|m| (item.index, m)));
        first.extend(item.messages.first.into_iter().map(|m| (item.index, m)));
        then.extend(item.messages.then.into_iter().map(|m| (item.index, m)));
        beside.extend(item.messages.beside.into_iter().map(|m| (item.index, m)));
    }
    let mut cut = Vec::new();
    let mut left = HashSet::new();
    for (index, why) in publish(first).await {
        match (&why, short.remove(&index)) {
            (BusError::TooLarge(_), Some(letter)) => cut.push((index, letter)),
            // The records behind in the partition do not need this order's reply topic. The sweep sends `received`
            // before it announces the order.
            (why, _) if stored.contains(&index) && why.needs_an_operator() => {
                tracing::warn!(error = %why, "the status `received` of an order is not sent yet: a sweep sends it");
                misconfigured.note_bus(why);
                left.insert(index);
            }
            _ => answers[index] = why.into(),
        }
    }
    for (index, why) in publish(cut).await {
        answers[index] = why.into();
    }
    then.retain(|(index, _)| answers[*index].is_done() && !left.contains(index));
    for (index, why) in publish(then).await {
        match why {
            // The sweep's wake for the order is small.
            BusError::TooLarge(_) if stored.contains(&index) => {
                tracing::error!(error = %why, "a stored order is not announced yet: a sweep announces it");
                misconfigured.note_bus(&why);
            }
            why => answers[index] = why.into(),
        }
    }
    beside.retain(|(index, _)| answers[*index].is_done());
    for (index, why) in publish(beside).await {
        match why {
            BusError::Permanent(_) => {
                tracing::warn!(error = %why, "the status `rejected` of a refused record could not be sent");
                misconfigured.note_bus(&why);
            }
            why => answers[index] = why.into(),
        }
    }
}

/// Sends messages; returns those that were not acknowledged, and why.
async fn publish<B: Bus, C: Clock>(
    bus: &B,
    tracing: &Tracing<'_, C>,
    opened: &Opened,
    messages: Vec<(usize, Envelope)>,
) -> Vec<(usize, BusError)> {
    if messages.is_empty() {
        return Vec::new();
    }
    let (owners, messages): (Vec<usize>, Vec<Envelope>) = messages.into_iter().unzip();
    let outlines = tracing.outlines(&messages);
    let began = tracing.now();
    let results = bus.publish(messages).await;
    for ((outline, result), index) in outlines.iter().zip(&results).zip(&owners) {
        let result = result.as_ref().copied();
        tracing.sent(opened.of(*index), None, outline, began, result);
    }
    let failed = owners.into_iter().zip(results);
    failed
        .filter_map(|(index, result)| Some((index, result.err()?)))
        .collect()
}
