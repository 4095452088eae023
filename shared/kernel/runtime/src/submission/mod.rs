//! Submission: takes order events, stores order and process record, announces the order.

mod capacity;
mod outgoing;
mod refused;
mod submitted;
mod traced;

use std::sync::Arc;

use serde_json::Value;
use triad_core::submission::{Submission as OrderEvent, SubmissionRefusal};
use triad_core::{Accepted, Order, OrderId, Priority, Timestamp, Timing, render, topics};
use triad_workflow::{Millis, Workflow};

use crate::admission::{AdmissionGate, InFlightGuard};
use crate::backlog::Backlog;
use crate::definitions::Definitions;
use crate::handled::{Handled, Redelivery};
use crate::metric;
use crate::misconfigured::Misconfigured;
use crate::ports::{Bus, Clock, Created, DefinitionStore, NewOrder, StateStore, StoreError};
use crate::record::InputRecord;
use crate::settings::Settings;
use crate::waves::{HeldKeys, waves};
use outgoing::ToSend;
pub use submitted::Submitted;
use traced::Opened;

/// Name of this handler in alerts and metrics.
const HANDLER: &str = "submission";

/// The Submission handler: it takes orders from the topics `orders` and `orders.high` or directly from callers,
/// stores each with its process record, and announces it to the Scheduler. A record of a topic that is not a valid
/// order becomes a dead letter.
///
/// `S` is the store, `B` the bus, `C` the clock.
#[derive(Debug)]
pub struct Submission<S, B, C> {
    store: S,
    bus: B,
    clock: C,
    definitions: Definitions<S>,
    gate: AdmissionGate,
    backlog: Backlog,
    misconfigured: Misconfigured,
    settings: Settings,
}

/// Origin of an order, which decides how refusals are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A topic: a refused record becomes a dead letter, and one without room waits in its partition.
    Topic,
    /// A caller that waits for the answer, which reports everything.
    Caller,
}

/// An order that may be stored.
struct Admitted {
    index: usize,
    /// When its record was produced, or now if the record has no time.
    produced: Timestamp,
    accepted: Accepted,
    /// `None`: this process cannot read the definition. The order is set aside for another process.
    workflow: Option<Arc<Workflow>>,
    details: Arc<Value>,
    digest: String,
    /// Only its workflow's cap has no room for it, or its definition cannot be read: it is stored without an
    /// announcement.
    set_aside: bool,
    /// Its place among the orders in flight, if there is a cap.
    place: Option<InFlightGuard>,
}

impl Admitted {
    /// The order's first process record.
    fn record(&self) -> Order {
        let Some(workflow) = &self.workflow else {
            return Order::unread(&self.accepted);
        };
        let order = Order::new(&self.accepted, workflow, self.accepted.due);
        match self.set_aside {
            true => order.aside(),
            false => order,
        }
    }
}

