//! The agent: wraps one remote service with retry, deadline and a stable idempotency key.
//!
//! It knows requests and replies and nothing of orders or workflows. A step's time runs from when
//! an agent takes the request, not from when it was made: waiting in the agent's topic is nobody's
//! failure. What an agent has taken it answers, a time-out included; what another one has taken it
//! leaves to that one. After complete-by, which
//! bounds the waiting too, it starts nothing and sends nothing: the Supervisor has taken over.

mod attempts_in_hand;
mod guard;
mod ledger;
mod rate;
mod traced;
mod usage;
mod work;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::stream::{self, StreamExt};
use lru::LruCache;
use triad_core::agent::Span;
use triad_core::message::{Pace, ReplyOutcome, StepRequest};
use triad_core::render;
use triad_core::{Attempt, Direction, Envelope, Failure, FailureKind, IdempotencyKey, Timestamp};
use triad_workflow::{AgentName, Millis};

use crate::control::ControlStore;
use crate::dead_letter::{self, Cause, dead_letter};
use crate::decode::{self, NoMessage};
use crate::handled::{Handled, Redelivery};
use crate::metric;
use crate::misconfigured::Misconfigured;
use crate::ports::{Bus, Clock, Entropy, StoreError};
use crate::record::InputRecord;
use crate::remote::{AnyRemote, RemoteService};
use crate::settings::Settings;
use attempts_in_hand::InHand;
use guard::Guard;
use traced::{Hop, RequestResult as CameOf};
use usage::Counted;
pub use usage::{CLASSES_MS, Usage};
use work::Worked;

/// By which name alerts and metrics call this handler.
const HANDLER: &str = "agent";
/// The time that a call may need, where the agent's process ends soon: an attempt of which the calls are counted
/// is taken only if this is left, or half of what the process had.
const ONE_CALL: Millis = Millis(10_000);
/// Answers that an agent process remembers, to answer a redelivered request without a call.
const REMEMBERED: usize = 4_096;

/// The remote services that one process calls, one for each agent's name. Clones share the
/// services.
#[derive(Clone, Default)]
pub struct Remotes(BTreeMap<AgentName, Arc<dyn AnyRemote>>);

impl Remotes {
    /// A set without any remote service; [`with`](Self::with) adds them.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the remote service of an agent, in place of an earlier one of the same name.
    #[must_use]
    pub fn with(mut self, agent: AgentName, service: impl RemoteService) -> Self {
        self.0.insert(agent, Arc::new(service));
        self
    }

    /// The agents' names, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &AgentName> {
        self.0.keys()
    }
}

/// What an agent says of a request that has waited for so long in its topic that the time of its
/// step is no longer to be had before complete-by. Nothing was called and nothing has failed.
fn waited_too_long(now: Timestamp) -> ReplyOutcome {
    let text = "it waited too long in the agent's topic to be begun";
    ReplyOutcome::Deferred {
        until: now,
        opens: None,
        failure: Failure::new(FailureKind::Transient, "queue", text),
        maybe_applied: false,
    }
}

/// How long a request waited for its agent, and how long the answer took.
fn pace(record: &InputRecord, taken: Timestamp, now: Timestamp) -> Pace {
    let written = u64::try_from(record.timestamp_ms).map_or(taken, Timestamp);
    Pace {
        waited_ms: taken.since(written).0,
        took_ms: now.since(taken).0,
    }
}

/// The end of the time of this process.
#[derive(Debug, Clone, Copy)]
struct ProcessEnd {
    until: Timestamp,
    /// What must be left of it for an attempt of which the calls are counted.
    least: Millis,
}

impl ProcessEnd {
    /// The end of a time that begins now. It may be shorter than a call.
    fn of(until: Timestamp, now: Timestamp) -> Self {
        let half = Millis(until.since(now).0 / 2);
        Self {
            until,
            least: ONE_CALL.min(half),
        }
    }

