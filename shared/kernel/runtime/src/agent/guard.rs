//! Checks before every call to a downstream: its circuit breaker, operators' pauses, its rate limit and its
//! concurrency limit.
//!
//! Breaker and pauses are one record of the control store, read at most once in
//! [`Settings::refresh_downstreams`](crate::settings::Settings::refresh_downstreams) and cached in between; the
//! window of the latest calls belongs to this instance. If the store cannot be read, the last known record stays in
//! force.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::{Either, select};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use triad_core::breaker::{Refusal, Window, timer};
use triad_core::downstream::{self, Admission, Downstream};
use triad_core::retry_budget::RetryBudget;
use triad_core::{Attempt, Failure, FailureKind, OrderId, StepRequest, Timestamp};
use triad_workflow::{AgentName, Millis};

use super::rate::Rate;
use crate::control::ControlStore;
use crate::downstream_record::{self, RecordPorts};
use crate::misconfigured::Misconfigured;
use crate::ports::{Bus, Clock, Entropy, Written};
use crate::settings::{DownstreamSettings, Settings};

/// Tries of a conditional write with competing writers.
const MAX_TRIES: usize = 4;
/// Longest wait for the rate or the concurrency limit; work that would wait longer is deferred.
const LONGEST_WAIT: Millis = Millis(2_000);
/// Work that was deferred because a limit was reached is due again within this.
const PUT_OFF: Millis = Millis(5_000);
/// Bound of the random spread of work that waits for the same moment.
const SPREAD: Millis = Millis(30_000);
/// Age from which any reader of the record sends a change's message that its writer has not sent.
const TELL_AFTER: Millis = Millis(5_000);

/// Result of a call, for the breaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CallResult {
    /// The service answered, possibly with a refusal.
    Answered,
    /// A transient failure. With `retry_after` the service asked not to be called for that long.
    Failed {
        code: String,
        retry_after: Option<Millis>,
    },
    /// The service does not accept its caller: for this order, or for all.
    CallerRefused { code: String },
    /// The call was abandoned for another reason.
    Nothing,
}

/// The guard's verdict on a call that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallEnd {
    /// The result stands as it is in [`CallResult`].
    Well,
    /// The service refuses the caller for this order only: the attempt has failed.
    Failed,
}

/// Permission to make one call.
pub(super) struct CallPermission {
    is_probe: bool,
    _permit: Option<OwnedSemaphorePermit>,
}

impl CallPermission {
    /// Whether the call is a probe of the breaker.
    pub(super) fn is_probe(&self) -> bool {
        self.is_probe
    }
}

/// No call may be made now.
pub(super) struct Wait {
    /// When the request is due again.
    pub until: Timestamp,
    /// No call may be made before this; `until` adds a random spread. `None` if unknown.
    pub opens: Option<Timestamp>,
    /// Why no call may be made.
    pub why: Failure,
}

#[derive(Default)]
struct DownstreamView {
    record: Downstream,
    version: Option<u64>,
    read_at: Option<Timestamp>,
    window: Window,
    retries: RetryBudget,
}

/// The guard of one downstream in one process.
pub(super) struct Guard {
    agent: AgentName,
    settings: DownstreamSettings,
    refresh: Millis,
    recheck: Millis,
    known: Mutex<DownstreamView>,
    concurrency: Option<Arc<Semaphore>>,
    rate: Option<Rate>,
}

/// The ports that a guard uses.
pub(super) struct Ports<'a, S, B, C, E> {
    /// The control store, with the downstream's record.
    pub control: &'a S,
    /// The bus, for events of the breaker.
    pub bus: &'a B,
    /// The clock.
    pub clock: &'a C,
    /// Random numbers, for write tokens and jitter.
    pub entropy: &'a E,
    /// Errors that only an operator can repair.
    pub misconfigured: &'a Misconfigured,
}

impl<S, B, C, E> Clone for Ports<'_, S, B, C, E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S, B, C, E> Copy for Ports<'_, S, B, C, E> {}

impl<'a, S, B, C, E> Ports<'a, S, B, C, E> {
    fn of_record(self) -> RecordPorts<'a, S, B, E> {
        RecordPorts {
            control: self.control,
            bus: self.bus,
            entropy: self.entropy,
        }
    }
}

