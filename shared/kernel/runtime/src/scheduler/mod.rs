//! The Scheduler: claims orders, runs their workflows, takes replies, runs compensation.

mod children;
mod input;
mod intake;
mod keys;
mod load;
mod pacing;
mod traced;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use triad_core::message::{SchedulerMessage, Wake};
use triad_core::pass::{self, PassEnd, Snapshot, Source, Task};
use triad_core::received::Incoming;
use triad_core::status::Status;
use triad_core::{
    CallbackSecret, ClaimId, Envelope, Event, Failure, FailureKind, NeedsDetails, OrderId,
    Priority, Reason, Timestamp, render,
};
use triad_workflow::{Millis, WorkflowName};

use crate::admission_queue::{Freed, Ports, let_in, room};
use crate::beside::MOST_READS;
use crate::cache::{Copy, OrderCache};
use crate::control::ControlStore;
use crate::dead_letter::{self, Cause, dead_letter};
use crate::decode::NoMessage;
use crate::definitions::Definitions;
use crate::handled::{Handled, Redelivery};
use crate::metric;
use crate::misconfigured::Misconfigured;
use crate::passes::{Carried, carry_out, report_breaches};
use crate::ports::{
    Bus, BusError, Clock, DefinitionStore, Entropy, StateStore, StoreError, Write, Written,
};
use crate::record::InputRecord;
use crate::settings::Settings;
use crate::traces::Tracing;
use crate::waves::{HeldKeys, waves};
use input::{Decoded, Input, decode, work};
use intake::Intake;
use traced::RecordSpan;

/// Name of this handler in alerts and metrics.
const HANDLER: &str = "scheduler";
/// Most decisions about an event: first on a copy, then on the record.
const MAX_ROUNDS: usize = 6;
/// Most repetitions after a lost race before the message is left for redelivery.
const MAX_RACES: u32 = 4;
/// Most waiting orders that start in one pass.
const STARTED_AT_ONCE: usize = 256;
/// Most rounds of starts after one batch.
const MAX_STARTS: usize = 8;

/// The Scheduler handler: it handles the messages of the topics `scheduler` and `scheduler.high`, and the events from
/// outside of the topic `events`. `S` is the store, `B` the bus, `C` the clock, `E` the entropy.
#[derive(Debug)]
pub struct Scheduler<S, B, C, E> {
    store: S,
    bus: B,
    clock: C,
    entropy: E,
    definitions: Definitions<S>,
    cache: OrderCache,
    intake: Intake,
    told: HeldBackLog,
    freed: Mutex<Freed>,
    misconfigured: Misconfigured,
    settings: Settings,
}

/// This process's record of held-back orders, and the time of its last report.
#[derive(Debug)]
struct HeldBackLog {
    place: u64,
    last: Mutex<LastTold>,
}

#[derive(Debug, Default)]
struct LastTold {
    at: Timestamp,
    /// Whether the last report had waiting orders.
    waits: bool,
}

/// One record of a wave, under way.
struct Work {
    index: usize,
    id: OrderId,
    input: Input,
    cacheable: bool,
    /// How long its record had waited to be read.
    unread: Millis,
    /// Whether the intake has handled the message already and must not again.
    is_passed: bool,
    carried: Carried,
}

/// A message and the order that it is about, as far as it has been read.
struct ReadMessage {
    work: Work,
    read: Snapshot,
    source: Source,
}

/// A batch: its records, and their results.
struct Batch<'a> {
    records: &'a [InputRecord],
    answers: Vec<Handled>,
    /// Dead letters, by record.
    letters: Vec<(usize, Cause)>,
    /// The statuses that tell applications that their orders refuse an act, by record.
    refusals: Vec<(usize, Envelope)>,
    /// Finished orders whose last status was refused, with their records' positions.
    untold: Vec<(usize, pass::Carried, BusError)>,
    /// Open spans by record; empty if tracing is off.
    heard: Vec<Option<RecordSpan>>,
}

