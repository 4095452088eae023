//! The simulated remote services: the reference contract's book, and a ledger for the checker.
//!
//! A call lands on its own: it is not taken back when its caller gives up or dies.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use serde_json::Value;
use triad_core::Direction;
use triad_reference::book::{Book, LedgerLine, Status};
use triad_reference::contract::{self, Answer, CallHead, Cause, Kind};
use triad_reference::{Decision, Mishap};
use triad_runtime::{Call, Fault, RemoteService};
use triad_workflow::Millis;

use crate::executor::Owner;
use crate::ports::Ports;
use crate::world::{OUTSIDE, State};

/// Keys that the book of one world takes.
const MAX_KEYS: usize = 1_000_000;

/// An effect, as the ledger has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Effect {
    pub at: u64,
    pub order: String,
    pub step: String,
    pub kind: Kind,
}

/// The services of a world.
#[derive(Debug)]
pub(crate) struct RemoteState {
    pub book: Book,
    pub ledger: Vec<Effect>,
    /// Calls made, by idempotency key.
    pub calls: BTreeMap<String, u32>,
    /// Services that refuse everything for now.
    pub down: Vec<String>,
}

impl Default for RemoteState {
    fn default() -> Self {
        Self {
            book: Book::new(MAX_KEYS),
            ledger: Vec::new(),
            calls: BTreeMap::new(),
            down: Vec::new(),
        }
    }
}

/// One remote service, as one agent's process reaches it.
#[derive(Debug, Clone)]
pub(crate) struct SimRemote {
    pub ports: Ports,
    pub service: &'static str,
}

type Slot = Arc<Mutex<(Option<Answer>, Option<Waker>)>>;

struct Answered(Slot);

impl Future for Answered {
    type Output = Answer;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.0.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                slot.1 = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl State {
    /// What goes wrong with a call, and how long it travels.
    fn remote_fate(&mut self, service: &str) -> (u64, Mishap) {
        let mut travel = self.rng.between(1, 300);
        if self.fault("fault: remote call landed late", self.faults.remote_late) {
            travel = self.rng.between(1_000, 40_000);
        }
        let mishap = if self.remote.down.iter().any(|d| d == service) {
            self.coverage.reach("fault: service down");
            Mishap::Down
        } else if self.fault("fault: remote failed", self.faults.remote_fail) {
            Mishap::Transient {
                status: 503,
                after_effect: false,
            }
        } else if self.fault("fault: remote lost its answer", self.faults.remote_lost) {
            Mishap::Transient {
                status: 500,
                after_effect: true,
            }
        } else {
            Mishap::None
        };
        (travel, mishap)
    }

    /// A refusal is a property of the key: it is the same whenever the call comes.
    fn declines(&mut self, call: &contract::Call) -> bool {
        let (kind, permille) = match call.head.direction {
            contract::Direction::Forward => ("fault: remote declined", self.faults.decline),
            contract::Direction::Undo => ("fault: undo declined", self.faults.decline_undo),
        };
        let hash = call.head.key.bytes().fold(17_u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
        });
        let declined = (hash >> 20) % 1_000 < u64::from(permille);
        if declined {
            self.coverage.reach(kind);
        }
        declined
    }

    fn land(&mut self, call: &contract::Call, mishap: Mishap) -> Answer {
        let head = &call.head;
        let number = self.remote.book.arrive(head).unwrap_or(u32::MAX);
        let decision = Decision {
            wait_ms: 0,
            permanent: self.declines(call),
            mishap,
            retry_after_s: None,
        };
        let judged = contract::judge(&self.remote.book, call, &decision);
        if judged.kind == Kind::Tombstoned {
            self.coverage
                .reach("saw: tombstone before its forward call");
        }
        if judged.kind == Kind::Refused && judged.cause == Some(Cause::Undone) {
            self.coverage
                .reach("saw: forward call refused after its undo");
        }
        self.remote.book.apply(&LedgerLine {
            at_ms: i64::try_from(self.now).unwrap_or(i64::MAX),
            head: head.clone(),
            fingerprint: call.fingerprint(),
            call: number,
            kind: judged.kind,
            cause: judged.cause,
        });
        self.remote.ledger.push(Effect {
            at: self.now,
            order: head.order.clone(),
            step: head.step.clone(),
            kind: judged.kind,
        });
        self.note(OUTSIDE, || {
            format!(
                "{}: {} {:?} {:?}",
                head.service, head.key, judged.kind, judged.cause
            )
        });
        judged.answer
    }
}

impl RemoteState {
    /// Whether an effect is in place.
    pub(crate) fn in_place(&self, service: &str, key: &str) -> bool {
        matches!(self.book.status(service, key), Status::Applied { .. })
    }
}

impl RemoteService for SimRemote {
    async fn call(&self, call: Call<'_>) -> Result<Value, Fault> {
        let world = self.ports.world.clone();
        let call = contract::Call {
            head: CallHead {
                service: self.service.to_owned(),
                action: call.action.to_owned(),
                order: call.order_id.to_string(),
                step: call.step.to_string(),
                direction: match call.direction {
                    Direction::Forward => contract::Direction::Forward,
                    Direction::Undo => contract::Direction::Undo,
                },
                attempt: call.attempt,
                key: call.idempotency_key.to_string(),
                undoes: call.undoes.map(ToString::to_string),
            },
            input: call.input.clone(),
        };
        let (travel, mishap, unreachable) = {
            let mut state = world.state();
            let key = call.head.key.clone();
            *state.remote.calls.entry(key).or_default() += 1;
            let (travel, mishap) = state.remote_fate(self.service);
            let permille = state.faults.remote_connect;
            let unreachable = state.fault("fault: remote not reached", permille);
            (travel, mishap, unreachable)
        };
        if unreachable {
            world.sleep(5).await;
            return Err(transient("connect", false));
        }
        self.ports.perhaps_die("fault: died before an effect").await;
        let slot = Slot::default();
        let (there, back) = (world.clone(), slot.clone());
        world.spawn(Owner::World, async move {
            there.sleep(travel).await;
            let answer = there.state().land(&call, mishap);
            let waker = {
                let mut slot = back.lock().unwrap_or_else(PoisonError::into_inner);
                slot.0 = Some(answer);
                slot.1.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        });
        let answer = Answered(slot).await;
        self.ports.perhaps_die("fault: died after an effect").await;
        match answer {
            Answer::Output(output) => Ok(output),
            Answer::Garbage => Err(transient("garbage", true)),
            Answer::Error { status, code, .. } if status == 429 || status >= 500 => {
                Err(transient(code, true))
            }
            Answer::Error { code, message, .. } => Err(Fault::Permanent {
                code: code.to_owned(),
                message: message.to_owned(),
            }),
        }
    }
}

fn transient(code: &str, maybe_applied: bool) -> Fault {
    Fault::Transient {
        code: code.to_owned(),
        message: String::new(),
        retry_after: (code == "down").then_some(Millis(200)),
        maybe_applied,
    }
}
