//! The state of the installation, and how passes change it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;
use triad_core::message::{Accepted, SchedulerMessage, StepRequest};
use triad_core::outbox::Emission;
use triad_core::pass::{Pass, Snapshot, Task, WriteResult};
use triad_core::{
    Context, Envelope, Order, OrderId, Priority, Timestamp, Timing, Version, WorkflowRef,
    invariants,
};
use triad_workflow::{Limits, Millis, Workflow};

use crate::canonical::Canonical;
use crate::processes::{Agent, Scheduler, Supervisor};
use crate::service::Effects;

/// The size of the model. The number of states grows steeply with each bound.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Steps of the workflow: 1 or 2.
    pub steps: usize,
    /// The time in milliseconds, inclusive, at which the model ends; it begins at 0. A step's attempt timeout is 10
    /// ms.
    pub horizon: u64,
    /// How many times a process may die, in all.
    pub crashes: u8,
    /// How many calls may be refused, lose their answer or be given up, in all.
    pub faults: u8,
    /// How many times the partition may move to the other Scheduler.
    pub rebalances: u8,
    /// What the workflow does about a failed step.
    pub policy: Policy,
    /// Number of Schedulers, and of Supervisors: 1 or 2 of each. The clock of the second one is 1 ms ahead.
    pub instances: usize,
}

/// What the workflow of the model does about a failed step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The step has one more attempt. If that fails too, the order ends in Error.
    Retry,
    /// The order is compensated at once. A compensation has two attempts.
    Compensate,
    /// The steps run in parallel, and each has one more attempt: the first one [`WAIT`] after its failure, the
    /// second one at once.
    Fork,
}

/// How long the first step of [`Policy::Fork`] waits before its second attempt.
pub(crate) const WAIT: Millis = Millis(12);

/// Largest clock difference in the model.
pub(crate) const SKEW: u64 = 1;

/// The model that is checked: an installation with one order.
pub struct Installation {
    pub(crate) bounds: Bounds,
    pub(crate) workflow: Arc<Workflow>,
    pub(crate) timing: Timing,
    pub(crate) details: Arc<serde_json::Value>,
    pub(crate) accepted: Accepted,
}

/// One state of the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The time on the slowest clock, in milliseconds from 0.
    pub now: u64,
    /// The order's process record as stored.
    pub record: Canonical<Order>,
    /// Messages about the order on the topic `scheduler` that are not acknowledged, oldest first.
    pub line: Vec<Canonical<SchedulerMessage>>,
    /// Requests on the agent's topic that are not acknowledged, oldest first.
    pub requests: Vec<Canonical<StepRequest>>,
    /// Number of the Scheduler to which the partition is assigned, from 0.
    pub owner: usize,
    /// Sequence numbers of the statuses that were sent.
    pub told: BTreeSet<u32>,
    /// Whether an alert about the order was sent.
    pub alerted: bool,
    /// Effects at the remote service.
    pub effects: Effects,
    /// The memory of each Scheduler.
    pub schedulers: Vec<Scheduler>,
    /// The memory of each Supervisor.
    pub supervisors: Vec<Supervisor>,
    /// What the agent is doing.
    pub agent: Agent,
    /// Calls that the agent gave up and that may still arrive, oldest first.
    pub late_calls: Vec<Canonical<StepRequest>>,
    /// How many times a process may still die.
    pub crashes: u8,
    /// How many times the partition may still move.
    pub rebalances: u8,
    /// How many calls may still meet a fault.
    pub faults: u8,
    /// Name of an invariant that a decision or a write has violated, if any.
    pub breach: Option<&'static str>,
}