    /// Whether an attempt that is taken now may make a call.
    fn leaves_a_call(self, request: &StepRequest, span: Span, now: Timestamp) -> bool {
        let left = self.until.since(now);
        let least = self.least.min(span.ends.since(now));
        left > Millis(0) && (!request.counted || left >= least)
    }
}

/// What tells one attempt from all others.
type AttemptKey = (IdempotencyKey, Direction, Attempt);

/// The agent handler. One process may run several agents, one for each entry of its [`Remotes`]. `S` is the
/// control store, `B` the bus, `C` the clock, `E` the entropy.
pub struct Agent<S, B, C, E> {
    remotes: Remotes,
    control: S,
    guards: BTreeMap<AgentName, Guard>,
    counted: BTreeMap<AgentName, Counted>,
    bus: B,
    clock: C,
    entropy: E,
    settings: Settings,
    remembered: Mutex<LruCache<AttemptKey, (u32, ReplyOutcome)>>,
    in_hand: InHand,
    /// When this process ends, in milliseconds since 1970; the greatest number as long as nobody has said.
    ends_by: AtomicU64,
    misconfigured: Misconfigured,
}

impl<S: ControlStore, B: Bus, C: Clock, E: Entropy> Agent<S, B, C, E> {
    /// A handler for the agents in `remotes`, over the other ports. The limits of each agent are
    /// those in `settings`. Nothing is read or called yet.
    pub fn new(
        remotes: Remotes,
        control: S,
        bus: B,
        clock: C,
        entropy: E,
        settings: Settings,
    ) -> Self {
        let guard = |name: &AgentName| {
            let guard = Guard::new(name.clone(), &settings);
            (name.clone(), guard)
        };
        let counted = |name: &AgentName| {
            let limits = settings.downstreams.get(name);
            let room = limits.and_then(|limits| limits.concurrency);
            let room = room.unwrap_or(settings.agent_concurrency);
            (name.clone(), Counted::with_room(room))
        };
        let remembered = NonZeroUsize::new(REMEMBERED).expect("not zero");
        Self {
            guards: remotes.names().map(guard).collect(),
            counted: remotes.names().map(counted).collect(),
            remotes,
            control,
            bus,
            clock,
            entropy,
            settings,
            remembered: Mutex::new(LruCache::new(remembered)),
            in_hand: InHand::default(),
            ends_by: AtomicU64::new(u64::MAX),
            misconfigured: Misconfigured::new(HANDLER),
        }
    }

    /// Says that this process ends at a moment: no call goes on beyond it, whatever
    /// [`handle_one`](Self::handle_one) was told, and a counted attempt is taken only if a call fits before it.
    pub fn end_by(&self, until: Timestamp) {
        self.ends_by.store(until.0, Ordering::Relaxed);
    }

    /// The earlier of two ends of this process's time: the one that is given, and the process's own.
    fn until(&self, given: Option<Timestamp>) -> Option<Timestamp> {
        let own = self.ends_by.load(Ordering::Relaxed);
        let own = (own < u64::MAX).then_some(Timestamp(own));
        given.into_iter().chain(own).min()
    }

    /// How much of its room each agent uses in this process, and the counts of its calls, by the agent's
    /// name.
    pub fn usage(&self) -> BTreeMap<AgentName, Usage> {
        let all = self.counted.iter();
        all.map(|(name, counted)| (name.clone(), counted.now()))
            .collect()
    }

    /// Handles every record of a batch as [`handle_one`](Self::handle_one) does: the service is called and
    /// the reply is sent. The answer has one entry for each record, in their order. At most
    /// [`Settings::agent_concurrency`] records are worked on at once; 0 counts as 1.
    ///
    /// `until` is the moment by which this process must be done. A request that cannot be finished by then
    /// is answered with [`Redelivery::OutOfTime`]. `None`: only the requests' own deadlines count.
    pub async fn handle(&self, records: &[InputRecord], until: Option<Timestamp>) -> Vec<Handled> {
        self.handle_each(records, until, &|_| {}).await
    }

