//! The remote services as one agent's process reaches them.
//!
//! A call under way still arrives when its caller gives it up or dies.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use serde_json::{Value, json};
use triad_core::Direction;
use triad_core::output::MAX_INLINE_BYTES;
use triad_reference_service::contract::Answer;
use triad_runtime::{Call, Fault, RemoteService};

use crate::callbacks::work_on_new_jobs;
use crate::kernel::{InstanceId, Owner};
use crate::ports::Ports;
use crate::service::{Arriving, CallFate, TAKEN};
use crate::world::{State, World};

/// A remote service as one agent's process reaches it.
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

/// Counts a call while its caller waits. It is dropped with the caller.
struct CallInHand {
    world: World,
    who: InstanceId,
    service: &'static str,
}

impl CallInHand {
    fn new(world: &World, who: InstanceId, service: &'static str) -> Self {
        let mut state = world.state();
        let held = state.remote.held.entry((who, service)).or_default();
        *held += 1;
        let held = *held;
        if let Some(limit) = state.setup.limits(service).concurrency {
            state
                .kernel
                .check("concurrency-within-its-limit", held <= limit, || {
                    format!("{held} calls to {service}, {limit} allowed")
                });
        }
        Self {
            world: world.clone(),
            who,
            service,
        }
    }
}

impl Drop for CallInHand {
    fn drop(&mut self) {
        let mut state = self.world.state();
        if let Some(n) = state.remote.held.get_mut(&(self.who, self.service)) {
            *n = n.saturating_sub(1);
        }
    }
}

impl RemoteService for SimRemote {
    async fn call(&self, call: Call<'_>) -> Result<Value, Fault> {
        let world = self.ports.world.clone();
        let (time_left, repeats) = (call.time_left, call.repeats);
        let direction = call.direction;
        let call = Arriving {
            service: self.service,
            action: call.action.to_owned(),
            order: call.order_id.clone(),
            step: call.step.to_string(),
            direction: call.direction,
            attempt: call.attempt,
            key: call.idempotency_key.to_string(),
            compensates: call.compensates.map(ToString::to_string),
            callback: call.callback.map(str::to_owned),
            input: call.input.clone(),
        };
        let key = call.key.clone();
        let (fate, unreachable, in_progress) = {
            let mut state = world.state();
            state.note_call(self.ports.who, &call, time_left);
            let State { kernel, remote, .. } = &mut *state;
            let fate = remote.fate(kernel, self.service, &call.order);
            let permille = state.kernel.faults.remote_connect;
            let unreachable = state.kernel.fault("fault: remote not reached", permille);
            // A later call is answered that the service works on an earlier one, while that one is on its way.
            let earlier = state.remote.under_way.get(&call.key).copied();
            let is_later = earlier.unwrap_or(0) > 0 && repeats && fate.fault.is_none();
            let in_progress = is_later && call.direction == Direction::Forward && {
                let permille = state.kernel.faults.remote_in_progress;
                let fault = "fault: remote works on an earlier call";
                state.kernel.fault(fault, permille)
            };
            (fate, unreachable, in_progress)
        };
        let CallFate {
            travel,
            mishap,
            fault,
            answers,
        } = fate;
        let _held = CallInHand::new(&world, self.ports.who, self.service);
        if unreachable {
            world.sleep(5).await;
            return Err(transient("connect", false));
        }
        if in_progress {
            world.sleep(5).await;
            return Err(Fault::InProgress {
                code: "http-409".to_owned(),
                message: String::new(),
                retry_after: None,
                output: Value::Null,
                location: None,
            });
        }
        let slot = Slot::default();
        let (there, back) = (world.clone(), slot.clone());
        let number = self.ports.before("remote call").await;
        if let Some(travel) = travel {
            if call.direction == Direction::Forward {
                let mut state = world.state();
                *state.remote.under_way.entry(call.key.clone()).or_default() += 1;
            }
            world.spawn(Owner::World, async move {
                there.sleep(travel).await;
                let answer = there.state().land(&call, mishap);
                work_on_new_jobs(&there);
                if !answers {
                    return;
                }
                let waker = {
                    let mut slot = back.lock().unwrap_or_else(PoisonError::into_inner);
                    slot.0 = Some(answer);
                    slot.1.take()
                };
                if let Some(waker) = waker {
                    waker.wake();
                }
            });
        }
        let answer = Answered(slot).await;
        self.ports.after(number).await;
        if let Some(fault) = fault {
            return Err(fault);
        }
        let has_other_shape = direction == Direction::Forward && {
            let mut state = world.state();
            let permille = state.kernel.faults.remote_shape;
            let fault = "fault: remote answered in another shape";
            matches!(answer, Answer::Output(_)) && state.kernel.fault(fault, permille)
        };
        match answer {
            Answer::Output(output) if has_other_shape => {
                let bytes = output.to_string().len();
                Ok(json!({"_left_out": {"reference": format!("{bytes} bytes")}}))
            }
            Answer::Output(output) => Ok(with_document(output, &key)),
            Answer::Garbage => Err(transient("garbage", true)),
            Answer::Error { status: TAKEN, .. } => Err(Fault::InProgress {
                code: "http-202".to_owned(),
                message: String::new(),
                retry_after: None,
                output: json!({"job": key}),
                location: None,
            }),
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

/// Adds a document above the size of an output in the record to the output of every third effect.
fn with_document(mut output: Value, key: &str) -> Value {
    let is_large = key.bytes().map(u32::from).sum::<u32>().is_multiple_of(3);
    if let (true, Value::Object(fields)) = (is_large, &mut output) {
        let document = key.repeat(MAX_INLINE_BYTES / key.len() + 1);
        fields.insert("document".to_owned(), document.into());
    }
    output
}
