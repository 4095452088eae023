//! The simulated remote services: faults of calls, and the ledger of effects.
//!
//! The idempotent services honour the contract with the code of the reference service. The service [`ONCE`] ignores
//! keys: it applies an effect for every call, and answers probes with the truth.

mod landing;
mod later;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use triad_core::{Direction, IdempotencyKey, Order, OrderId};
use triad_reference_service::Mishap;
use triad_reference_service::book::{Book, Status};
use triad_runtime::Fault;
use triad_workflow::{Millis, StepIndex, Workflow};

use crate::definitions::ONCE;
use crate::kernel::{InstanceId, Kernel};
use later::Jobs;
pub(crate) use later::TAKEN;

/// Most keys in the book of one world.
const MAX_KEYS: usize = 1_000_000;

/// A call on its way to a service.
#[derive(Debug, Clone)]
pub(crate) struct Arriving {
    pub service: &'static str,
    pub action: String,
    pub order: OrderId,
    pub step: String,
    pub direction: Direction,
    pub attempt: u32,
    pub key: String,
    pub compensates: Option<String>,
    /// The token of a call whose service may finish the work later.
    pub callback: Option<String>,
    pub input: Value,
}

/// A service that is unavailable or overloaded for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outage {
    pub service: &'static str,
    pub until: u64,
    /// The answer's status: 503, 429, or 401 while it refuses the agents' credentials.
    pub status: u16,
    /// Whether its answers have `Retry-After`.
    pub says_when: bool,
}

/// What happens to a call, chosen at random.
#[derive(Debug)]
pub(crate) struct CallFate {
    /// Time until it arrives, in milliseconds; `None` if it never does.
    pub travel: Option<u64>,
    /// The fault at the service.
    pub mishap: Mishap,
    /// The fault that its caller sees, if it differs from the service's answer.
    pub fault: Option<Fault>,
    /// Whether the caller gets an answer.
    pub answers: bool,
}

/// The effects of the service [`ONCE`] under one key.
#[derive(Debug, Default)]
struct Once {
    applied: u32,
    compensated: u32,
    output: Value,
}

/// The capacity of a service, and the duration of its calls.
#[derive(Debug)]
pub(crate) struct Servers {
    busy_until: Vec<u64>,
    pub takes_ms: u64,
}

impl Servers {
    pub(crate) fn new(count: usize, takes_ms: u64) -> Self {
        Self {
            busy_until: vec![0; count],
            takes_ms,
        }
    }

    /// The time at which a call that arrives now is finished.
    pub(crate) fn done_at(&mut self, now: u64) -> u64 {
        let takes = self.takes_ms;
        let free = self.busy_until.iter_mut().min();
        free.map_or(now, |at| {
            *at = (*at).max(now) + takes;
            *at
        })
    }
}