impl<S, B, C> Submission<S, B, C>
where
    S: StateStore + DefinitionStore + Clone,
    B: Bus,
    C: Clock,
{
    /// A handler over its ports. It remembers about [`Settings::unstarted`] orders in each lane, four times as many
    /// at most, to know how many of them no Scheduler has claimed yet. Nothing is read or written yet.
    pub fn new(store: S, bus: B, clock: C, settings: Settings) -> Self {
        Self {
            definitions: Definitions::new(store.clone(), settings.refresh_definitions),
            gate: AdmissionGate::new(settings.admission.clone()),
            backlog: Backlog::new(settings.unstarted),
            misconfigured: Misconfigured::new(HANDLER),
            store,
            bus,
            clock,
            settings,
        }
    }

    /// Handles a batch; the answer has one entry for each record, in their order.
    ///
    /// [`Handled::Done`]: the order is stored and announced, or was before, or the record was dead-lettered or
    /// rejected. If there is no room for the first order of a batch, the handler checks again for up to about a
    /// second. An order without room is then answered with [`Redelivery::NoRoom`], and so are the orders after it. A
    /// bus that fails, and a store that fails with [`StoreError::Transient`] or [`StoreError::Configuration`], lead
    /// to [`Handled::Redeliver`].
    pub async fn handle(&self, records: &[InputRecord]) -> Vec<Handled> {
        let answers = self.take(records, Source::Topic).await;
        answers.into_iter().map(Handled::from).collect()
    }

    /// Takes orders of callers that wait for the answer, by the rules of [`handle`](Self::handle); the answer
    /// has one entry for each, in their order. Of a record only topic, value, time and the header
    /// `traceparent` are read.
    ///
    /// Only the answer reports a refusal: no dead letter, alert or status is written. Room is checked once; an order
    /// without room is answered with [`Submitted::Later`] and does not block the others.
    pub async fn submit(&self, records: &[InputRecord]) -> Vec<Submitted> {
        self.take(records, Source::Caller).await
    }

    async fn take(&self, records: &[InputRecord], source: Source) -> Vec<Submitted> {
        metric::taken_up(HANDLER, records, self.clock.now());
        let answers = self.take_all(records, source).await;
        for answer in &answers {
            if let Submitted::Later(why) = answer {
                metric::redelivered(HANDLER, why);
                self.misconfigured.note_why(why);
            }
        }
        self.misconfigured
            .publish_alert(&self.bus, &self.clock)
            .await;
        answers
    }

    async fn take_all(&self, records: &[InputRecord], source: Source) -> Vec<Submitted> {
        let mut answers = Vec::with_capacity(records.len());
        let mut opened = self.opened(records);
        let mut admitted: Vec<(OrderId, Admitted)> = Vec::new();
        // Orders whose earlier record could not be checked against the definitions for now: a later record with other
        // content must not be stored before it.
        let mut waiting = HeldKeys::new();
        for (index, record) in records.iter().enumerate() {
            answers.push(match self.admit(index, record).await {
                Ok(Ok(order)) if waiting.holds(&order.accepted.order_id) => {
                    Submitted::Later(Redelivery::Behind)
                }
                Ok(Ok(order)) => {
                    let id = order.accepted.order_id.clone();
                    opened.admitted(&order);
                    admitted.push((id.clone(), order));
                    Submitted::Accepted(id)
                }
                Ok(Err(refusal)) => Submitted::Refused(refusal),
                Err((id, e)) => {
                    waiting.hold(&id);
                    e.into()
                }
            });
        }
        if source == Source::Topic {
            let letters = self.refuse(records, &admitted, &mut answers).await;
            self.send(letters, &mut opened, &mut answers).await;
        }
        let mut held = HeldKeys::new();
        for wave in waves(admitted) {
            let wave: Vec<Admitted> = wave
                .into_iter()
                .filter(|(id, order)| {
                    if held.holds(id) {
                        answers[order.index] =
                            Submitted::Later(Redelivery::NoRoom("an earlier order waits".into()));
                    }
                    !held.holds(id)
                })
                .map(|(_, order)| order)
                .collect();
            let members: Vec<_> = wave
                .iter()
                .map(|o| (o.index, o.accepted.order_id.clone()))
                .collect();
            let (wave, rejected) = self.let_in(source, wave, &mut answers).await;
            let stored = self.store_wave(source, records, wave, &opened, &mut answers);
            let mut to_send = stored.await;
            to_send.extend(rejected);
            self.send(to_send, &mut opened, &mut answers).await;
            for (index, id) in members {
                if !answers[index].is_done() {
                    held.hold(&id);
                }
            }
        }
        self.end_spans(source, records, &opened, &answers);
        answers
    }

    /// Decodes a record and checks it against the definitions and the allow-list. Returns an error only if the
    /// store fails, with the order's id.
    async fn admit(
        &self,
        index: usize,
        record: &InputRecord,
    ) -> Result<Result<Admitted, SubmissionRefusal>, (OrderId, StoreError)> {
        let event = match OrderEvent::decode(record.value.as_deref()) {
            Ok(event) => event,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if let Some(topic) = &event.reply_topic
            && !(topics::is_reply_topic(topic) && self.settings.reply_topics.contains(topic))
        {
            return Ok(Err(SubmissionRefusal::ReplyTopic(topic.clone())));
        }
        let now = self.clock.now();
        let pinned = match self.definitions.current(&event.workflow, now).await {
            Ok(Some(pinned)) => pinned,
            Ok(None) => {
                return Ok(Err(SubmissionRefusal::UnknownWorkflow(
                    event.workflow.to_string(),
                )));
            }
            // The definition cannot be read, and there is no version of the workflow for which the order could wait.
            Err(StoreError::Item(why)) => return Ok(Err(SubmissionRefusal::Unstorable(why))),
            Err(e) => return Err((event.order_id, e)),
        };
        let workflow = match self.definitions.pinned(&pinned, now).await {
            Ok(workflow) => Some(workflow),
            // A newer version of Triad may have published it: orders of other workflows do not need it.
            Err(StoreError::Item(why)) => {
                tracing::warn!(order = %event.order_id, why, "an order is set aside until its definition can be read");
                None
            }
            Err(e) => return Err((event.order_id, e)),
        };
        let priority = if record.topic == topics::ORDERS_HIGH {
            Priority::High
        } else {
            Priority::Normal
        };
        let details = Value::Object(event.details.clone());
        if let Some(schema) = workflow.as_ref().and_then(|w| w.details.as_ref()) {
            // A definition whose schema cannot be used is unreadable.
            let misfits = schema.misfits(&details).unwrap_or_default();
            // An order that was let in before, under another version of its workflow, keeps its place.
            if !misfits.is_empty() {
                match self.is_stored(&event.order_id).await {
                    Ok(true) => {}
                    Ok(false) => {
                        let misfits: Vec<String> =
                            misfits.iter().map(ToString::to_string).collect();
                        return Ok(Err(SubmissionRefusal::Details {
                            workflow: pinned.name.to_string(),
                            misfits: misfits.join("; "),
                        }));
                    }
                    Err(e) => return Err((event.order_id, e)),
                }
            }
        }
        let digest = event.digest(priority);
        let soon = first_due(workflow.as_deref(), &self.settings.timing);
        let start_at = match event.starts_later(now) {
            Ok(start_at) => start_at,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let deadline = event.deadline(workflow.as_deref(), start_at.unwrap_or(now));
        let traces = &self.settings.traces;
        let trace = traces.of_submission(&event.order_id, record.trace());
        let due = start_at.unwrap_or_else(|| now.plus(soon));
        let search = workflow.as_ref().map(|w| w.search.of(&details));
        let accepted = Accepted {
            order_id: event.order_id,
            workflow: pinned,
            priority,
            reply_topic: event.reply_topic,
            traceparent: trace.map(|trace| trace.to_string()),
            submitted_at: now,
            start_at,
            due: deadline.map_or(due, |at| at.min(due)),
            deadline,
            search: search.unwrap_or_default(),
            parent: None,
            details: details.clone(),
        };
        let produced = u64::try_from(record.timestamp_ms).map_or(now, Timestamp);
        Ok(Ok(Admitted {
            index,
            produced,
            accepted,
            workflow,
            details: Arc::new(details),
            digest,
            set_aside: false,
            place: None,
        }))
    }

    async fn is_stored(&self, order: &OrderId) -> Result<bool, StoreError> {
        let mut found = self.store.load(vec![order.clone()]).await;
        Ok(found.pop().transpose()?.flatten().is_some())
    }

    /// Stores one wave of orders; returns the messages for each.
    async fn store_wave(
        &self,
        source: Source,
        records: &[InputRecord],
        wave: Vec<Admitted>,
        opened: &Opened,
        answers: &mut [Submitted],
    ) -> Vec<ToSend> {
        let new = wave
            .iter()
            .map(|o| {
                let order = o.record();
                NewOrder {
                    messages: vec![render::received(&order)],
                    order,
                    details: o.details.clone(),
                    digest: o.digest.clone(),
                }
            })
            .collect();
        let tracing = self.tracing();
        let began = tracing.now();
        let results = self.store.create(new).await;
        let mut to_send = Vec::new();
        let mut repeated = Vec::new();
        for (mut order, result) in wave.into_iter().zip(results) {
            if result.as_ref().is_ok_and(Created::is_new) {
                metric::accepted(&order.accepted.workflow.name);
            }
            opened.created(&tracing, &order, began, &result);
            drop(order.place.take());
            match result {
                Ok(is_new @ (Created::Created | Created::WithMessages)) => {
                    let record = order.record();
                    let received = (is_new == Created::Created).then(|| render::received(&record));
                    if order.set_aside || order.accepted.start_at.is_some() {
                        to_send.push(ToSend::stored(order.index, received, None));
                        continue;
                    }
                    let id = order.accepted.order_id.clone();
                    let lane = order.accepted.priority;
                    self.backlog.let_in(lane, id, self.clock.now());
                    let announcement = render::announcement(order.accepted);
                    to_send.push(ToSend::stored(order.index, received, Some(announcement)));
                }
                Ok(Created::Exists { digest }) if digest == order.digest => {
                    repeated.push(order);
                }
                Ok(Created::Exists { .. }) => {
                    let refusal = SubmissionRefusal::Conflict(order.accepted.order_id.to_string());
                    // The stored order with this id continues, and so do its statuses.
                    let sender = (order.accepted.order_id, order.accepted.reply_topic);
                    let sender = Some(sender);
                    to_send.extend(self.letter(source, records, order.index, &refusal, sender));
                    answers[order.index] = Submitted::Refused(refusal);
                }
                Err(StoreError::Item(why)) => {
                    let refusal = SubmissionRefusal::Unstorable(why);
                    let sender = (order.accepted.order_id, order.accepted.reply_topic);
                    let sender = Some(sender);
                    to_send.extend(self.letter(source, records, order.index, &refusal, sender));
                    answers[order.index] = Submitted::Refused(refusal);
                }
                Err(e) => answers[order.index] = e.into(),
            }
        }
        to_send.extend(self.announce_again(repeated, answers).await);
        to_send
    }

    /// Orders that were stored before. If no Scheduler has claimed an order, its announcement may not have been sent:
    /// it is made again from the stored order.
    async fn announce_again(
        &self,
        repeated: Vec<Admitted>,
        answers: &mut [Submitted],
    ) -> Vec<ToSend> {
        if repeated.is_empty() {
            return Vec::new();
        }
        for order in &repeated {
            answers[order.index] = Submitted::Repeated(order.accepted.order_id.clone());
        }
        let ids = repeated
            .iter()
            .map(|o| o.accepted.order_id.clone())
            .collect();
        let stored = self.store.load(ids).await;
        let mut to_send = Vec::new();
        for (order, stored) in repeated.into_iter().zip(stored) {
            match stored {
                // The process that admits it announces it, or a sweep when it is to start.
                Ok(Some(record)) if record.set_aside.is_some() || record.start_at.is_some() => {
                    let received = render::received(&record);
                    to_send.push(ToSend::stored(order.index, Some(received), None));
                }
                Ok(Some(record)) if record.version == triad_core::Version::FIRST => {
                    let accepted = Accepted {
                        order_id: record.id.clone(),
                        workflow: record.workflow.clone(),
                        priority: record.priority,
                        reply_topic: record.reply_topic.clone(),
                        traceparent: record.traceparent.clone(),
                        submitted_at: record.submitted_at,
                        start_at: None,
                        due: record.due.unwrap_or(order.accepted.due),
                        deadline: record.deadline,
                        search: record.search.clone(),
                        parent: None,
                        details: order.accepted.details,
                    };
                    let received = render::received(&record);
                    let announcement = render::announcement(accepted);
                    let announcement = Some(announcement);
                    to_send.push(ToSend::stored(order.index, Some(received), announcement));
                }
                // Claimed already, or finished and expired.
                Ok(_) => {}
                Err(e) => answers[order.index] = e.into(),
            }
        }
        to_send
    }
}

/// How long after it was stored an order is due for the first time. The hint must not be later than any due time that
/// the first claim may set.
pub(crate) fn first_due(workflow: Option<&Workflow>, timing: &Timing) -> Millis {
    let shortest = workflow.map(Workflow::shortest_attempt_timeout);
    let first_due = timing.queue_within.0 + shortest.unwrap_or_default().0;
    timing.announce_within.min(Millis(first_due))
}
