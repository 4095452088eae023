//! Submission: takes order events, stores order and process record, announces the order.

mod capacity;
mod outgoing;
mod refused;
mod submitted;
mod traced;

use std::sync::Arc;

use serde_json::Value;
use triad_core::children::{ChildEnd, Parent};
use triad_core::effect::status_effects;
use triad_core::submission::{Submission as OrderEvent, SubmissionRefusal, Undone};
use triad_core::{
    Accepted, Envelope, Failure, FailureKind, Order, OrderId, Priority, Timestamp, TraceContext,
    WorkflowRef, render, topics,
};
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
    /// Some if it is a child order that is to be compensated.
    undo: Option<Undone>,
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
        if self.undo.is_some() {
            let why = "its parent order was compensated before it was stored";
            let cause = Failure::new(FailureKind::Operator, "cancelled", why);
            return Order::never_begun(&self.accepted, workflow, cause);
        }
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
            answers.push(match self.admit(source, index, record).await {
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
        source: Source,
        index: usize,
        record: &InputRecord,
    ) -> Result<Result<Admitted, SubmissionRefusal>, (OrderId, StoreError)> {
        let event = match OrderEvent::decode(record.value.as_deref()) {
            Ok(event) => event,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if event.child.is_some() && source == Source::Caller {
            let why = "the field \"child\" is for orders that Triad submits itself";
            return Ok(Err(SubmissionRefusal::UnknownField(why.to_owned())));
        }
        if let Some(topic) = &event.reply_topic
            && !(topics::is_reply_topic(topic) && self.settings.reply_topics.contains(topic))
        {
            return Ok(Err(SubmissionRefusal::ReplyTopic(topic.clone())));
        }
        let now = self.clock.now();
        let child = event.child.as_ref();
        let undo = child.and_then(|child| child.undo);
        let pinned = match child.and_then(|child| child.version.clone()) {
            Some(hash) => Ok(Some(WorkflowRef {
                name: event.workflow.clone(),
                hash,
            })),
            None => self.definitions.current(&event.workflow, now).await,
        };
        let pinned = match pinned {
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
            // What is undone needs its steps: a process that can read the definition does it.
            Err(StoreError::Item(why)) if undo.is_some() => {
                return Err((event.order_id, StoreError::Transient(why)));
            }
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
        let schema = workflow.as_ref().and_then(|w| w.details.as_ref());
        if let Some(schema) = schema.filter(|_| undo.is_none()) {
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
        // The hint must not be later than any due time that the first claim may set.
        let timing = &self.settings.timing;
        let shortest = workflow.as_ref().map(|w| w.shortest_attempt_timeout());
        let first_due = timing.queue_within.0 + shortest.unwrap_or_default().0;
        let soon = timing.announce_within.min(Millis(first_due));
        let deadline = event.deadline(workflow.as_deref(), now);
        let traces = &self.settings.traces;
        let trace = traces.of_submission(&event.order_id, record.trace());
        let due = now.plus(soon);
        let search = workflow.as_ref().map(|w| w.search.of(&details));
        let accepted = Accepted {
            order_id: event.order_id,
            workflow: pinned,
            priority,
            reply_topic: event.reply_topic,
            traceparent: trace.map(|trace| trace.to_string()),
            submitted_at: now,
            due: deadline.map_or(due, |at| at.min(due)),
            deadline,
            search: search.unwrap_or_default(),
            parent: event.child.map(|child| Box::new(child.parent)),
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
            undo,
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
        // What was Processed is stored, or was: nothing is to be stored in its place.
        let was_stored = |o: &Admitted| o.undo.is_some_and(|undone| undone.was_processed);
        let (mut repeated, wave): (Vec<_>, Vec<_>) = wave.into_iter().partition(was_stored);
        let new = wave
            .iter()
            .map(|o| {
                let order = o.record();
                NewOrder {
                    messages: received(&order).into_iter().collect(),
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
        for (mut order, result) in wave.into_iter().zip(results) {
            if result.as_ref().is_ok_and(Created::is_new) {
                metric::accepted(&order.accepted.workflow.name);
            }
            opened.created(&tracing, &order, began, &result);
            drop(order.place.take());
            match result {
                Ok(is_new @ (Created::Created | Created::WithMessages)) => {
                    let record = order.record();
                    let is_unsent = is_new == Created::Created;
                    let received = received(&record).filter(|_| is_unsent);
                    if order.undo.is_some() {
                        let ended = status_effects(&record);
                        let ended = ended.first().map(|ended| render::effect(ended, &record));
                        to_send.push(ToSend::stored(order.index, None, ended));
                        continue;
                    }
                    if order.set_aside {
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
                    to_send.extend(self.letter(source, records, order.index, &refusal, None));
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
            let parent = order.accepted.parent.as_deref();
            match stored {
                Ok(Some(_)) if order.undo.is_some() => {
                    let undo = parent.map(|parent| undo(&order.accepted, parent));
                    to_send.push(ToSend::stored(order.index, None, undo));
                }
                Ok(None) if order.undo.is_some() => {
                    let kept = parent.map(|parent| expired(&order.accepted, parent));
                    to_send.push(ToSend::stored(order.index, None, kept));
                }
                // Its parent asks for it again, and is told by the Scheduler how it has ended.
                Ok(Some(record)) if record.parent.is_some() && record.state.is_finished() => {
                    let wake = render::wake(&record);
                    to_send.push(ToSend::stored(order.index, None, Some(wake)));
                }
                // The process that admits it announces it.
                Ok(Some(record)) if record.set_aside.is_some() => {
                    to_send.push(ToSend::stored(order.index, received(&record), None));
                }
                Ok(Some(record)) if record.version == triad_core::Version::FIRST => {
                    let accepted = Accepted {
                        order_id: record.id.clone(),
                        workflow: record.workflow.clone(),
                        priority: record.priority,
                        reply_topic: record.reply_topic.clone(),
                        traceparent: record.traceparent.clone(),
                        submitted_at: record.submitted_at,
                        due: record.due.unwrap_or(order.accepted.due),
                        deadline: record.deadline,
                        search: record.search.clone(),
                        parent: record.parent.clone(),
                        details: order.accepted.details,
                    };
                    let announcement = Some(render::announcement(accepted));
                    let received = received(&record);
                    to_send.push(ToSend::stored(order.index, received, announcement));
                }
                // Claimed already, or finished and expired.
                Ok(_) => {}
                Err(e) => answers[order.index] = e.into(),
            }
        }
        to_send
    }
}

/// The status `received` of a new order; `None` of a child order, which tells only its parent, when it has ended.
fn received(order: &Order) -> Option<Envelope> {
    order.parent.is_none().then(|| render::received(order))
}

/// The message to the parent of a child order that is to be compensated and was Processed, but is not stored any more.
fn expired(child: &Accepted, parent: &Parent) -> Envelope {
    let trace = child.traceparent.as_deref().and_then(TraceContext::parse);
    let why = "its record has expired, so that it cannot be compensated";
    let cause = Failure::new(FailureKind::Permanent, "expired", why);
    let end = ChildEnd::Kept { cause };
    render::end_of_child(parent, &child.order_id, child.priority, trace, end)
}

/// The message that has a stored child order compensated.
fn undo(child: &Accepted, parent: &Parent) -> Envelope {
    let trace = child.traceparent.as_deref().and_then(TraceContext::parse);
    render::undo(&child.order_id, parent, child.priority, trace)
}
