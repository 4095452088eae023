//! The Scheduler: claims orders, runs their workflows, takes replies, runs compensation.

mod intake;
mod load;
mod pacing;

use std::sync::{Arc, Mutex};

use serde_json::Value;
use triad_core::message::{Retry, SchedulerMessage};
use triad_core::planted::{Bug, planted};
use triad_core::{
    ClaimId, Context, Decision, Envelope, Event, Order, OrderId, Priority, Reason, Timestamp,
    decide, invariants, outbox,
};
use triad_workflow::{Millis, Workflow};

use crate::cache::{MAX_DETAILS_BYTES, OrderCache, Snapshot};
use crate::control::ControlStore;
use crate::dead_letter::{Cause, dead_letter};
use crate::definitions::Definitions;
use crate::handled::Handled;
use crate::metric;
use crate::ports::{Bus, Clock, DefinitionStore, Entropy, StateStore, Write, Written};
use crate::record::InputRecord;
use crate::settings::Settings;
use intake::Intake;

use crate::waves::{Held, waves};

/// Times that a lost race is run again before the record is left for redelivery.
const MAX_ROUNDS: usize = 6;
/// Waiting orders that are started together.
const STARTED_AT_ONCE: usize = 256;
/// Times that waiting orders are started after one batch.
const MAX_STARTS: usize = 8;

/// The Scheduler handler.
#[derive(Debug)]
pub struct Scheduler<S, B, C, E> {
    store: S,
    bus: B,
    clock: C,
    entropy: E,
    definitions: Definitions<S>,
    cache: OrderCache,
    intake: Intake,
    told: Told,
    settings: Settings,
}

/// When this process last said what it holds back, and where.
#[derive(Debug)]
struct Told {
    place: u64,
    at: Mutex<Timestamp>,
}

/// One message of a wave, on its way through the steps.
struct Work {
    index: usize,
    id: OrderId,
    message: SchedulerMessage,
    cacheable: bool,
    /// How long its record had waited to be read.
    unread: Millis,
    /// It was let in by the intake, or what it says of a downstream has been heard.
    is_passed: bool,
}

/// What is known of an order when its event is decided.
struct Known {
    snapshot: Snapshot,
    workflow: Arc<Workflow>,
    /// Read from the store just now, not a copy and not assumed.
    fresh: bool,
}

/// A decided write.
struct Decided {
    work: Work,
    known: Known,
    next: Arc<Order>,
}

/// What a round leaves behind.
#[derive(Default)]
struct Round {
    /// Messages to send, each with its record.
    send: Vec<(usize, Envelope)>,
    /// Finished orders that need a confirmation once their messages are out.
    confirm: Vec<(usize, Order, Arc<Workflow>)>,
    /// Copies to keep once their messages are out.
    keep: Vec<(usize, Snapshot)>,
    /// To be decided again on a fresh record.
    again: Vec<Work>,
}