impl Guard {
    pub(super) fn new(agent: AgentName, all: &Settings) -> Self {
        let settings = all.downstreams.get(&agent).copied().unwrap_or_default();
        Self {
            concurrency: settings
                .concurrency
                .map(|n| Arc::new(Semaphore::new(n.max(1)))),
            rate: settings.rate_per_second.map(|r| Rate::new(&agent, r)),
            agent,
            settings,
            refresh: all.refresh_downstreams,
            recheck: all.recheck_held,
            known: Mutex::default(),
        }
    }

    /// Asks for permission to make one call, which may take at most `room`. A call that repeats an earlier one counts
    /// against the retry budget.
    pub(super) async fn enter<S, B, C, E>(
        &self,
        ports: Ports<'_, S, B, C, E>,
        request: &StepRequest,
        repeats: bool,
        room: Millis,
    ) -> Result<CallPermission, Wait>
    where
        S: ControlStore,
        B: Bus,
        C: Clock,
        E: Entropy,
    {
        self.refresh(ports).await;
        let now = ports.clock.now();
        // Work that waits for a breaker is due again after its wait plus a random part of the same length. Work that
        // an operator holds back is due in the second half of its wait: the operator was promised the longest wait,
        // and a longer one would protect no service.
        self.admitted(request, now).map_err(|wait| {
            let spread = wait.until.since(now).0.clamp(1, SPREAD.0);
            let spread = ports.entropy.next_u64() % spread;
            let (until, opens) = match wait.why.kind {
                // The end of a pause is unknown, so other orders may try as soon as this one.
                FailureKind::Operator => {
                    let until = wait.until.minus(Millis(spread / 2));
                    (until, until)
                }
                _ => (wait.until.plus(Millis(spread)), wait.until),
            };
            Wait {
                until,
                opens: Some(opens),
                ..wait
            }
        })?;
        let patience = LONGEST_WAIT.min(Millis(room.0 / 4));
        let permit = self.permit(ports, patience).await?;
        if let Some(rate) = &self.rate {
            rate.take(ports.control, ports.clock, ports.entropy, patience)
                .await
                .map_err(|until| Wait {
                    until: until.plus(Millis(ports.entropy.next_u64() % PUT_OFF.0)),
                    opens: None,
                    why: limited("rate-limit"),
                })?;
        }
        // The wait may have been long enough for the breaker to change.
        let is_probe = self.admitted(request, ports.clock.now())? == Admission::Probe;
        self.pay(ports, repeats)?;
        if is_probe {
            self.claim_probe(ports, request).await?;
        }
        Ok(CallPermission {
            is_probe,
            _permit: permit,
        })
    }

    /// Records the result of a call for an order.
    pub(super) async fn leave<S, B, C, E>(
        &self,
        ports: Ports<'_, S, B, C, E>,
        order: &OrderId,
        pass: CallPermission,
        seen: CallResult,
    ) -> CallEnd
    where
        S: ControlStore,
        B: Bus,
        C: Clock,
        E: Entropy,
    {
        let settings = self.settings.breaker;
        let now = ports.clock.now();
        match seen {
            CallResult::Nothing => {}
            CallResult::Answered => {
                self.lock().window.answered(order, &settings);
                if pass.is_probe {
                    self.change(ports, "the probes succeeded", |d| {
                        d.breaker.probe_succeeded(&settings, now)
                    })
                    .await;
                }
            }
            CallResult::CallerRefused { code } => {
                let refusal = self.lock().window.refused(order, &settings);
                self.take_refusal(ports, refusal, pass.is_probe, &code)
                    .await;
                if refusal == Refusal::OfOne {
                    return CallEnd::Failed;
                }
            }
            CallResult::Failed { code, retry_after } => {
                let asked = retry_after.map(|asked| asked.min(settings.max_open));
                let (is_bad, binds_all, (failed, all)) = {
                    let window = &mut self.lock().window;
                    let is_bad = window.failed(order, &settings);
                    let binds_all =
                        asked.is_some_and(|a| window.asked(order, now.plus(a), &settings, now));
                    (is_bad, binds_all, window.counts())
                };
                if is_bad || pass.is_probe || binds_all {
                    let asked = asked.filter(|_| binds_all || pass.is_probe);
                    let why = match asked {
                        Some(asked) => {
                            format!("{code}, and the service asks for a wait of {asked}")
                        }
                        None if pass.is_probe => format!("a probe failed: {code}"),
                        None => {
                            format!("the last calls of {failed} of {all} orders failed: {code}")
                        }
                    };
                    let random = ports.entropy.next_u64();
                    self.change(ports, &why, |d| {
                        if pass.is_probe && !is_bad {
                            return d.breaker.probe_failed(&settings, asked, random, now);
                        }
                        d.breaker.tripped(&settings, asked, random, now)
                    })
                    .await;
                }
            }
        }
        CallEnd::Well
    }

