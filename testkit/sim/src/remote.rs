//! The way to the simulated remote services, as one agent's process has it.
//!
//! A call lands on its own: it is not taken back when its caller gives up or dies.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use serde_json::Value;
use triad_core::Direction;
use triad_core::downstream::{Downstream, ForcedTo};
use triad_reference_service::Mishap;
use triad_reference_service::contract::Answer;
use triad_runtime::{Call, Fault, RemoteService};
use triad_workflow::Millis;

use crate::definitions::TIMING;
use crate::executor::Owner;
use crate::ports::Ports;
use crate::service::Arriving;
use crate::setup::REFRESH_DOWNSTREAMS;
use crate::world::{InstanceId, State, World};

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

/// A call that an instance waits for; dropped with it.
struct Held {
    world: World,
    who: InstanceId,
    service: &'static str,
}

impl Held {
    fn new(world: &World, who: InstanceId, service: &'static str) -> Self {
        let mut state = world.state();
        let held = state.remote.held.entry((who, service)).or_default();
        *held += 1;
        let held = *held;
        let limit = state.setup.limits(service).concurrency;
        if limit.is_some_and(|l| held > l) {
            let seen = format!("{held} calls to {service}, {limit:?} allowed");
            state.breach("concurrency-within-its-limit", seen);
        }
        Self {
            world: world.clone(),
            who,
            service,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.world.state();
        if let Some(n) = state.remote.held.get_mut(&(self.who, self.service)) {
            *n = n.saturating_sub(1);
        }
    }
}

impl State {
    /// What goes wrong with a call, and how long it travels.
    fn remote_fate(&mut self, service: &str) -> (u64, Mishap, Option<Fault>) {
        let mut travel = self.rng.between(1, 300);
        if let Some(servers) = self.remote.servers.get_mut(service) {
            travel = servers.done_at(self.now) - self.now;
        }
        if self.fault("fault: remote call landed late", self.faults.remote_late) {
            travel = self.rng.between(1_000, 40_000);
        }
        let outage = self.remote.outages.iter().find(|o| o.service == service);
        if let Some(outage) = outage.copied() {
            self.coverage
                .reach(match (outage.status, outage.says_when) {
                    (429, _) => "fault: service overloaded",
                    (_, true) => "fault: service down, with Retry-After",
                    (_, false) => "fault: service down",
                });
            let left = outage.until.saturating_sub(self.now).clamp(200, 5_000);
            let fault = Fault::Transient {
                code: format!("http-{}", outage.status),
                message: String::new(),
                retry_after: outage.says_when.then_some(Millis(left)),
                maybe_applied: outage.status != 429,
            };
            return (travel.min(300), Mishap::Down, Some(fault));
        }
        let mishap = if self.fault("fault: remote failed", self.faults.remote_fail) {
            Mishap::Transient {
                status: 503,
                after_effect: false,
            }
        } else if self.fault("fault: remote lost its answer", self.faults.remote_lost) {
            Mishap::Transient {
                status: 500,
                after_effect: true,
            }
        } else if self.fault("fault: remote answered garbage", self.faults.remote_garbage) {
            Mishap::Garbage { after_effect: true }
        } else {
            Mishap::None
        };
        (travel, mishap, None)
    }

    /// Counts a call that is being made, and holds it against what must hold then.
    fn note_call(&mut self, who: InstanceId, call: &Arriving, time_left: Millis) {
        let direction = match call.direction {
            Direction::Forward => "forward",
            Direction::Compensate => "undo",
            Direction::Probe => "probe",
        };
        let undo = call.direction == Direction::Compensate;
        let of_key = (call.key.clone(), direction);
        *self.remote.calls.entry(of_key).or_default() += 1;
        let of_step = (call.order.clone(), call.step.clone(), undo);
        *self.remote.of_step.entry(of_step).or_default() += 1;
        let made = self.remote.calls.get(&(call.key.clone(), direction));
        self.watch_call(who, call.service, made.is_some_and(|n| *n > 1));
        self.check_deadline(who, call, direction, time_left);
        self.check_downstream(who, call);
        self.check_rate(call.service);
    }

