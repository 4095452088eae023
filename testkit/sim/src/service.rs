//! The simulated remote services: what a call does when it lands, and the ledger of effects.
//!
//! The idempotent services keep the reference contract, with its own book. The service
//! [`ONCE`] knows no key again: it applies an effect for every call that arrives, and says
//! truthfully, when it is asked, whether one has.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use triad_core::{Direction, OrderId};
use triad_reference_service::book::{Book, LedgerLine, Status};
use triad_reference_service::contract::{self, Answer, CallHead, Cause, Kind};
use triad_reference_service::{Decision, Mishap};

use crate::definitions::{self, ONCE};
use crate::load::Servers;
use crate::world::{InstanceId, OUTSIDE, State};

/// Keys that the book of one world takes.
const MAX_KEYS: usize = 1_000_000;

/// One call on its way.
#[derive(Debug, Clone)]
pub(crate) struct Arriving {
    pub service: &'static str,
    pub action: String,
    pub order: OrderId,
    pub step: String,
    pub direction: Direction,
    pub attempt: u32,
    pub key: String,
    pub undoes: Option<String>,
    pub input: Value,
}

/// A service that is down or overloaded for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outage {
    pub service: &'static str,
    pub until: u64,
    /// 503, or 429.
    pub status: u16,
    /// Whether it says when to come back.
    pub says_when: bool,
}

/// What the service that knows no key again has done under one key.
#[derive(Debug, Default)]
struct Once {
    applied: u32,
    undone: u32,
    output: Value,
}

