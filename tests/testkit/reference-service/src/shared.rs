//! State that the connections share: one lock around the book and its file. Waits happen outside of the lock.
//!
//! A call passes these stages: arrive, wait, resolve (judge, write the line, apply it), hold, answer. Architecture
//! invariant: the line is in the file before the state changes and before the caller is answered; no wait happens
//! under the lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use crate::answers::{PlayedAnswers, PlayedCall};
use crate::book::{Book, BookFull, LedgerLine};
use crate::call::{Answer, Call};
use crate::contract::{self, judge};
use crate::faults::{Decision, Faults, FaultsError, Mishap};
use crate::ledger_file::LedgerFile;
use crate::summary::{KeyView, Summary};

/// Most calls that may wait at once, for a latency or a stall, inclusive; one more is answered 503 without
/// effect.
pub const MAX_WAITING: usize = 10_000;

/// Number of keys that are read under one lock, so that a long listing does not delay calls.
const PAGE: usize = 512;

/// State that the connections share.
pub(crate) struct ServiceState {
    core: Mutex<Core>,
    answers: PlayedAnswers,
    calls: Vec<PlayedCall>,
    waiting: Arc<Semaphore>,
    invalid: AtomicU64,
    full: AtomicU64,
    pub(crate) stopped: watch::Receiver<bool>,
}

struct Core {
    book: Book,
    file: Option<LedgerFile>,
    faults: Arc<Faults>,
}

/// A call with its number and its faults, before it is resolved.
struct Arrived {
    call: Call,
    number: u32,
    decision: Decision,
}

impl ServiceState {
    pub(crate) fn new(
        book: Book,
        file: Option<LedgerFile>,
        faults: Faults,
        answers: PlayedAnswers,
        calls: Vec<PlayedCall>,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        Self {
            core: Mutex::new(Core {
                book,
                file,
                faults: Arc::new(faults),
            }),
            answers,
            calls,
            waiting: Arc::new(Semaphore::new(MAX_WAITING)),
            invalid: AtomicU64::new(0),
            full: AtomicU64::new(0),
            stopped,
        }
    }

    /// The recorded answer to a call with this method and path, if there is one.
    pub(crate) fn played(&self, method: &str, path: &str) -> Option<&PlayedCall> {
        self.calls.iter().find(|played| played.fits(method, path))
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.core
            .lock()
            .expect("nothing panics while it holds the book")
    }

    pub(crate) fn faults(&self) -> Arc<Faults> {
        self.core().faults.clone()
    }

    pub(crate) fn set_faults(&self, faults: Faults) -> Result<(), FaultsError> {
        faults.validate()?;
        self.core().faults = Arc::new(faults);
        Ok(())
    }

    pub(crate) fn page(&self, from: usize) -> Vec<KeyView> {
        self.core().book.page(from, PAGE)
    }

    pub(crate) fn summary(&self) -> Summary {
        let summary = self.core().book.summary();
        Summary {
            invalid: self.invalid.load(Ordering::Relaxed),
            full: self.full.load(Ordering::Relaxed),
            ..summary
        }
    }

    pub(crate) fn count_invalid(&self) {
        self.invalid.fetch_add(1, Ordering::Relaxed);
    }

    /// The answer to a probe: whether the effect under the key of an action is in place.
    pub(crate) fn probe(&self, service: &str, key: &str) -> Answer {
        let core = self.core();
        if core.faults.plan(service).down {
            return contract::down(core.faults.plan(service).retry_after_s);
        }
        let answer = contract::probe(&core.book, service, key);
        let action = core.book.action(service, key);
        self.answers.to_probe(service, action, answer)
    }

    /// Handles one call from its arrival to its answer.
    pub(crate) async fn call(self: Arc<Self>, call: Call) -> Answer {
        let (arrived, first_ms, hold_ms) = {
            let mut core = self.core();
            let number = match core.book.arrive(&call.head) {
                Ok(number) => number,
                Err(BookFull { .. }) => {
                    self.full.fetch_add(1, Ordering::Relaxed);
                    return ledger_full();
                }
            };
            let head = &call.head;
            let decision = core
                .faults
                .decide(&head.service, &head.key, head.direction, number);
            let (first_ms, hold_ms) = waits(&decision);
            let arrived = Arrived {
                call,
                number,
                decision,
            };
            if first_ms == 0 && hold_ms == 0 {
                return core.resolve(arrived, &self.answers);
            }
            (arrived, first_ms, hold_ms)
        };
        let Ok(permit) = self.waiting.clone().try_acquire_owned() else {
            return self.core().resolve(arrived.given_up(), &self.answers);
        };
        // In a separate task: if the caller disconnects during the wait, the call still takes effect, as at a real
        // service. So an action may arrive after its own compensation.
        let landed = tokio::spawn(async move {
            let _permit = permit;
            let arrived = if self.wait(first_ms).await {
                arrived
            } else {
                arrived.given_up()
            };
            let answer = self.core().resolve(arrived, &self.answers);
            self.wait(hold_ms).await;
            answer
        });
        landed.await.expect("resolving a call does not panic")
    }

    /// Waits; returns false if the service is stopped meanwhile.
    async fn wait(&self, wait_ms: u64) -> bool {
        if wait_ms == 0 {
            return true;
        }
        let mut stopped = self.stopped.clone();
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(wait_ms)) => true,
            _ = stopped.wait_for(|stop| *stop) => false,
        }
    }
}

/// How long to wait before the effect, and after it, in milliseconds.
fn waits(decision: &Decision) -> (u64, u64) {
    match decision.mishap {
        Mishap::Down | Mishap::CallerRefused => (0, 0),
        Mishap::Stall {
            stall_ms,
            after_effect: true,
        } => (decision.wait_ms, stall_ms),
        Mishap::Stall {
            stall_ms,
            after_effect: false,
        } => (decision.wait_ms + stall_ms, 0),
        Mishap::None | Mishap::Transient { .. } | Mishap::Garbage { .. } => (decision.wait_ms, 0),
    }
}

impl Arrived {
    /// The same call, but failing without effect.
    fn given_up(mut self) -> Self {
        self.decision.mishap = Mishap::Transient {
            status: 503,
            after_effect: false,
        };
        self
    }
}

impl Core {
    /// Judges a call, writes its line, and applies it. The lock is held from the judgement to the change of state, so
    /// that two calls with the same key cannot both find it new.
    fn resolve(&mut self, arrived: Arrived, answers: &PlayedAnswers) -> Answer {
        let judgement = judge(&self.book, &arrived.call, &arrived.decision);
        let answer = answers.to_call(&arrived.call, judgement.answer);
        let fingerprint = arrived.call.fingerprint();
        let line = LedgerLine {
            at_ms: wall_ms(),
            head: arrived.call.head,
            fingerprint,
            call: arrived.number,
            kind: judgement.kind,
            cause: judgement.cause,
        };
        if let Some(file) = &mut self.file
            && let Err(error) = file.append(&line)
        {
            tracing::error!(%error, "the ledger cannot be written; the call has no effect");
            return Answer::Error {
                status: 500,
                code: "ledger",
                message: "the ledger cannot be written, the call has no effect",
                retry_after_s: None,
            };
        }
        self.book.apply(&line);
        answer
    }
}

fn ledger_full() -> Answer {
    Answer::Error {
        status: 507,
        code: "ledger_full",
        message: "the ledger is full and never forgets a key",
        retry_after_s: None,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one clock of this process, for the ledger's at_ms only; nothing is decided by it"
)]
fn wall_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}