impl Batch<'_> {
    fn redeliver(&mut self, index: usize, why: Redelivery) {
        self.answers[index] = Handled::Redeliver(why);
    }
}

impl<S, B, C, E> Scheduler<S, B, C, E>
where
    S: StateStore + DefinitionStore + ControlStore + Clone,
    B: Bus,
    C: Clock,
    E: Entropy,
{
    /// A handler over its ports. It caches at most [`Settings::cached_orders`] orders, and at most
    /// [`Settings::waiting`] orders wait in each lane. Nothing is read or written yet.
    pub fn new(store: S, bus: B, clock: C, entropy: E, settings: Settings) -> Self {
        Self {
            definitions: Definitions::new(store.clone(), settings.refresh_definitions),
            cache: OrderCache::new(settings.cached_orders),
            intake: Intake::new(settings.waiting, settings.timing.skew),
            told: HeldBackLog {
                place: entropy.next_u64(),
                last: Mutex::default(),
            },
            freed: Mutex::default(),
            misconfigured: Misconfigured::new(HANDLER),
            store,
            bus,
            clock,
            entropy,
            settings,
        }
    }

    /// Handles a batch; the answer has one entry for each record, in their order. Messages about one order are
    /// handled one after the other, in their order. A record that is not a message for the Scheduler is
    /// dead-lettered, and so is one whose order can never be written, and an event that no step can take.
    ///
    /// [`Handled::Redeliver`]: the store or the bus failed, other processes changed the order in every try,
    /// or an earlier message about the order must be delivered again. If the bus fails only for the topic of
    /// a message that the Supervisor can send later, the message is left to the Supervisor and the answer is
    /// [`Handled::Done`].
    ///
    /// Afterwards waiting orders start, as far as there is room now; an empty batch does only that. Their failures
    /// are not in the answer: the Supervisor finds them.
    pub async fn handle(&self, records: &[InputRecord]) -> Vec<Handled> {
        metric::taken_up(HANDLER, records, self.clock.now());
        let answers = self.handle_all(records, false).await;
        for lane in [Priority::High, Priority::Normal] {
            // The loop ends: started orders are under way, and there is room only for a limited number.
            for _ in 0..MAX_STARTS {
                let ready = self.intake.next(lane, STARTED_AT_ONCE, self.clock.now());
                if ready.is_empty() {
                    break;
                }
                // The Supervisor finds failures: these orders were announced and not claimed.
                let started = self.handle_all(&ready, true).await;
                self.misconfigured.note(&started);
            }
        }
        self.fill_places().await;
        self.report_pressure().await;
        self.misconfigured.note(&answers);
        self.misconfigured
            .publish_alert(&self.bus, &self.clock)
            .await;
        answers
    }

    /// Admits as many orders of workflows with a cap as have ended.
    async fn fill_places(&self) {
        let caps = &self.settings.admission.per_workflow;
        if caps.is_empty() {
            return;
        }
        let now = self.clock.now();
        let places = self.freed().take(now);
        for (workflow, count) in places {
            let Some(cap) = caps.get(&workflow) else {
                continue;
            };
            if let Err(e) = self.fill(&workflow, *cap, count, now).await {
                tracing::warn!(%workflow, error = %e, "orders that are set aside were not let in; a sweep lets them in");
            }
        }
    }

    async fn fill(
        &self,
        workflow: &WorkflowName,
        cap: u32,
        count: u32,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let ports = Ports {
            store: &self.store,
            bus: &self.bus,
            clock: &self.clock,
            entropy: &self.entropy,
            definitions: &self.definitions,
            settings: &self.settings,
        };
        let mut most = count;
        if self.freed().is_old(workflow, now) {
            let (room, surplus) = room(&self.store, workflow, cap).await?;
            self.freed().counted(workflow, surplus, now);
            most = most.min(room);
        }
        if most == 0 {
            return Ok(());
        }
        let done = let_in(&ports, workflow, most as usize).await?;
        self.freed().found(workflow, done.found, now);
        Ok(())
    }

    fn freed(&self) -> MutexGuard<'_, Freed> {
        self.freed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tracing(&self) -> Tracing<'_, C> {
        Tracing {
            traces: &self.settings.traces,
            clock: &self.clock,
        }
    }

    /// Whether orders wait in this process for room. If true, call [`handle`](Self::handle) again soon, also with an
    /// empty batch: it starts those that have room.
    pub fn is_waiting(&self) -> bool {
        self.intake.is_waiting(Priority::High) || self.intake.is_waiting(Priority::Normal)
    }

    async fn handle_all(&self, records: &[InputRecord], is_let_in: bool) -> Vec<Handled> {
        let now = self.clock.now();
        let mut batch = Batch {
            records,
            answers: vec![Handled::Done; records.len()],
            letters: Vec::new(),
            refusals: Vec::new(),
            untold: Vec::new(),
            heard: Vec::new(),
        };
        let mut works = Vec::new();
        let decoded = records.iter().enumerate();
        let decoded: Vec<_> = decoded.map(|(n, record)| decode(n, record, now)).collect();
        let mut orders = self.orders_of_keys(&decoded).await.into_iter();
        for (index, (record, decoded)) in records.iter().zip(decoded).enumerate() {
            match decoded {
                Ok(decoded) => {
                    let work = match decoded {
                        Decoded::Work(work) => Some(*work),
                        Decoded::Keyed(event) => {
                            let found = orders.next().unwrap_or(Ok(None));
                            self.find_by_key(*event, found, index, &mut batch).await
                        }
                    };
                    let Some(work) = work else {
                        continue;
                    };
                    let mut work = Work {
                        is_passed: is_let_in,
                        ..work
                    };
                    self.begin_record_span(&mut work, record, now, &mut batch);
                    works.push((work.id.clone(), work));
                }
                Err(NoMessage::Never(cause)) => batch.letters.push((index, cause)),
                Err(NoMessage::Newer(why)) => batch.redeliver(index, Redelivery::Newer(why)),
            }
        }
        let mut held = HeldKeys::new();
        for wave in waves(works) {
            let mut runnable = Vec::new();
            for (id, work) in wave {
                if held.holds(&id) {
                    batch.redeliver(work.index, Redelivery::Behind);
                } else {
                    runnable.push(work);
                }
            }
            let members: Vec<_> = runnable.iter().map(|w| (w.index, w.id.clone())).collect();
            self.run_wave(runnable, &mut batch).await;
            self.end_wave_spans(&members, &mut batch);
            for (index, id) in members {
                if !batch.answers[index].is_done() {
                    held.hold(&id);
                }
            }
        }
        self.dead_letter(&mut batch).await;
        self.tell_refusals(&mut batch).await;
        batch.answers
    }

    /// Runs one event each of different orders: load, decide, commit, publish, confirm. Repeats it on the record if a
    /// copy was not enough or a race was lost.
    async fn run_wave(&self, mut works: Vec<Work>, batch: &mut Batch<'_>) {
        works = self.store_children(works, batch).await;
        let mut source = Source::Copy;
        for _ in 0..MAX_ROUNDS {
            if works.is_empty() {
                return;
            }
            let (known, mut again) = self.load(works, source, batch).await;
            let mut decided = self.decide_all(known, batch).await;
            again.extend(
                decided
                    .extract_if(.., |k| matches!(k.work.carried.pass.task(), Task::Read))
                    .map(|k| k.work),
            );
            self.register_keys(&mut decided, batch).await;
            let passes = decided.iter_mut().map(|k| &mut k.work.carried).collect();
            let tracing = self.tracing();
            carry_out(&self.store, &self.bus, &self.entropy, &tracing, passes).await;
            for known in decided {
                again.extend(self.carried(known, batch));
            }
            self.keep_unsent_ends(batch).await;
            works = again;
            source = Source::Record;
        }
        for work in works {
            batch.redeliver(work.index, Redelivery::Raced);
        }
    }

    /// Decides each event on its own, without IO. If a decision needs the details or an output, they are read, and the
    /// decision is made again. Orders that wait for room are left out.
    async fn decide_all(&self, known: Vec<ReadMessage>, batch: &mut Batch<'_>) -> Vec<ReadMessage> {
        let mut decided = Vec::with_capacity(known.len());
        let mut undecided = known;
        // After the last read every decision has all that there is.
        for reads in 0..=MOST_READS {
            let mut wanting = Vec::new();
            for known in undecided {
                match self.decide_one(known, batch.records) {
                    Decided::Yes(known) => decided.push(known),
                    Decided::NeedsDetails(known) => wanting.push(known),
                    Decided::Waits => {}
                }
            }
            if wanting.is_empty() || reads == MOST_READS {
                break;
            }
            undecided = self.read_beside(wanting, batch).await;
        }
        decided
    }

    fn decide_one(&self, mut known: ReadMessage, records: &[InputRecord]) -> Decided {
        let now = self.clock.now();
        match self.passes(&mut known, records, now) {
            Ok(true) => {}
            Ok(false) => return Decided::Waits,
            Err(NeedsDetails) => return Decided::NeedsDetails(known),
        }
        let event = self.event(&known.work.input);
        let pass = &mut known.work.carried.pass;
        let breaches = pass.decide(
            known.read.clone(),
            known.source,
            event,
            self.settings.timing,
            now,
        );
        report_breaches(&breaches);
        match pass.task() {
            Task::ReadDetails => Decided::NeedsDetails(known),
            _ => Decided::Yes(known),
        }
    }

    fn event(&self, input: &Input) -> Event {
        match input {
            Input::Message(SchedulerMessage::Child(child)) if child.compensate.is_some() => {
                Event::ParentCompensated(Box::new(child.parent.clone()))
            }
            Input::Message(
                SchedulerMessage::Accepted(_)
                | SchedulerMessage::Wake(_)
                | SchedulerMessage::Child(_),
            ) => {
                let random = || [self.entropy.next_u64(), self.entropy.next_u64()];
                let id = ClaimId::by(&self.settings.instance, random());
                Event::Claim(id, CallbackSecret(random()))
            }
            Input::Message(SchedulerMessage::Reply(reply)) => Event::Reply(reply.clone()),
            Input::Message(SchedulerMessage::ChildEnded(ended)) => Event::ChildEnded(ended.clone()),
            Input::Incoming(Incoming::Event(event)) => Event::Received(event.clone()),
            Input::Incoming(Incoming::Callback(callback)) => Event::CalledBack(callback.clone()),
            Input::Incoming(Incoming::Act(act)) => Event::Operate(act.operation()),
        }
    }

    /// Applies the result of a pass; returns the event if it must be decided again.
    fn carried(&self, known: ReadMessage, batch: &mut Batch<'_>) -> Option<Work> {
        let ReadMessage { mut work, read, .. } = known;
        let index = work.index;
        batch.link_attempts(index, &read);
        match work.carried.pass.task() {
            Task::Ended(PassEnd::Done(carried)) => {
                self.note(&read, carried);
                match &carried.copy {
                    Some(copy) if work.cacheable => self.cache.put(Copy {
                        order: copy.clone(),
                        details: read.details,
                    }),
                    _ if carried.was_written => self.cache.forget(&work.id),
                    _ => {}
                }
                None
            }
            Task::Ended(PassEnd::Unsent(carried)) => {
                self.note(&read, carried);
                // The next write must be decided on the record, which has the unsent messages.
                self.cache.forget(&work.id);
                let why = work.carried.unsent.take();
                batch.answers[index] = match why {
                    Some(why) if why.is_of_its_topic() => match carried.order.due {
                        Some(_) => self.leave(&work.id, &why),
                        None => {
                            batch.untold.push((index, carried.clone(), why.clone()));
                            why.into()
                        }
                    },
                    Some(why) => why.into(),
                    None => Handled::Redeliver(Redelivery::Raced),
                };
                None
            }
            Task::Ended(PassEnd::Unwritten) => {
                // The write may have taken effect: the copy can no longer be trusted.
                self.cache.forget(&work.id);
                self.intake.forget(read.order.priority, &work.id);
                match work.carried.unwritten.take() {
                    // A redelivery would be refused again. What it answers or wakes is not lost: the Supervisor finds
                    // the order when it is overdue.
                    Some(StoreError::Item(why)) => {
                        batch
                            .letters
                            .push((index, Cause::new("unwritable-order", why)));
                    }
                    Some(e) => batch.redeliver(index, e.into()),
                    None => batch.redeliver(index, Redelivery::Raced),
                }
                None
            }
            Task::Ended(PassEnd::Ignored(reason)) => {
                self.has_ended(&read);
                if work.input.is_incoming() {
                    batch
                        .letters
                        .extend(in_vain(*reason).map(|cause| (index, cause)));
                }
                tracing::debug!(
                    order = %work.id,
                    state = read.order.state.name(),
                    ?reason,
                    "event changes nothing"
                );
                None
            }
            Task::Ended(PassEnd::Illegal(illegal)) => {
                let cause = Cause::new("illegal-event", illegal.to_string());
                batch.letters.push((index, cause));
                None
            }
            Task::Ended(PassEnd::Refused(refusal)) => {
                self.has_ended(&read);
                if let Input::Incoming(Incoming::Act(act)) = &work.input
                    && !act.is_repeated(&read.order, refusal)
                {
                    let text = refusal.to_string();
                    let cause = Failure::new(FailureKind::Permanent, act.refusal_code(), &text);
                    let sender = (&read.order.id, read.order.reply_topic.as_deref());
                    let trace = batch.records[index].trace();
                    let now = self.clock.now();
                    let told = render::not_accepted(sender, trace, Status::Refused, cause, now);
                    batch.refusals.push((index, told));
                }
                None
            }
            // Not possible here: the record was read.
            Task::Ended(PassEnd::Absent) => None,
            Task::Ended(PassEnd::Raced) => {
                self.cache.forget(&work.id);
                batch.redeliver(index, Redelivery::Raced);
                None
            }
            // Another process has written the order, so the copy is outdated.
            Task::Read
            | Task::ReadDetails
            | Task::Write { .. }
            | Task::Publish(_)
            | Task::Confirm { .. } => {
                self.cache.forget(&work.id);
                Some(work)
            }
        }
    }

    /// Puts finished orders whose last status was refused into the due index. If that cannot be written, the input is
    /// redelivered.
    async fn keep_unsent_ends(&self, batch: &mut Batch<'_>) {
        let now = self.clock.now();
        let (mut writes, mut owners) = (Vec::new(), Vec::new());
        for (index, carried, why) in batch.untold.drain(..) {
            let Some(next) = pass::kept_due(&carried.order, self.settings.timing, now) else {
                continue;
            };
            let token = self.entropy.next_u64();
            writes.push(Write::silent(carried.order.version, Arc::new(next), token));
            owners.push((index, carried.order.id.clone(), why));
        }
        if writes.is_empty() {
            return;
        }
        let written = self.store.commit(writes).await;
        for ((index, order, why), written) in owners.into_iter().zip(written) {
            match written {
                Ok(Written::Written | Written::WithMessages) => {
                    batch.answers[index] = self.leave(&order, &why);
                }
                Ok(Written::Conflict) => batch.redeliver(index, Redelivery::Raced),
                Err(e) => batch.redeliver(index, e.into()),
            }
        }
    }

    /// Leaves a message that could not be sent to a sweep, so that a topic that refuses messages blocks only what
    /// needs it, and not the records behind this one. The record has the unsent messages, and the due index makes the
    /// Supervisor check the order; the next write sends its statuses in their order.
    fn leave(&self, order: &OrderId, why: &BusError) -> Handled {
        self.misconfigured.note_bus(why);
        if why.needs_an_operator() {
            tracing::error!(%order, %why, "a message is refused: a sweep sends it once the installation is repaired");
        } else {
            tracing::warn!(%order, %why, "a message is not acknowledged: a sweep sends it again");
        }
        Handled::Done
    }

    /// Counts the end of an order, and notes the downstreams that it is at now.
    fn note(&self, before: &Snapshot, carried: &pass::Carried) {
        if carried.was_written {
            metric::count_transition(&before.order, &carried.order, self.clock.now());
            let workflow = &carried.order.workflow.name;
            let has_ended = carried.order.state.is_finished() && !before.order.state.is_finished();
            if has_ended && self.settings.admission.per_workflow.contains_key(workflow) {
                self.freed().ended(workflow);
            }
        }
        let now = Snapshot {
            order: carried.order.clone(),
            ..before.clone()
        };
        self.track(&now, self.clock.now());
    }

    /// Tells applications that their orders refuse an act; a record whose status is not acknowledged is redelivered.
    async fn tell_refusals(&self, batch: &mut Batch<'_>) {
        let (owners, messages): (Vec<_>, Vec<_>) = batch.refusals.drain(..).unzip();
        if messages.is_empty() {
            return;
        }
        let sent = self.bus.publish(messages).await;
        for (index, sent) in owners.into_iter().zip(sent) {
            if let Err(why) = sent {
                batch.answers[index] = why.into();
            }
        }
    }

    /// Publishes the dead letters; a record whose letter is not acknowledged is redelivered.
    async fn dead_letter(&self, batch: &mut Batch<'_>) {
        let now = self.clock.now();
        let mut letters = Vec::new();
        for (index, cause) in batch.letters.drain(..) {
            let record = &batch.records[index];
            letters.push((index, dead_letter(record, &cause, now)));
        }
        for (index, why) in dead_letter::send(&self.bus, letters).await {
            batch.answers[index] = why.into();
        }
    }
}

