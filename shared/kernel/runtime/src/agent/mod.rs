//! The agent: wraps one remote service with retry, deadline and a stable idempotency key.
//!
//! An agent handles requests and replies, and does not depend on orders or workflows. A step's time runs from when an
//! agent takes the request, not from when it was made: waiting in the agent's topic is not a failure. An agent
//! replies to every attempt that it has taken, also after a timeout, and leaves attempts that another agent has taken
//! to that agent. After complete-by, which bounds the waiting too, it starts and sends nothing: the Supervisor takes
//! over.

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

/// Name of this handler in alerts and metrics.
const HANDLER: &str = "agent";
/// Time reserved for a call if the agent's process ends soon: a counted attempt is taken only if this is left, or
/// half of the time that the process had.
const ONE_CALL: Millis = Millis(10_000);
/// Replies that an agent process caches, so that a redelivered request needs no call.
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

/// Outcome of a request that has waited in its topic for so long that the step's attempt timeout no longer fits
/// before complete-by. No call was made and nothing has failed.
fn waited_too_long(now: Timestamp) -> ReplyOutcome {
    let text = "the request waited too long in the agent's topic to be started";
    ReplyOutcome::Deferred {
        until: now,
        opens: None,
        failure: Failure::new(FailureKind::Transient, "queue", text),
        maybe_applied: false,
    }
}

/// How long a request waited for its agent, and how long the reply took.
fn pace(record: &InputRecord, taken: Timestamp, now: Timestamp) -> Pace {
    let written = u64::try_from(record.timestamp_ms).map_or(taken, Timestamp);
    Pace {
        waited_ms: taken.since(written).0,
        took_ms: now.since(taken).0,
    }
}

/// The end of this process's time.
#[derive(Debug, Clone, Copy)]
struct ProcessEnd {
    until: Timestamp,
    /// Least time that must be left for a counted attempt.
    least: Millis,
}

impl ProcessEnd {
    /// The end of a time that begins now. The time may be shorter than a call.
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

/// Identity of an attempt.
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
    /// When this process ends, in milliseconds since 1970; `u64::MAX` until it is set.
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

    /// Sets the moment at which this process ends: no call lasts beyond it, whatever `until`
    /// [`handle_one`](Self::handle_one) has, and a counted attempt is taken only if a call fits before it.
    pub fn end_by(&self, until: Timestamp) {
        self.ends_by.store(until.0, Ordering::Relaxed);
    }

    /// The earlier end: the given one, or the process's own.
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
        // Collected first: as a lazy closure over references the future would not be `Send`.
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

    /// Handles one attempt: its calls, and its reply. Writes the result to `came`, for the span.
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
            // Checked before the claim, which would use up the allowance without a call.
            None if ends.is_some_and(|ends| !ends.leaves_a_call(request, span, taken)) => {
                Worked::Interrupted { called: false }
            }
            // Another delivery may have taken the attempt. The Supervisor checks the call ledger.
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
                // A deferred attempt may be made when the request is redelivered.
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
                tracing::info!(order = %request.order_id, step = %request.step, attempt = %request.attempt, "no reply: complete-by has come or is too near, or another delivery has taken the attempt");
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

    /// Whether this delivery may work on a request: true if its calls are not counted, if no other delivery has taken
    /// the attempt, or if the attempt is over. Another delivery that has taken it may still call and reply until
    /// complete-by. If this one replied that the effect is in doubt, a probe or an operator would check whether the
    /// effect happened while it still may. If no reply comes, the Supervisor counts the whole allowance as used.
    async fn claim(&self, request: &StepRequest, span: Span) -> Result<bool, StoreError> {
        let is_over = self.clock.now() >= span.silent_from;
        if !request.counted || is_over {
            return Ok(true);
        }
        ledger::claim(&self.control, &self.entropy, request).await
    }

    /// Gives back an attempt that was claimed without a call. If that fails, it counts as taken.
    async fn give_back(&self, request: &StepRequest) {
        if let Err(e) = ledger::give_back(&self.control, &self.entropy, request).await {
            tracing::warn!(order = %request.order_id, step = %request.step, attempt = %request.attempt, error = %e, "an attempt without a call could not be given back in the call ledger");
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