impl Installation {
    /// A model of this size.
    ///
    /// # Panics
    /// If `steps` or `instances` of the bounds is not 1 or 2.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        assert!((1..=2).contains(&bounds.steps) && (1..=2).contains(&bounds.instances));
        let (supervisor, compensation) = match bounds.policy {
            Policy::Retry | Policy::Fork => (
                json!({"failure_threshold": 1, "then": "error"}),
                json!("none"),
            ),
            Policy::Compensate => (
                json!({"failure_threshold": 0, "then": "compensate"}),
                json!({"action": "compensate", "attempt_timeout": "10ms", "failure_threshold": 1}),
            ),
        };
        let step = |id: &str| {
            json!({
                "id": id, "agent": "service", "action": "do", "attempt_timeout": "10ms",
                "retry": {"calls_per_attempt": 1, "initial": "1ms", "max": "1ms"},
                "supervisor": supervisor, "compensation": compensation,
            })
        };
        let mut steps: Vec<_> = ["a", "b"][..bounds.steps]
            .iter()
            .map(|id| step(id))
            .collect();
        if bounds.policy == Policy::Fork {
            steps.iter_mut().for_each(|step| step["after"] = json!([]));
            steps[0]["supervisor"]["delay"] = json!(format!("{WAIT}"));
        }
        let definition = json!({"workflow": "model", "steps": steps});
        let definition = serde_json::from_value(definition).expect("a definition");
        let workflow = Workflow::compile(definition, &Limits::published()).expect("a sound one");
        let timing = Timing {
            skew: Millis(SKEW),
            queue_within: Millis(2),
            hear_within: Millis(1),
            announce_within: Millis(14),
            confirm_within: Millis(6),
        };
        let accepted = Accepted {
            order_id: OrderId::new("o").expect("an id"),
            workflow: WorkflowRef {
                name: workflow.name.clone(),
                hash: workflow.hash.clone(),
            },
            priority: Priority::Normal,
            reply_topic: None,
            traceparent: None,
            submitted_at: Timestamp(0),
            due: Timestamp(timing.announce_within.0),
            start_at: None,
            deadline: None,
            search: Vec::new(),
            parent: None,
            details: json!({}),
        };
        Self {
            bounds,
            workflow: Arc::new(workflow),
            timing,
            details: Arc::new(json!({})),
            accepted,
        }
    }

    /// The context of decisions; the model's workflows need no details.
    pub(crate) fn context(&self) -> Context<'_> {
        Context {
            workflow: &self.workflow,
            details: None,
            timing: self.timing,
        }
    }

    /// The record, or a copy of it, in the form in which a process reads it.
    pub(crate) fn snapshot(&self, order: &Order) -> Snapshot {
        Snapshot {
            order: Arc::new(order.clone()),
            workflow: self.workflow.clone(),
            details: Some(self.details.clone()),
        }
    }

    /// Carries out all tasks of a pass.
    pub(crate) fn carry_out(&self, world: &mut World, mut pass: Pass) -> Pass {
        match pass.task() {
            Task::Write { expected, next, .. } => {
                let written = self.write(world, expected, next);
                pass.written(match written {
                    true => WriteResult::Written,
                    false => WriteResult::Conflict,
                });
            }
            Task::Publish(wave) => {
                for message in wave {
                    self.send(world, message);
                }
                pass.published(true);
            }
            Task::Confirm { expected, next } => {
                let written = self.write(world, expected, next);
                pass.confirmed(written);
            }
            Task::Read | Task::ReadDetails | Task::Ended(_) => {}
        }
        pass
    }

    /// The clock of the `n`-th Scheduler or Supervisor.
    pub(crate) fn clock(&self, world: &World, n: usize) -> Timestamp {
        Timestamp(world.now + SKEW * n as u64)
    }

    /// The store's conditional write, which checks the invariants of production. Returns whether it was carried out.
    fn write(&self, world: &mut World, expected: Version, next: &Order) -> bool {
        if world.record.version != expected {
            return false;
        }
        if let Some(breach) = invariants::of_write(&world.record, next, &self.workflow).first() {
            world.breach = Some(breach.invariant);
        }
        world.record = Canonical::order(next.clone());
        true
    }

    /// Puts a message into its topic.
    pub(crate) fn send(&self, world: &mut World, message: &Envelope) {
        let body = || serde_json::from_slice(&message.value).expect("a message of the core");
        match message.topic.as_str() {
            triad_core::topics::STATUS => {
                let status: triad_core::message::StatusMessage =
                    serde_json::from_slice(&message.value).expect("a status");
                world.told.insert(status.sequence);
            }
            triad_core::topics::ALERTS => world.alerted = true,
            topic if triad_core::topics::is_scheduler(topic) => {
                world.line.push(Canonical::message(body()));
            }
            _ => {
                let request = serde_json::from_slice(&message.value).expect("a request");
                world.requests.push(Canonical::request(request));
            }
        }
    }
}

/// Whether the record has unsent messages.
pub(crate) fn wants_told(order: &Order) -> bool {
    let tells = |e: &Emission| matches!(e, Emission::Status { .. } | Emission::Alert { .. });
    order.outbox.entries.iter().any(tells)
}