    /// Does what [`handle`](Self::handle) does, and calls `done` with a record's place in the batch
    /// (from 0) as soon as the answer about this record is [`Handled::Done`]. It is for a caller that may
    /// have to end before the slowest record is finished.
    pub async fn handle_each(
        &self,
        records: &[InputRecord],
        until: Option<Timestamp>,
        done: &(dyn Fn(usize) + Sync),
    ) -> Vec<Handled> {
        let ends = until.map(|until| ProcessEnd::of(until, self.clock.now()));
        let one = |(place, record)| async move {
            let handled = self.handle_until(record, ends).await;
            if handled.is_done() {
                done(place);
            }
            handled
        };
        // Collected first: as a lazy closure over references the whole would not be `Send`.
        let work: Vec<_> = records.iter().enumerate().map(one).collect();
        stream::iter(work)
            .buffered(self.settings.agent_concurrency.max(1))
            .collect()
            .await
    }

    /// Handles one request: calls the service as often as the request allows, and sends the reply.
    /// A record that is no request for an agent of this process is dead-lettered. `until` is the moment by
    /// which this process must be done: see [`handle`](Self::handle).
    ///
    /// From complete-by less the clock skew on, nothing is called and no reply is sent; the answer
    /// is [`Handled::Done`]. A store or a bus that fails, and a request that cannot be finished by `until`,
    /// lead to [`Handled::Redeliver`].
    pub async fn handle_one(&self, record: &InputRecord, until: Option<Timestamp>) -> Handled {
        let ends = until.map(|until| ProcessEnd::of(until, self.clock.now()));
        self.handle_until(record, ends).await
    }

    async fn handle_until(&self, record: &InputRecord, ends: Option<ProcessEnd>) -> Handled {
        let handled = self.take(record, ends).await;
        self.misconfigured.note(std::slice::from_ref(&handled));
        self.misconfigured
            .publish_alert(&self.bus, &self.clock)
            .await;
        handled
    }

    async fn take(&self, record: &InputRecord, ends: Option<ProcessEnd>) -> Handled {
        let (request, remote) = match self.decode(record) {
            Ok(found) => found,
            Err(NoMessage::Newer(why)) => return Handled::Redeliver(Redelivery::Newer(why)),
            Err(NoMessage::Never(cause)) => {
                let letter = dead_letter(record, &cause, self.clock.now());
                let mut unsent = dead_letter::send(&self.bus, vec![((), letter)]).await;
                return unsent.pop().map_or(Handled::Done, |((), why)| why.into());
            }
        };
        let hop = self.hop(record, &request);
        let mut came = CameOf::default();
        let attempt = self.attempt(record, &request, &*remote, ends, hop, &mut came);
        let handled = attempt.await;
        self.end_span(record, &request, hop, &came, &handled);
        handled
    }