    /// Applies a refusal of the caller to the breaker.
    async fn take_refusal<S, B, C, E>(
        &self,
        ports: Ports<'_, S, B, C, E>,
        refusal: Refusal,
        is_probe: bool,
        code: &str,
    ) where
        S: ControlStore,
        B: Bus,
        C: Clock,
        E: Entropy,
    {
        let settings = self.settings.breaker;
        let now = ports.clock.now();
        let random = ports.entropy.next_u64();
        let why = format!(
            "{code}: the service does not accept this agent; repair its credentials, rights or address"
        );
        self.change(ports, &why, |d| match refusal {
            Refusal::OfAll => d.breaker.tripped(&settings, None, random, now),
            Refusal::Alone => d.breaker.opened_briefly(&settings, random, now),
            Refusal::Unknown | Refusal::OfOne if is_probe => d.breaker.probe_said_nothing(),
            Refusal::Unknown | Refusal::OfOne => None,
        })
        .await;
    }

    /// Takes a repeated call from the retry budget, or pays a first call into it.
    fn pay<S, B, C: Clock, E: Entropy>(
        &self,
        ports: Ports<'_, S, B, C, E>,
        repeats: bool,
    ) -> Result<(), Wait> {
        let settings = &self.settings.retry_budget;
        let now = ports.clock.now();
        let mut known = self.lock();
        if !repeats {
            known.retries.first(settings);
            return Ok(());
        }
        if known.retries.repeat(settings, now) {
            return Ok(());
        }
        let text = "too many calls to the downstream repeat earlier ones";
        Err(Wait {
            until: now.plus(Millis(1 + ports.entropy.next_u64() % PUT_OFF.0)),
            opens: None,
            why: Failure::new(FailureKind::Transient, "retry-budget", text),
        })
    }

    /// Why a call waits for a service that is down.
    fn is_down(&self, why: &str) -> Failure {
        let text = format!("{} is down: {why}", self.agent);
        Failure::new(FailureKind::Transient, "breaker-open", &text)
    }

    /// Deferral after a failed probe: the downstream was known to be unavailable, and the call was made on behalf of
    /// all waiting orders, so this order waits like them.
    pub(super) fn after_probe<E: Entropy>(&self, now: Timestamp, entropy: &E) -> Wait {
        let open = self.settings.breaker.open.0.max(1);
        Wait {
            until: now.plus(Millis(open + entropy.next_u64() % open)),
            opens: Some(now.plus(Millis(open))),
            why: self.is_down("a probe has failed"),
        }
    }

    /// Deferral after the service did not accept its caller, while it is unknown whether it refuses all orders: each
    /// attempt waits longer.
    pub(super) fn after_refusal<E: Entropy>(
        &self,
        why: Failure,
        attempt: Attempt,
        now: Timestamp,
        entropy: &E,
    ) -> Wait {
        let wait = timer(
            &self.settings.breaker,
            attempt.0.saturating_add(1),
            entropy.next_u64(),
        );
        Wait {
            until: now.plus(wait),
            opens: None,
            why,
        }
    }