/// The services of a world.
#[derive(Debug)]
pub(crate) struct RemoteState {
    book: Book,
    once: BTreeMap<String, Once>,
    undos: BTreeSet<String>,
    /// Steps in the order in which they took effect, by order.
    pub applied: BTreeMap<OrderId, Vec<String>>,
    /// Calls made, by idempotency key and direction.
    pub calls: BTreeMap<(String, &'static str), u32>,
    /// Calls made for a step, forward and probes together, or undo, over all its keys.
    pub of_step: BTreeMap<(OrderId, String, bool), u32>,
    /// Forward calls that have been made and have not landed, by key.
    pub under_way: BTreeMap<String, u32>,
    /// Calls that an instance waits for.
    pub held: BTreeMap<(InstanceId, &'static str), usize>,
    /// Calls made in a second.
    pub in_second: BTreeMap<(&'static str, u64), u32>,
    pub outages: Vec<Outage>,
    /// What each service can do at once; without an entry, anything.
    pub servers: BTreeMap<&'static str, Servers>,
}

impl Default for RemoteState {
    fn default() -> Self {
        Self {
            book: Book::new(MAX_KEYS),
            once: BTreeMap::new(),
            undos: BTreeSet::new(),
            applied: BTreeMap::new(),
            calls: BTreeMap::new(),
            of_step: BTreeMap::new(),
            under_way: BTreeMap::new(),
            held: BTreeMap::new(),
            in_second: BTreeMap::new(),
            outages: Vec::new(),
            servers: BTreeMap::new(),
        }
    }
}

impl RemoteState {
    /// Effects in place under a key: 0 or 1, if all is well.
    pub(crate) fn in_place(&self, service: &str, key: &str) -> u32 {
        if service == ONCE {
            let found = self.once.get(key);
            return found.map_or(0, |o| o.applied.saturating_sub(o.undone));
        }
        u32::from(matches!(
            self.book.status(service, key),
            Status::Applied { .. }
        ))
    }

    /// What the service answered, or would answer, where an effect of the other service is in
    /// place: for an operator who asks it.
    pub(crate) fn truth(&self, key: &str) -> Option<Value> {
        let once = self.once.get(key)?;
        (once.applied > once.undone).then(|| once.output.clone())
    }

    /// Keys of the idempotent services whose effect was applied, or undone, twice.
    pub(crate) fn twice(&self) -> Vec<String> {
        let summary = self.book.summary();
        let mut found = summary.keys_applied_twice_examples;
        for view in self.book.page(0, usize::MAX) {
            if view.applied > 1 || view.undone > 1 {
                found.push(format!(
                    "{}: {} and {}",
                    view.key, view.applied, view.undone
                ));
            }
        }
        found
    }
}

fn refuse(code: &'static str) -> (Kind, Option<Cause>, Answer) {
    let answer = Answer::Error {
        status: 422,
        code,
        message: "",
        retry_after_s: None,
    };
    (Kind::Refused, Some(Cause::Declined), answer)
}

fn fail(status: u16, code: &'static str) -> Answer {
    Answer::Error {
        status,
        code,
        message: "",
        retry_after_s: None,
    }
}

impl State {
    /// A refusal is a property of the key: it is the same whenever the call comes.
    fn declines(&mut self, call: &Arriving) -> bool {
        let (kind, permille) = match call.direction {
            Direction::Forward => ("fault: remote declined", self.faults.decline),
            Direction::Compensate => ("fault: undo declined", self.faults.decline_undo),
            Direction::Probe => return false,
        };
        let hash = call.key.bytes().fold(17_u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
        });
        let declined = (hash >> 20) % 1_000 < u64::from(permille);
        if declined {
            self.coverage.reach(kind);
        }
        declined
    }

    /// A call lands: its effect happens, and it is answered.
    pub(crate) fn land(&mut self, call: &Arriving, mishap: Mishap) -> Answer {
        if call.direction == Direction::Forward
            && let Some(n) = self.remote.under_way.get_mut(&call.key)
        {
            *n = n.saturating_sub(1);
        }
        let declined = self.declines(call);
        let (kind, cause, answer) = if call.service == ONCE {
            self.land_once(call, mishap, declined)
        } else {
            self.land_by_contract(call, mishap, declined)
        };
        if kind == Kind::Tombstoned {
            self.coverage
                .reach("saw: tombstone before its forward call");
        }
        if kind == Kind::Refused && cause == Some(Cause::Undone) {
            self.coverage
                .reach("saw: forward call refused after its undo");
        }
        self.note(OUTSIDE, || {
            let Arriving { service, key, .. } = call;
            format!("{service}: {key} {} {kind:?} {cause:?}", call.direction)
        });
        if matches!(kind, Kind::Undone | Kind::Tombstoned) {
            self.check_undo(call);
        }
        if kind == Kind::Applied {
            let applied = self.remote.applied.entry(call.order.clone()).or_default();
            applied.push(call.step.clone());
        }
        answer
    }

    fn land_by_contract(
        &mut self,
        call: &Arriving,
        mishap: Mishap,
        declined: bool,
    ) -> (Kind, Option<Cause>, Answer) {
        let direction = match call.direction {
            Direction::Forward => contract::Direction::Forward,
            Direction::Compensate => contract::Direction::Undo,
            // The idempotent services have no such action.
            Direction::Probe => return refuse("no-such-action"),
        };
        let call = contract::Call {
            head: CallHead {
                service: call.service.to_owned(),
                action: call.action.clone(),
                order: call.order.to_string(),
                step: call.step.clone(),
                direction,
                attempt: call.attempt,
                key: call.key.clone(),
                undoes: call.undoes.clone(),
            },
            input: call.input.clone(),
        };
        let number = self.remote.book.arrive(&call.head).unwrap_or(u32::MAX);
        let decision = Decision {
            wait_ms: 0,
            permanent: declined,
            mishap,
            retry_after_s: None,
        };
        let judged = contract::judge(&self.remote.book, &call, &decision);
        let fingerprint = call.fingerprint();
        self.remote.book.apply(&LedgerLine {
            at_ms: i64::try_from(self.now).unwrap_or(i64::MAX),
            head: call.head,
            fingerprint,
            call: number,
            kind: judged.kind,
            cause: judged.cause,
        });
        (judged.kind, judged.cause, judged.answer)
    }

    /// The service that applies an effect for every call that arrives.
    fn land_once(
        &mut self,
        call: &Arriving,
        mishap: Mishap,
        declined: bool,
    ) -> (Kind, Option<Cause>, Answer) {
        match mishap {
            Mishap::Down => return (Kind::Fault, Some(Cause::Down), fail(503, "down")),
            Mishap::Transient {
                status,
                after_effect: false,
            } => return (Kind::Fault, Some(Cause::Transient), fail(status, "before")),
            _ => {}
        }
        if call.direction == Direction::Probe {
            return self.answer_probe(call);
        }
        if declined {
            return refuse("declined");
        }
        let output = json!({"reference": format!("mail-{}", call.key), "action": call.action});
        let kind = if call.direction == Direction::Forward {
            let once = self.remote.once.entry(call.key.clone()).or_default();
            once.applied += 1;
            once.output = output.clone();
            let n = once.applied;
            if n > 1 {
                let seen = format!("{} was applied {n} times", call.key);
                self.breach("g2-what-may-not-be-repeated-is-not", seen);
            }
            Kind::Applied
        } else {
            let forward = call.undoes.clone().unwrap_or_default();
            let first = self.remote.undos.insert(call.key.clone());
            let once = self.remote.once.entry(forward).or_default();
            let reverses = first && once.applied > once.undone;
            if reverses {
                once.undone += 1;
            }
            match (first, reverses) {
                (_, true) => Kind::Undone,
                (true, false) => Kind::Tombstoned,
                (false, false) => Kind::Replayed,
            }
        };
        match mishap {
            Mishap::Transient { status, .. } => {
                (kind, Some(Cause::LostAnswer), fail(status, "after"))
            }
            Mishap::Garbage { .. } => (kind, Some(Cause::Garbage), Answer::Garbage),
            _ => (kind, None, Answer::Output(output)),
        }
    }

    /// Says whether an effect has happened. While a call under the key is on its way it says
    /// neither, for "no" must stay true.
    fn answer_probe(&mut self, call: &Arriving) -> (Kind, Option<Cause>, Answer) {
        let under_way = self.remote.under_way.get(&call.key).copied().unwrap_or(0);
        if under_way > 0 {
            self.coverage
                .reach("saw: probe while its call is under way");
            return (Kind::Fault, Some(Cause::Transient), fail(503, "under-way"));
        }
        let answer = match self.remote.truth(&call.key) {
            Some(output) => {
                self.coverage.reach("saw: probe says applied");
                json!({"applied": true, "output": output})
            }
            None => {
                self.coverage.reach("saw: probe says not applied");
                json!({"applied": false})
            }
        };
        (Kind::Replayed, None, Answer::Output(answer))
    }

    /// G3: when an undo lands, everything that came after its step has been undone.
    fn check_undo(&mut self, call: &Arriving) {
        let Some(order) = self.store.order(&call.order).cloned() else {
            return;
        };
        let Some(workflow) = definitions::compiled(&order.workflow) else {
            return;
        };
        let Some(index) = workflow.step_index(&call.step) else {
            return;
        };
        for (later, step) in workflow.steps.iter().enumerate() {
            if step.compensation.is_some()
                && workflow.is_after(later, index)
                && self.effects_of(&order, later, &workflow) > 0
            {
                let seen = format!("{}: {} before {}", order.id, call.step, step.id);
                self.breach("g3-undone-in-reverse-at-the-service", seen);
            }
        }
    }
}