    /// One attempt: the calls that it may make, and its reply. What came of it is put into `came`, for
    /// its span.
    async fn attempt(
        &self,
        record: &InputRecord,
        request: &StepRequest,
        remote: &dyn AnyRemote,
        ends: Option<ProcessEnd>,
        hop: Hop,
        came: &mut CameOf,
    ) -> Handled {
        let done: AttemptKey = (
            request.idempotency_key.clone(),
            request.direction,
            request.attempt,
        );
        let _in_hand = self.in_hand.take(&done).await;
        let taken = self.clock.now();
        metric::taken_up(HANDLER, std::slice::from_ref(record), taken);
        let span = Span::of(request, self.settings.timing.skew, taken);
        let least = ONE_CALL;
        let ends = ends.or_else(|| self.until(None).map(|until| ProcessEnd { until, least }));
        let remembered = self.lock().get(&done).cloned();
        let worked = match remembered {
            Some((calls, outcome)) => Worked::Answer(calls, outcome),
            // Before the claim: it would use up the allowance of an attempt that nobody makes.
            None if ends.is_some_and(|ends| !ends.leaves_a_call(request, span, taken)) => {
                Worked::Interrupted { called: false }
            }
            // Another delivery may have taken it. The Supervisor asks the ledger.
            None if span.is_cut_short(request, taken) && request.counted => Worked::Silence,
            None if span.is_cut_short(request, taken) => Worked::Answer(0, waited_too_long(taken)),
            None => match self.claim(request, span).await {
                Ok(true) => {
                    let until = ends.map(|ends| ends.until);
                    let worked = self.work(request, span, remote, hop, until).await;
                    if matches!(worked, Worked::Interrupted { called: false }) && request.counted {
                        self.give_back(request).await;
                    }
                    worked
                }
                Ok(false) => Worked::Silence,
                Err(e) => return e.into(),
            },
        };
        metric::attempted(&request.agent, request.direction, worked.name());
        match worked {
            Worked::Answer(calls, outcome) => {
                came.of(calls, &outcome, hop.span.is_some());
                // What was deferred may be done when it is delivered again.
                if !matches!(outcome, ReplyOutcome::Deferred { .. }) || request.counted {
                    self.lock().put(done, (calls, outcome.clone()));
                }
                let now = self.clock.now();
                if now >= span.silent_from {
                    return Handled::Done;
                }
                let pace = pace(record, taken, now);
                let reply = render::reply(request, calls, outcome, pace, now, hop.trace);
                self.send(reply, hop).await
            }
            Worked::Silence => {
                tracing::info!(order = %request.order_id, step = %request.step, attempt = %request.attempt, "silent: complete-by has come, or is too near to begin, or another delivery has taken the attempt");
                Handled::Done
            }
            Worked::Interrupted { .. } => Handled::Redeliver(Redelivery::OutOfTime),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LruCache<AttemptKey, (u32, ReplyOutcome)>> {
        self.remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn decode(&self, record: &InputRecord) -> Result<(StepRequest, Arc<dyn AnyRemote>), NoMessage> {
        let now = self.clock.now();
        let request: StepRequest = decode::message(record, "not-a-request", now)?;
        let remote = self.remotes.0.get(&request.agent).cloned().ok_or_else(|| {
            let text = format!("this process has no agent {}", request.agent);
            Cause::new("unknown-agent", text)
        })?;
        Ok((request, remote))
    }

    /// Whether this delivery may work on a request: true if its calls are not counted, if nobody else has taken
    /// the attempt, or if it is over anyhow. What another delivery has taken is left to it: that one may be about
    /// to call, and to answer, until complete-by. A word of this one that the effect is in doubt would have the
    /// service asked whether it has happened, by a probe or by an operator, while it may still happen. Where
    /// nothing is heard of it the Supervisor counts what it may have called.
    async fn claim(&self, request: &StepRequest, span: Span) -> Result<bool, StoreError> {
        let is_over = self.clock.now() >= span.silent_from;
        if !request.counted || is_over {
            return Ok(true);
        }
        ledger::claim(&self.control, &self.entropy, request).await
    }

    /// Gives an attempt back that was claimed and not called for. Where that fails it counts as called for.
    async fn give_back(&self, request: &StepRequest) {
        if let Err(e) = ledger::give_back(&self.control, &self.entropy, request).await {
            tracing::warn!(order = %request.order_id, step = %request.step, attempt = %request.attempt, error = %e, "an attempt that nobody made could not be given back");
        }
    }

    async fn send(&self, message: Envelope, hop: Hop) -> Handled {
        let tracing = self.tracing();
        let outlines = tracing.outlines(std::slice::from_ref(&message));
        let began = tracing.now();
        let results = self.bus.publish(vec![message]).await;
        for (outline, result) in outlines.iter().zip(&results) {
            let result = result.as_ref().copied();
            tracing.sent(hop.span.as_ref(), None, outline, began, result);
        }
        match results.into_iter().find_map(Result::err) {
            None => Handled::Done,
            Some(e) => e.into(),
        }
    }
}