impl<S, B, C, E> Scheduler<S, B, C, E>
where
    S: StateStore + DefinitionStore + ControlStore + Clone,
    B: Bus,
    C: Clock,
    E: Entropy,
{
    /// A handler over its ports.
    pub fn new(store: S, bus: B, clock: C, entropy: E, settings: Settings) -> Self {
        Self {
            definitions: Definitions::new(store.clone(), settings.refresh_definitions),
            cache: OrderCache::new(settings.cached_orders),
            intake: Intake::new(settings.waiting, settings.timing.skew),
            told: Told {
                place: entropy.next_u64(),
                at: Mutex::default(),
            },
            store,
            bus,
            clock,
            entropy,
            settings,
        }
    }

    /// Handles a batch; the answer has one entry a record, in their order. Then starts what waited
    /// and has room now: an empty batch does that alone.
    pub async fn handle(&self, records: &[InputRecord]) -> Vec<Handled> {
        let answers = self.handle_all(records, false).await;
        for lane in [Priority::High, Priority::Normal] {
            // Bounded: what is started is under way, and there is room for so many only.
            for _ in 0..MAX_STARTS {
                let ready = self.intake.next(lane, STARTED_AT_ONCE, self.clock.now());
                if ready.is_empty() {
                    break;
                }
                // What fails is found by the Supervisor: it was announced and not taken up.
                self.handle_all(&ready, true).await;
            }
        }
        self.tell_pressure().await;
        answers
    }

    /// Whether orders wait here for room: they are started by a later batch, if only an empty one.
    pub fn is_waiting(&self) -> bool {
        self.intake.is_waiting(Priority::High) || self.intake.is_waiting(Priority::Normal)
    }

    async fn handle_all(&self, records: &[InputRecord], is_let_in: bool) -> Vec<Handled> {
        let now = self.clock.now();
        let mut answers = vec![Handled::Done; records.len()];
        let mut works = Vec::new();
        let mut letters = Vec::new();
        for (index, record) in records.iter().enumerate() {
            match decode(index, record, now) {
                Ok(work) => {
                    let work = Work {
                        is_passed: is_let_in,
                        ..work
                    };
                    works.push((work.id.clone(), work));
                }
                Err(cause) => letters.extend(self.refuse(index, record, &cause)),
            }
        }
        self.publish(letters, &mut answers).await;
        let mut held = Held::new();
        for wave in waves(works) {
            let mut runnable = Vec::new();
            for (id, work) in wave {
                if held.holds(&id) {
                    answers[work.index] = Handled::Again("an earlier event waits".into());
                } else {
                    runnable.push(work);
                }
            }
            let members: Vec<_> = runnable.iter().map(|w| (w.index, w.id.clone())).collect();
            self.run_wave(records, runnable, &mut answers).await;
            for (index, id) in members {
                if !answers[index].is_done() {
                    held.hold(&id);
                }
            }
        }
        answers
    }

    /// Runs one event each of different orders, lost races included.
    async fn run_wave(
        &self,
        records: &[InputRecord],
        mut works: Vec<Work>,
        answers: &mut [Handled],
    ) {
        for round in 0..MAX_ROUNDS {
            if works.is_empty() {
                return;
            }
            let mut outcome = Round::default();
            let known = self
                .know(records, works, round == 0, &mut outcome, answers)
                .await;
            let decided = self.decide_all(records, known, &mut outcome);
            self.commit(decided, &mut outcome, answers).await;
            self.publish(std::mem::take(&mut outcome.send), answers)
                .await;
            self.keep(outcome.keep, answers);
            self.confirm(outcome.confirm, answers).await;
            works = outcome.again;
        }
        for work in works {
            answers[work.index] = Handled::Again("lost the race for the record repeatedly".into());
        }
    }

    /// Decide: pure, for each event by itself.
    fn decide_all(
        &self,
        records: &[InputRecord],
        known: Vec<(Work, Known)>,
        outcome: &mut Round,
    ) -> Vec<Decided> {
        let now = self.clock.now();
        let mut decided = Vec::with_capacity(known.len());
        for (mut work, known) in known {
            let record = &records[work.index];
            if !self.passes(&mut work, &known, record, now) {
                continue;
            }
            let ctx = Context {
                workflow: &known.workflow,
                details: &known.snapshot.details,
                timing: self.settings.timing,
            };
            let order = &known.snapshot.order;
            let decision = decide(&ctx, order, self.event(&work.message), now);
            match decision {
                Ok(Decision::Transition(next)) => {
                    report_breaches(&invariants::of_write(order, &next, &known.workflow));
                    decided.push(Decided {
                        work,
                        next: Arc::new(*next),
                        known,
                    });
                }
                // Nothing is left undone on the word of a copy.
                _ if !known.fresh && !planted(Bug::CopyTrusted) => outcome.again.push(work),
                Ok(Decision::Repeat) => {
                    self.track(order, &ctx, now);
                    let messages = outbox::messages(&ctx, order).all();
                    outcome
                        .send
                        .extend(messages.into_iter().map(|m| (work.index, m)));
                    if order.state.is_finished() && order.due.is_some() {
                        outcome.confirm.push((
                            work.index,
                            (**order).clone(),
                            known.workflow.clone(),
                        ));
                    }
                }
                Ok(Decision::Ignore(reason)) => {
                    self.track(order, &ctx, now);
                    ignored(&work, order, reason);
                }
                // Only operators are refused anything.
                Ok(Decision::Refuse(_)) => {}
                Err(illegal) => {
                    let cause = Cause::new("illegal-event", illegal.to_string());
                    outcome
                        .send
                        .extend(self.refuse(work.index, &records[work.index], &cause));
                }
            }
        }
        decided
    }

    fn event(&self, message: &SchedulerMessage) -> Event {
        match message {
            SchedulerMessage::Accepted(_) | SchedulerMessage::Retry(_) => {
                let (a, b) = match planted(Bug::ClaimIdShared) {
                    true => (1, 1),
                    false => (self.entropy.next_u64(), self.entropy.next_u64()),
                };
                Event::Claim(ClaimId(format!("{a:016x}{:08x}", b >> 32)))
            }
            SchedulerMessage::Reply(reply) => Event::Reply(reply.clone()),
        }
    }

    /// Commit: every decided write at once, each on its own condition.
    async fn commit(&self, decided: Vec<Decided>, outcome: &mut Round, answers: &mut [Handled]) {
        if decided.is_empty() {
            return;
        }
        let writes = decided
            .iter()
            .map(|d| Write {
                expected: d.known.snapshot.order.version,
                next: d.next.clone(),
                token: match planted(Bug::TokenShared) {
                    true => 1,
                    false => self.entropy.next_u64(),
                },
            })
            .collect();
        let results = self.store.commit(writes).await;
        for (d, result) in decided.into_iter().zip(results) {
            match result {
                Ok(Written::Written) => self.committed(d, outcome),
                Ok(Written::Conflict) if planted(Bug::ConflictTakenAsWritten) => {
                    self.committed(d, outcome);
                }
                Ok(Written::Conflict) => {
                    self.cache.forget(&d.work.id);
                    outcome.again.push(d.work);
                }
                Err(e) => {
                    // It may have taken effect all the same: the copy can no longer be trusted.
                    self.cache.forget(&d.work.id);
                    self.intake.forget(d.next.priority, &d.work.id);
                    answers[d.work.index] = Handled::Again(e.to_string());
                }
            }
        }
    }

    fn committed(&self, d: Decided, outcome: &mut Round) {
        metric::ended(&d.known.snapshot.order, &d.next);
        let ctx = Context {
            workflow: &d.known.workflow,
            details: &d.known.snapshot.details,
            timing: self.settings.timing,
        };
        self.track(&d.next, &ctx, self.clock.now());
        let messages = outbox::messages(&ctx, &d.next).all();
        outcome
            .send
            .extend(messages.into_iter().map(|m| (d.work.index, m)));
        if d.next.state.is_finished() {
            self.cache.forget(&d.work.id);
            if d.next.due.is_some() {
                outcome
                    .confirm
                    .push((d.work.index, (*d.next).clone(), d.known.workflow));
            }
        } else if d.work.cacheable && !d.known.snapshot.details.is_null() {
            let snapshot = Snapshot {
                order: d.next,
                details: d.known.snapshot.details,
            };
            outcome.keep.push((d.work.index, snapshot));
        }
    }

    /// Keeps copies of the records whose messages are out, without those messages: the next
    /// write need not carry them on. A copy whose messages are not out is forgotten, so that the
    /// next write is decided on the record, which has them.
    fn keep(&self, written: Vec<(usize, Snapshot)>, answers: &[Handled]) {
        for (index, snapshot) in written {
            if answers[index].is_done() {
                let mut order = (*snapshot.order).clone();
                order.outbox = order.outbox.settled();
                self.cache.put(Snapshot {
                    order: Arc::new(order),
                    details: snapshot.details,
                });
            } else {
                self.cache.forget(&snapshot.order.id);
            }
        }
    }

    /// Confirms finished orders whose messages are out. A confirmation that fails is left to
    /// the Supervisor, which finds the order in the due index.
    async fn confirm(&self, finished: Vec<(usize, Order, Arc<Workflow>)>, answers: &[Handled]) {
        let sent = finished
            .into_iter()
            .filter(|(index, _, _)| answers[*index].is_done());
        let orders: Vec<_> = sent.map(|(_, order, workflow)| (order, workflow)).collect();
        confirm_all(
            &self.store,
            &self.entropy,
            &orders,
            self.settings.timing,
            self.clock.now(),
        )
        .await;
    }

    fn refuse(
        &self,
        index: usize,
        record: &InputRecord,
        cause: &Cause,
    ) -> impl Iterator<Item = (usize, Envelope)> + use<S, B, C, E> {
        tracing::warn!(
            metric = metric::DEAD_LETTER,
            topic = record.topic,
            partition = record.partition,
            offset = record.offset,
            cause = cause.message,
            "record dead-lettered"
        );
        dead_letter(record, cause, self.clock.now())
            .into_iter()
            .map(move |m| (index, m))
    }

    /// Publish: all at once; a record with an unacknowledged message is to be delivered again.
    async fn publish(&self, messages: Vec<(usize, Envelope)>, answers: &mut [Handled]) {
        if messages.is_empty() {
            return;
        }
        let (owners, messages): (Vec<usize>, Vec<Envelope>) = messages.into_iter().unzip();
        let results = self.bus.publish(messages).await;
        for (index, result) in owners.into_iter().zip(results) {
            if let Err(e) = result
                && !planted(Bug::SchedulerSendUnheard)
            {
                answers[index] = Handled::Again(e.to_string());
            }
        }
    }
}