/// The services of a world.
#[derive(Debug)]
pub(crate) struct RemoteState {
    book: Book,
    once: BTreeMap<String, Once>,
    jobs: Jobs,
    /// Keys of work that was taken and is not worked on yet.
    new_jobs: Vec<String>,
    compensations: BTreeSet<String>,
    /// The steps of each order, in the order in which they took effect.
    pub applied: BTreeMap<OrderId, Vec<String>>,
    /// Number of calls made, by idempotency key and direction.
    pub calls: BTreeMap<(String, &'static str), u32>,
    /// Number of calls made for a step over all its keys: of the action with probes, or (true) of the compensation.
    pub of_step: BTreeMap<(OrderId, String, bool), u32>,
    /// Number of calls of actions that have been made and have not arrived, by key.
    pub under_way: BTreeMap<String, u32>,
    /// Number of calls for which an instance waits, by service.
    pub held: BTreeMap<(InstanceId, &'static str), usize>,
    /// Number of calls made in each second, by service.
    pub in_second: BTreeMap<(&'static str, u64), u32>,
    pub outages: Vec<Outage>,
    /// Services that give no answer at present.
    pub hanging: Vec<&'static str>,
    /// An order that every service refuses, and whether the refusal asks to call later.
    pub refused: Option<(OrderId, bool)>,
    /// Capacity of each service; unlimited without an entry.
    pub servers: BTreeMap<&'static str, Servers>,
}

impl Default for RemoteState {
    fn default() -> Self {
        Self {
            book: Book::new(MAX_KEYS),
            once: BTreeMap::new(),
            jobs: Jobs::new(),
            new_jobs: Vec::new(),
            compensations: BTreeSet::new(),
            applied: BTreeMap::new(),
            calls: BTreeMap::new(),
            of_step: BTreeMap::new(),
            under_way: BTreeMap::new(),
            held: BTreeMap::new(),
            in_second: BTreeMap::new(),
            outages: Vec::new(),
            hanging: Vec::new(),
            refused: None,
            servers: BTreeMap::new(),
        }
    }
}

impl RemoteState {
    /// Number of effects in place under a key: 0 or 1 if all is correct.
    pub(crate) fn in_place(&self, service: &str, key: &str) -> u32 {
        if service == ONCE {
            let found = self.once.get(key);
            return found.map_or(0, |o| o.applied.saturating_sub(o.compensated));
        }
        u32::from(matches!(
            self.book.status(service, key),
            Status::Applied { .. }
        ))
    }

    /// Whether the effect of a call was compensated before it came.
    fn is_compensated(&self, call: &Arriving) -> bool {
        matches!(
            self.book.status(call.service, &call.key),
            Status::Compensated | Status::Tombstoned
        )
    }

    /// Number of effects of a step that are in place, under any of its keys.
    pub(crate) fn effects_of(&self, order: &Order, index: StepIndex, workflow: &Workflow) -> u32 {
        let step = &workflow.steps[index];
        let Some(call) = step.call() else {
            return 0;
        };
        (0..=order.steps[index].key)
            .map(|n| {
                let key = IdempotencyKey::of(&order.id, &step.id, Direction::Forward, n);
                self.in_place(call.agent.as_str(), &key.0)
            })
            .sum()
    }

    /// The output of the effect in place under a key of the service [`ONCE`], if there is one; an operator who checks
    /// gets this answer.
    pub(crate) fn truth(&self, key: &str) -> Option<Value> {
        let once = self.once.get(key)?;
        (once.applied > once.compensated).then(|| once.output.clone())
    }

    /// The number of keys that the idempotent services have seen, and the keys whose effect was applied or
    /// compensated twice.
    pub(crate) fn twice(&self) -> (usize, Vec<String>) {
        let summary = self.book.summary();
        let mut found = summary.keys_applied_twice_examples;
        let keys = self.book.page(0, usize::MAX);
        let count = keys.len();
        for view in keys {
            if view.applied > 1 || view.compensated > 1 {
                found.push(format!(
                    "{}: {} and {}",
                    view.key, view.applied, view.compensated
                ));
            }
        }
        (count, found)
    }
}

/// The name under which a direction is counted.
pub(crate) fn named(direction: Direction) -> &'static str {
    match direction {
        Direction::Forward => "forward",
        Direction::Compensate => "compensate",
        Direction::Probe => "probe",
    }
}

impl RemoteState {
    /// Chooses the faults of a call and its travel time.
    pub(crate) fn fate(
        &mut self,
        k: &mut Kernel,
        service: &'static str,
        order: &OrderId,
    ) -> CallFate {
        let mut travel = k.rng.between(1, 300);
        if let Some(servers) = self.servers.get_mut(service) {
            travel = servers.done_at(k.now) - k.now;
        }
        if k.fault("fault: remote call landed late", k.faults.remote_late) {
            travel = k.rng.between(1_000, 40_000);
        }
        if self.hanging.contains(&service)
            || k.fault("fault: remote call hung", k.faults.remote_hang)
        {
            return CallFate {
                travel: k.rng.chance(500).then_some(travel),
                mishap: Mishap::None,
                fault: None,
                answers: false,
            };
        }
        if let Some((_, waits)) = self.refused.as_ref().filter(|(id, _)| id == order) {
            return CallFate {
                travel: Some(travel.min(300)),
                mishap: Mishap::Down,
                fault: Some(match waits {
                    false => Fault::CallerRefused {
                        code: "http-403".to_owned(),
                        message: String::new(),
                        maybe_applied: false,
                    },
                    true => Fault::Transient {
                        code: "http-429".to_owned(),
                        message: String::new(),
                        retry_after: Some(Millis(60_000)),
                        maybe_applied: false,
                    },
                }),
                answers: true,
            };
        }
        let outage = self.outages.iter().find(|o| o.service == service);
        if let Some(outage) = outage.copied() {
            k.coverage.reach(match (outage.status, outage.says_when) {
                (429, _) => "fault: service overloaded",
                (401, _) => "fault: service does not accept its callers",
                (_, true) => "fault: service down, with Retry-After",
                (_, false) => "fault: service down",
            });
            let left = outage.until.saturating_sub(k.now).clamp(200, 5_000);
            let code = format!("http-{}", outage.status);
            let fault = match outage.status {
                401 => Fault::CallerRefused {
                    code,
                    message: String::new(),
                    maybe_applied: false,
                },
                status => Fault::Transient {
                    code,
                    message: String::new(),
                    retry_after: outage.says_when.then_some(Millis(left)),
                    maybe_applied: status != 429,
                },
            };
            return CallFate {
                travel: Some(travel.min(300)),
                mishap: Mishap::Down,
                fault: Some(fault),
                answers: true,
            };
        }
        let mishap = if k.fault("fault: remote failed", k.faults.remote_fail) {
            Mishap::Transient {
                status: 503,
                after_effect: false,
            }
        } else if k.fault("fault: remote lost its answer", k.faults.remote_lost) {
            Mishap::Transient {
                status: 500,
                after_effect: true,
            }
        } else if k.fault("fault: remote answered garbage", k.faults.remote_garbage) {
            Mishap::Garbage { after_effect: true }
        } else {
            Mishap::None
        };
        CallFate {
            travel: Some(travel),
            mishap,
            fault: None,
            answers: true,
        }
    }

    /// Counts a call that is made; returns the number of calls with its key.
    pub(crate) fn count(&mut self, call: &Arriving) -> u32 {
        let compensation = call.direction == Direction::Compensate;
        let of_step = (call.order.clone(), call.step.clone(), compensation);
        *self.of_step.entry(of_step).or_default() += 1;
        let made = self
            .calls
            .entry((call.key.clone(), named(call.direction)))
            .or_default();
        *made += 1;
        *made
    }
}
