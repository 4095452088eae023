//! The agent: wraps one remote service with retry, deadline and a stable idempotency key.
//!
//! It knows requests and replies and nothing of orders or workflows. After complete-by it
//! starts nothing and sends nothing: the Supervisor has taken over by then.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::{Either, select};
use futures::stream::{self, StreamExt};
use lru::LruCache;
use triad_core::agent::{Budget, backoff, budget};
use triad_core::message::{MAX_OUTPUT_BYTES, Outcome, StepRequest};
use triad_core::{Attempt, Envelope, Failure, FailureKind, IdempotencyKey, Timestamp, outbox};
use triad_workflow::{AgentName, Millis};

use crate::dead_letter::{Cause, dead_letter};
use crate::decode;
use crate::handled::Handled;
use crate::ports::{Bus, Clock, Entropy};
use crate::record::InputRecord;
use crate::remote::{AnyRemote, Call, Fault, RemoteService};
use crate::settings::Settings;
use crate::submission::trace_of;

/// Answers that an agent process remembers, to answer a redelivered request without a call.
const REMEMBERED: usize = 4_096;

/// The remote services of one process, by agent name.
#[derive(Clone, Default)]
pub struct Remotes(BTreeMap<AgentName, Arc<dyn AnyRemote>>);

impl Remotes {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an agent's remote service.
    #[must_use]
    pub fn with(mut self, agent: AgentName, service: impl RemoteService) -> Self {
        self.0.insert(agent, Arc::new(service));
        self
    }

    /// The agents.
    pub fn names(&self) -> impl Iterator<Item = &AgentName> {
        self.0.keys()
    }
}

type Done = (IdempotencyKey, Attempt);

/// The agent handler; one process may run several agents.
pub struct Agent<B, C, E> {
    remotes: Remotes,
    bus: B,
    clock: C,
    entropy: E,
    settings: Settings,
    remembered: Mutex<LruCache<Done, (u32, Outcome)>>,
}

/// What working on a request came to.
enum Worked {
    /// An answer, and the calls it took.
    Answer(u32, Outcome),
    /// Complete-by has come: silence.
    Silence,
    /// The process must stop before complete-by: deliver the request again.
    Interrupted,
}

/// Faults of one request so far.
struct Tries {
    calls: u32,
    maybe_applied: bool,
    last: Failure,
}

impl<B: Bus, C: Clock, E: Entropy> Agent<B, C, E> {
    /// A handler over its ports.
    pub fn new(remotes: Remotes, bus: B, clock: C, entropy: E, settings: Settings) -> Self {
        let remembered = NonZeroUsize::new(REMEMBERED).expect("not zero");
        Self {
            remotes,
            bus,
            clock,
            entropy,
            settings,
            remembered: Mutex::new(LruCache::new(remembered)),
        }
    }

    /// Handles a batch, several requests at once; the answer has one entry a record, in their
    /// order. `until` is when this process must be done, if before the requests' deadlines.
    pub async fn handle(&self, records: &[InputRecord], until: Option<Timestamp>) -> Vec<Handled> {
        // Collected first: as a lazy closure over references the whole would not be `Send`.
        let work: Vec<_> = records.iter().map(|r| self.handle_one(r, until)).collect();
        stream::iter(work)
            .buffered(self.settings.agent_concurrency.max(1))
            .collect()
            .await
    }