/// The record that asks for an order in the place of one that is too large to be kept.
fn wake(order: &OrderId) -> Vec<u8> {
    let message = SchedulerMessage::Retry(Retry {
        order_id: order.clone(),
    });
    serde_json::to_vec(&message).unwrap_or_default()
}

fn decode(index: usize, record: &InputRecord, now: Timestamp) -> Result<Work, Cause> {
    let message: SchedulerMessage = crate::decode::message(record, "not-a-scheduler-message")?;
    let id = match &message {
        SchedulerMessage::Accepted(a) => &a.order_id,
        SchedulerMessage::Retry(r) => &r.order_id,
        SchedulerMessage::Reply(r) => &r.order_id,
    };
    let bytes = record.value.as_ref().map_or(0, Vec::len);
    Ok(Work {
        index,
        id: id.clone(),
        cacheable: bytes <= MAX_DETAILS_BYTES,
        message,
        unread: u64::try_from(record.timestamp_ms).map_or(Millis(0), |at| now.since(Timestamp(at))),
        is_passed: false,
    })
}

fn ignored(work: &Work, order: &Order, reason: Reason) {
    tracing::debug!(
        order = %work.id,
        state = order.state.name(),
        ?reason,
        "event changes nothing"
    );
}

/// Says loudly that an invariant does not hold.
pub(crate) fn report_breaches(breaches: &[invariants::Breach]) {
    for breach in breaches {
        tracing::error!(
            metric = metric::INVARIANT_BREACH,
            invariant = breach.invariant,
            seen = breach.seen,
            "INVARIANT BREACH"
        );
    }
}

/// Writes down that all messages of finished orders are out. Losing a race, or failing, is
/// harmless: the order stays in the due index and is confirmed by a later sweep.
pub(crate) async fn confirm_all<S: StateStore, E: Entropy>(
    store: &S,
    entropy: &E,
    orders: &[(Order, Arc<Workflow>)],
    timing: triad_core::Timing,
    now: triad_core::Timestamp,
) -> usize {
    let writes: Vec<Write> = orders
        .iter()
        .filter_map(|(order, workflow)| {
            let ctx = Context {
                workflow,
                details: &Value::Null,
                timing,
            };
            match decide(&ctx, order, Event::Confirmed, now) {
                Ok(Decision::Transition(next)) => Some(Write {
                    expected: order.version,
                    next: Arc::new(*next),
                    token: entropy.next_u64(),
                }),
                _ => None,
            }
        })
        .collect();
    if writes.is_empty() {
        return 0;
    }
    let results = store.commit(writes).await;
    results
        .iter()
        .filter(|r| matches!(r, Ok(Written::Written)))
        .count()
}