    /// Deferral because the service asked for a longer wait than the attempt has time for.
    pub(super) fn after_asked(&self, why: Failure, asked: Millis, now: Timestamp) -> Wait {
        Wait {
            until: now.plus(asked.min(self.settings.breaker.max_open)),
            opens: None,
            why,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, DownstreamView> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admitted(&self, request: &StepRequest, now: Timestamp) -> Result<Admission, Wait> {
        let known = self.lock();
        let admission = known.record.admits(
            &self.agent,
            &request.workflow,
            &request.step,
            &self.settings.breaker,
            self.recheck,
            now,
        );
        match admission {
            Admission::Wait(until, why) => Err(Wait {
                until,
                opens: Some(until),
                why,
            }),
            other => Ok(other),
        }
    }

    async fn permit<S, B, C: Clock, E: Entropy>(
        &self,
        ports: Ports<'_, S, B, C, E>,
        patience: Millis,
    ) -> Result<Option<OwnedSemaphorePermit>, Wait> {
        let Some(semaphore) = &self.concurrency else {
            return Ok(None);
        };
        if let Ok(permit) = semaphore.clone().try_acquire_owned() {
            return Ok(Some(permit));
        }
        let turn = std::pin::pin!(semaphore.clone().acquire_owned());
        let sleep = std::pin::pin!(ports.clock.sleep(patience));
        match select(turn, sleep).await {
            Either::Left((Ok(permit), _)) => Ok(Some(permit)),
            // The semaphore is never closed; if the wait is over, the work is deferred.
            Either::Left((Err(_), _)) | Either::Right(_) => Err(Wait {
                until: (ports.clock.now()).plus(Millis(ports.entropy.next_u64() % PUT_OFF.0)),
                opens: None,
                why: limited("concurrency-limit"),
            }),
        }
    }

    /// Writes the breaker with one more probe out; of several instances one succeeds at a time.
    async fn claim_probe<S, B, C, E>(
        &self,
        ports: Ports<'_, S, B, C, E>,
        request: &StepRequest,
    ) -> Result<(), Wait>
    where
        S: ControlStore,
        B: Bus,
        C: Clock,
        E: Entropy,
    {
        for _ in 0..MAX_TRIES {
            let now = ports.clock.now();
            if self.admitted(request, now)? != Admission::Probe {
                return Ok(());
            }
            let (record, version) = self.present();
            let breaker = record.breaker.probing(&self.settings.breaker, now);
            let next = record.with_breaker(breaker, "a probe is sent", now);
            if self.write(ports, next, version).await {
                return Ok(());
            }
        }
        let until = ports.clock.now().plus(self.settings.breaker.open);
        Err(Wait {
            until,
            opens: Some(until),
            why: self.is_down("another instance probes it"),
        })
    }

    /// Changes the breaker by a rule, again on a fresh record after a lost race.
    async fn change<S, B, C, E>(
        &self,
        ports: Ports<'_, S, B, C, E>,
        why: &str,
        rule: impl Fn(&Downstream) -> Option<triad_core::breaker::Breaker> + Send,
    ) where
        S: ControlStore,
        B: Bus,
        C: Clock,
        E: Entropy,
    {
        for _ in 0..MAX_TRIES {
            let (record, version) = self.present();
            let Some(breaker) = rule(&record) else { return };
            let next = record.with_breaker(breaker, why, ports.clock.now());
            if self.write(ports, next, version).await {
                return;
            }
        }
        tracing::warn!(agent = %self.agent, why, "the circuit breaker could not be changed");
    }

    fn present(&self) -> (Downstream, Option<u64>) {
        let known = self.lock();
        (known.record.clone(), known.version)
    }

    /// Writes the record and sends the message of its change; after a lost race, reads the winner's record.
    async fn write<S, B, C, E>(
        &self,
        ports: Ports<'_, S, B, C, E>,
        next: Downstream,
        expected: Option<u64>,
    ) -> bool
    where
        S: ControlStore,
        B: Bus,
        C: Clock,
        E: Entropy,
    {
        match downstream_record::write(ports.of_record(), &self.agent, &next, expected).await {
            Ok(Written::Written | Written::WithMessages) => {
                let changed = !next.last.told;
                let version = expected.unwrap_or(0) + 1;
                self.learn(next.clone(), Some(version), ports.clock.now());
                if changed {
                    self.publish_change(ports, next, version).await;
                }
                true
            }
            Ok(Written::Conflict) => {
                self.read(ports, true).await;
                false
            }
            Err(e) => {
                tracing::warn!(agent = %self.agent, error = %e, "the downstream's record could not be written");
                // The change is in force at least in this process, until the record is read again.
                self.learn(next, expected, ports.clock.now());
                true
            }
        }
    }

    fn learn(&self, record: Downstream, version: Option<u64>, now: Timestamp) {
        let mut known = self.lock();
        if known.record.breaker.name() != record.breaker.name() {
            known.window.clear();
        }
        crate::metric::breaker_is(&self.agent, record.breaker.name());
        known.record = record;
        known.version = version;
        known.read_at = Some(now);
    }

    async fn refresh<S, B, C, E>(&self, ports: Ports<'_, S, B, C, E>)
    where
        S: ControlStore,
        B: Bus,
        C: Clock,
        E: Entropy,
    {
        let now = ports.clock.now();
        let stale = {
            let mut known = self.lock();
            let stale = known
                .read_at
                .is_none_or(|at| now.since(at) >= self.refresh || now < at);
            // One task reads a stale record; the others continue with the cached one unless that is old: after an
            // idle time a whole batch would otherwise call a service that was paused long ago.
            let recent = known
                .read_at
                .is_some_and(|at| now.since(at) < Millis(2 * self.refresh.0) && now >= at);
            if stale && recent {
                known.read_at = Some(now);
            }
            stale
        };
        if !stale {
            return;
        }
        self.read(ports, false).await;
        let (record, version) = self.present();
        let late = !record.last.what.is_empty() && now.since(record.last.at) >= TELL_AFTER;
        if let Some(version) = version
            && !record.last.told
            && late
        {
            self.publish_change(ports, record, version).await;
        }
    }

    async fn read<S, B, C, E>(&self, ports: Ports<'_, S, B, C, E>, consistent: bool)
    where
        S: ControlStore,
        C: Clock,
    {
        match ports
            .control
            .read(downstream::key(&self.agent), consistent)
            .await
        {
            Ok(found) => {
                let version = found.as_ref().map(|f| f.version);
                let record = found.map(|f| serde_json::from_value(f.value));
                match record.transpose() {
                    Ok(record) => {
                        self.learn(record.unwrap_or_default(), version, ports.clock.now());
                    }
                    Err(e) => {
                        tracing::error!(agent = %self.agent, error = %e, "the downstream's record cannot be read");
                        self.lock().read_at = Some(ports.clock.now());
                    }
                }
            }
            Err(e) => {
                tracing::warn!(agent = %self.agent, error = %e, "the downstream's record could not be read; the last known one stays in force");
                ports.misconfigured.note_store(&e);
                self.lock().read_at = Some(ports.clock.now());
            }
        }
    }

    /// Sends the message of the last change to operators, then records that it was sent. If the process dies in
    /// between, the next reader sends it again.
    async fn publish_change<S, B, C, E>(
        &self,
        ports: Ports<'_, S, B, C, E>,
        record: Downstream,
        version: u64,
    ) where
        S: ControlStore,
        B: Bus,
        C: Clock,
        E: Entropy,
    {
        if record.breaker.name() == "open" {
            crate::metric::breaker_opened(&self.agent);
            tracing::warn!(agent = %self.agent, change = record.last.what, "circuit breaker");
        } else {
            tracing::info!(agent = %self.agent, change = record.last.what, "circuit breaker");
        }
        // Calls that wait for this change continue without it.
        let (at, clock) = (ports.of_record(), ports.clock);
        match downstream_record::publish_change(at, clock, &self.agent, &record, version).await {
            Ok(Some((told, version))) => self.learn(told, Some(version), clock.now()),
            Ok(None) => {}
            Err(untold) => {
                tracing::warn!(agent = %self.agent, error = %untold, "a circuit breaker's event is not sent yet");
            }
        }
    }
}

fn limited(code: &str) -> Failure {
    Failure::new(
        FailureKind::Transient,
        code,
        "the downstream's limit is reached",
    )
}