    /// Handles one request.
    pub async fn handle_one(&self, record: &InputRecord, until: Option<Timestamp>) -> Handled {
        let (request, remote) = match self.decode(record) {
            Ok(found) => found,
            Err(cause) => {
                tracing::warn!(
                    topic = record.topic,
                    partition = record.partition,
                    offset = record.offset,
                    cause = cause.message,
                    "record dead-lettered"
                );
                let letter = dead_letter(record, &cause, self.clock.now());
                return self.send(letter.to_vec()).await;
            }
        };
        let trace = trace_of(record);
        let done: Done = (request.idempotency_key.clone(), request.attempt);
        let remembered = self.lock().get(&done).cloned();
        let worked = match remembered {
            Some((calls, outcome)) => Worked::Answer(calls, outcome),
            None => self.work(&request, &*remote, trace.as_deref(), until).await,
        };
        match worked {
            Worked::Answer(calls, outcome) => {
                self.lock().put(done, (calls, outcome.clone()));
                if self.is_over(&request) {
                    return Handled::Done;
                }
                let reply = outbox::reply(&request, calls, outcome, trace.as_deref());
                self.send(vec![reply]).await
            }
            Worked::Silence => {
                tracing::info!(order = %request.order_id, step = %request.step, attempt = %request.attempt, "complete-by has come: silent");
                Handled::Done
            }
            Worked::Interrupted => Handled::Again("time is up before the request's".into()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LruCache<Done, (u32, Outcome)>> {
        self.remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn decode(&self, record: &InputRecord) -> Result<(StepRequest, Arc<dyn AnyRemote>), Cause> {
        let request: StepRequest = decode::message(record, "not-a-request")?;
        let remote = self.remotes.0.get(&request.agent).cloned().ok_or_else(|| {
            let text = format!("this process has no agent {}", request.agent);
            Cause::new("unknown-agent", text)
        })?;
        Ok((request, remote))
    }

    fn is_over(&self, request: &StepRequest) -> bool {
        let stop = request.complete_by.minus(self.settings.timing.skew);
        self.clock.now() >= stop
    }

    /// Calls until there is an answer, no time or no allowance.
    async fn work(
        &self,
        request: &StepRequest,
        remote: &dyn AnyRemote,
        trace: Option<&str>,
        until: Option<Timestamp>,
    ) -> Worked {
        let skew = self.settings.timing.skew;
        let mut tries = Tries {
            calls: 0,
            maybe_applied: false,
            last: Failure::new(
                FailureKind::Transient,
                "no-allowance",
                "no call was allowed",
            ),
        };
        loop {
            let now = self.clock.now();
            let left = match budget(
                tries.calls,
                request.allowance,
                request.complete_by,
                skew,
                now,
            ) {
                Budget::Call(left) => left,
                Budget::OutOfTime => return Worked::Silence,
                Budget::OutOfCalls => return tries.exhausted(),
            };
            let room = until.map_or(left, |u| left.min(u.since(now)));
            if room == Millis(0) {
                return Worked::Interrupted;
            }
            tries.calls += 1;
            let call = Call {
                order_id: &request.order_id,
                step: &request.step,
                direction: request.direction,
                idempotency_key: &request.idempotency_key,
                undoes: request.undoes.as_ref(),
                action: &request.action,
                input: &request.input,
                time_left: room,
                attempt: request.attempt.0,
                traceparent: trace,
            };
            let sleep = std::pin::pin!(self.clock.sleep(room));
            let wait = match select(remote.call(call), sleep).await {
                Either::Left((Ok(output), _)) => return tries.succeeded(output),
                Either::Left((Err(Fault::Permanent { code, message }), _)) => {
                    return tries.refused(&code, &message);
                }
                Either::Left((
                    Err(Fault::Transient {
                        code,
                        message,
                        retry_after,
                        maybe_applied,
                    }),
                    _,
                )) => {
                    tries.maybe_applied |= maybe_applied;
                    tries.last = Failure::new(FailureKind::Transient, &code, &message);
                    self.wait_before_next(request, tries.calls, retry_after)
                }
                // The call is dropped; the budget says next time round that time is up.
                Either::Right(_) => continue,
            };
            let ends = self.clock.now().plus(wait);
            if ends >= request.complete_by.minus(skew) {
                return tries.exhausted();
            }
            if until.is_some_and(|u| ends >= u) {
                return Worked::Interrupted;
            }
            if tries.calls < request.allowance {
                self.clock.sleep(wait).await;
            }
        }
    }

    fn wait_before_next(
        &self,
        request: &StepRequest,
        calls: u32,
        retry_after: Option<Millis>,
    ) -> Millis {
        let (initial, max) = request.backoff();
        let wait = backoff(calls, initial, max, self.entropy.next_u64());
        retry_after.map_or(wait, |asked| asked.max(wait))
    }

    async fn send(&self, messages: Vec<Envelope>) -> Handled {
        let results = self.bus.publish(messages).await;
        match results.into_iter().find_map(Result::err) {
            None => Handled::Done,
            Some(e) => Handled::Again(e.to_string()),
        }
    }
}

impl Tries {
    fn succeeded(self, output: serde_json::Value) -> Worked {
        let bytes = output.to_string().len();
        let outcome = if bytes <= MAX_OUTPUT_BYTES {
            Outcome::Succeeded { output }
        } else {
            let text = format!("the answer has {bytes} bytes; {MAX_OUTPUT_BYTES} are allowed");
            Outcome::Failed {
                failure: Failure::new(FailureKind::Permanent, "output-too-large", &text),
                maybe_applied: true,
            }
        };
        Worked::Answer(self.calls, outcome)
    }

    fn refused(self, code: &str, message: &str) -> Worked {
        let outcome = Outcome::Failed {
            failure: Failure::new(FailureKind::Permanent, code, message),
            maybe_applied: self.maybe_applied,
        };
        Worked::Answer(self.calls, outcome)
    }

    fn exhausted(self) -> Worked {
        let outcome = Outcome::Failed {
            failure: self.last,
            maybe_applied: self.maybe_applied,
        };
        Worked::Answer(self.calls, outcome)
    }
}