    /// The agent calls before complete-by minus the skew, on its own clock, and gives the call no
    /// more time than that.
    fn check_deadline(
        &mut self,
        who: InstanceId,
        call: &Arriving,
        direction: &'static str,
        time_left: Millis,
    ) {
        let id = (call.key.clone(), direction, call.attempt);
        let Some(delivered) = self.bus.deliveries.get(&id) else {
            return;
        };
        let ends = delivered.complete_by.minus(TIMING.skew);
        let now = self.clock_of(who);
        if now.plus(time_left) > ends {
            let seen = format!("{} at {}, with {time_left}: {ends:?}", call.key, now.0);
            self.breach("an-agent-is-silent-after-complete-by", seen);
        }
    }

    /// Nobody calls a downstream, or a step type, that an operator has paused long enough ago
    /// for every instance to have read it.
    fn check_downstream(&mut self, who: InstanceId, call: &Arriving) {
        if !self.faults_at_first.control_is_clear() || self.faults_at_first.remote_late > 0 {
            return;
        }
        let known = |s: &State, at: u64| s.now > at + 2 * REFRESH_DOWNSTREAMS.0 + TIMING.skew.0;
        let Some(record) = self.downstream(call.service) else {
            return;
        };
        let Downstream { forced, paused, .. } = record;
        let workflow = self.store.order(&call.order).map(|o| &o.workflow.name);
        let held = paused
            .iter()
            .find(|p| Some(&p.workflow) == workflow && p.step.as_str() == call.step)
            .map(|p| p.hold.at.0);
        let open = forced
            .filter(|f| f.to == ForcedTo::Open)
            .map(|f| f.hold.at.0);
        if let Some(at) = held.into_iter().chain(open).find(|at| known(self, *at)) {
            let seen = format!("{} by {who}, paused at {at}", call.key);
            self.breach("what-is-paused-is-not-called", seen);
        }
    }

    /// The calls of a second of true time are of at most four seconds of the instances' clocks.
    fn check_rate(&mut self, service: &'static str) {
        let second = self.now / 1_000;
        let made = self.remote.in_second.entry((service, second)).or_default();
        *made += 1;
        let made = *made;
        let limit = self.setup.limits(service).rate_per_second;
        if limit.is_some_and(|l| made > 4 * l) && !self.setup.wild_clocks {
            let seen = format!("{made} calls to {service} in a second, {limit:?} allowed");
            self.breach("rate-within-its-limit", seen);
        }
    }
}

impl RemoteService for SimRemote {
    async fn call(&self, call: Call<'_>) -> Result<Value, Fault> {
        let world = self.ports.world.clone();
        let time_left = call.time_left;
        let call = Arriving {
            service: self.service,
            action: call.action.to_owned(),
            order: call.order_id.clone(),
            step: call.step.to_string(),
            direction: call.direction,
            attempt: call.attempt,
            key: call.idempotency_key.to_string(),
            undoes: call.undoes.map(ToString::to_string),
            input: call.input.clone(),
        };
        let (travel, mishap, fault, unreachable) = {
            let mut state = world.state();
            state.note_call(self.ports.who, &call, time_left);
            let (travel, mishap, fault) = state.remote_fate(self.service);
            let permille = state.faults.remote_connect;
            let unreachable = state.fault("fault: remote not reached", permille);
            (travel, mishap, fault, unreachable)
        };
        let _held = Held::new(&world, self.ports.who, self.service);
        if unreachable {
            world.sleep(5).await;
            return Err(transient("connect", false));
        }
        let slot = Slot::default();
        let (there, back) = (world.clone(), slot.clone());
        let number = self.ports.before("remote call").await;
        if call.direction == Direction::Forward {
            let mut state = world.state();
            *state.remote.under_way.entry(call.key.clone()).or_default() += 1;
        }
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
        self.ports.after(number).await;
        if let Some(fault) = fault {
            return Err(fault);
        }
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
        retry_after: None,
        maybe_applied,
    }
}