/// Result of deciding an event.
enum Decided {
    Yes(ReadMessage),
    NeedsDetails(ReadMessage),
    /// The order has no room yet.
    Waits,
}

/// A wake for an order, in place of a record that is too large to be kept.
fn wake(order: &OrderId) -> Vec<u8> {
    let message = SchedulerMessage::Wake(Wake {
        order_id: order.clone(),
    });
    serde_json::to_vec(&message).unwrap_or_default()
}

/// Why an event or a callback that changes nothing becomes a dead letter; `None` if it is one that came before.
fn in_vain(reason: Reason) -> Option<Cause> {
    let (code, text) = match reason {
        Reason::NoStepAwaits => (
            "event-not-awaited",
            "no step of the order that is not done waits for an event of this name",
        ),
        Reason::NoMatch => (
            "event-does-not-match",
            "a step waits for an event of this name, and this one does not fulfil its condition, does not fit its form, or is of somebody who may not decide",
        ),
        Reason::TooManyEvents => (
            "too-many-events",
            "the order keeps as many events as it may for steps that do not wait yet",
        ),
        Reason::TooLate => (
            "event-too-late",
            "when it came, the order had finished, or was being compensated, or its step was no longer worked on",
        ),
        Reason::WrongToken => (
            "wrong-token",
            "the order asks for no work with this token: it belongs to another step or order, or to earlier work",
        ),
        _ => return None,
    };
    Some(Cause::new(code, text))
}
