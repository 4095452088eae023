//! Child orders: the Scheduler stores those that its orders start.
//!
//! They do not go through Submission, whose topic waits while there is no room for more orders: a child order behind an
//! order without room would hold up its parent, and so the room that its parent has.

use std::sync::Arc;

use serde_json::Value;
use triad_core::children::{ChildEnd, ChildOrder};
use triad_core::message::SchedulerMessage;
use triad_core::{
    Accepted, Envelope, Failure, FailureKind, Order, OrderId, Priority, WorkflowRef, render, topics,
};
use triad_workflow::Workflow;

use super::{Batch, Input, Scheduler, Work};
use crate::control::ControlStore;
use crate::handled::Redelivery;
use crate::metric;
use crate::ports::{
    Bus, Clock, Created, DefinitionStore, Entropy, NewOrder, StateStore, StoreError,
};
use crate::record::InputRecord;
use crate::submission::first_due;

/// What is to be done about a message of a parent.
enum Plan {
    /// Store this order first; then it is started, if it is accepted here.
    Store(Box<NewOrder>, Option<Accepted>),
    /// If it is stored, go on with it; otherwise this is the answer to the parent.
    Find(ChildEnd),
    /// Do nothing: the parent asks again.
    Leave,
}

impl<S, B, C, E> Scheduler<S, B, C, E>
where
    S: StateStore + DefinitionStore + ControlStore + Clone,
    B: Bus,
    C: Clock,
    E: Entropy,
{
    /// Stores the child orders that these messages start, or have compensated before they were stored. Leaves the
    /// messages that are to be decided on: all but those of child orders that are not stored, whose parents get an
    /// answer here.
    pub(super) async fn store_children(
        &self,
        works: Vec<Work>,
        batch: &mut Batch<'_>,
    ) -> Vec<Work> {
        let is_child = |work: &Work| work.child().is_some();
        let (children, mut ready): (Vec<_>, Vec<_>) = works.into_iter().partition(is_child);
        if children.is_empty() {
            return ready;
        }
        let (mut new, mut storing) = (Vec::new(), Vec::new());
        let (mut known, mut told) = (Vec::new(), Vec::new());
        for work in children {
            match self.plan(&work, batch).await {
                Ok(Plan::Store(order, accepted)) => {
                    new.push(*order);
                    storing.push((work, accepted));
                }
                Ok(Plan::Find(otherwise)) => known.push((work, otherwise)),
                Ok(Plan::Leave) => {}
                Err(e) => batch.redeliver(work.index, e.into()),
            }
        }
        let created = match new.is_empty() {
            true => Vec::new(),
            false => self.store.create(new).await,
        };
        for ((mut work, accepted), created) in storing.into_iter().zip(created) {
            let same = work.child().map(|child| child.parent.digest());
            match created {
                Ok(Created::Created | Created::WithMessages) => {
                    if let Some(accepted) = accepted {
                        metric::accepted(&accepted.workflow.name);
                        work.input = Input::Message(SchedulerMessage::Accepted(accepted));
                    }
                    ready.push(work);
                }
                // Without a digest its details have expired, and its record may have.
                Ok(Created::Exists { digest })
                    if digest.is_empty() || Some(&digest) == same.as_ref() =>
                {
                    known.push((work, expired()));
                }
                Ok(Created::Exists { .. }) => {
                    let why = "there is another order of this id";
                    told.push((work, no_effect("conflicting-submission", why)));
                }
                Err(StoreError::Item(why)) => known.push((work, no_effect("unstorable", &why))),
                Err(e) => batch.redeliver(work.index, e.into()),
            }
        }
        ready.extend(self.find(known, &mut told, batch).await);
        self.tell(told, batch).await;
        ready
    }

    /// What a message of a parent asks for, by the definition of the workflow. A child order that is stored goes on, even
    /// if the definition has changed so that it would not be accepted now.
    async fn plan(&self, work: &Work, batch: &Batch<'_>) -> Result<Plan, StoreError> {
        let Some(child) = work.child() else {
            return Ok(Plan::Leave);
        };
        if child.compensate.is_some_and(|known| known.was_processed) {
            return Ok(Plan::Find(expired()));
        }
        let now = self.clock.now();
        let version = match &child.version {
            Some(hash) => Ok(Some(WorkflowRef {
                name: child.workflow.clone(),
                hash: hash.clone(),
            })),
            None => self.definitions.current(&child.workflow, now).await,
        };
        let version = match version {
            Ok(Some(version)) => version,
            Ok(None) => {
                let why = format!("there is no workflow {}", child.workflow);
                return Ok(Plan::Find(no_effect("unknown-workflow", &why)));
            }
            Err(StoreError::Item(why)) => return Ok(Plan::Find(no_effect("unstorable", &why))),
            Err(e) => return Err(e),
        };
        let workflow = match self.definitions.pinned(&version, now).await {
            Ok(workflow) => Some(workflow),
            // What is compensated needs its steps. The messages behind this one do not wait for a process that can read
            // the definition.
            Err(StoreError::Item(why)) if child.compensate.is_some() => {
                tracing::warn!(order = %child.order_id, why, "a child order is compensated once its definition can be read");
                return Ok(Plan::Leave);
            }
            Err(StoreError::Item(why)) => {
                tracing::warn!(order = %child.order_id, why, "a child order is set aside until its definition can be read");
                None
            }
            Err(e) => return Err(e),
        };
        let details = Value::Object(child.details.clone());
        let refusal = match (child.compensate, &workflow) {
            (Some(_), _) => {
                let why = "its parent order was compensated before it was stored";
                Some(Failure::new(FailureKind::Operator, "cancelled", why))
            }
            (None, Some(workflow)) => misfit(workflow, &details),
            (None, None) => None,
        };
        let record = &batch.records[work.index];
        let accepted = self.accepted((child, record), version, workflow.as_deref(), &details);
        let (order, accepted) = match (&workflow, refusal) {
            (Some(workflow), None) => {
                let order = Order::new(&accepted, workflow, accepted.due);
                (order, Some(accepted))
            }
            // Stored as ended, so that a start that comes later finds it.
            (Some(workflow), Some(why)) => (Order::never_begun(&accepted, workflow, why), None),
            (None, _) => (Order::unread(&accepted), None),
        };
        let new = NewOrder {
            order,
            details: Arc::new(details),
            digest: child.parent.digest(),
            messages: Vec::new(),
        };
        Ok(Plan::Store(Box::new(new), accepted))
    }

    fn accepted(
        &self,
        (child, record): (&ChildOrder, &InputRecord),
        version: WorkflowRef,
        workflow: Option<&Workflow>,
        details: &Value,
    ) -> Accepted {
        let now = self.clock.now();
        let own = workflow.and_then(|workflow| workflow.order_timeout);
        let within = child.order_timeout.into_iter().chain(own).min();
        let deadline = within.map(|within| now.plus(within));
        let due = now.plus(first_due(workflow, &self.settings.timing));
        let traces = &self.settings.traces;
        let trace = traces.of_submission(&child.order_id, record.trace());
        Accepted {
            order_id: child.order_id.clone(),
            workflow: version,
            priority: lane(&record.topic),
            reply_topic: None,
            traceparent: trace.map(|trace| trace.to_string()),
            submitted_at: now,
            due: deadline.map_or(due, |at| at.min(due)),
            start_at: None,
            deadline,
            search: workflow
                .map(|workflow| workflow.search.of(details))
                .unwrap_or_default(),
            parent: Some(Box::new(child.parent.clone())),
            details: details.clone(),
        }
    }

    /// Those of these child orders that are stored; the parents of the others get the answer beside them.
    async fn find(
        &self,
        known: Vec<(Work, ChildEnd)>,
        told: &mut Vec<(Work, ChildEnd)>,
        batch: &mut Batch<'_>,
    ) -> Vec<Work> {
        if known.is_empty() {
            return Vec::new();
        }
        let ids: Vec<OrderId> = known.iter().map(|(work, _)| work.id.clone()).collect();
        let mut found = Vec::with_capacity(known.len());
        for ((work, otherwise), stored) in known.into_iter().zip(self.store.load(ids).await) {
            match stored {
                Ok(None) => told.push((work, otherwise)),
                Ok(Some(_)) | Err(StoreError::Item(_)) => found.push(work),
                Err(e) => batch.redeliver(work.index, e.into()),
            }
        }
        found
    }

    /// Sends parents the ends of child orders that are not stored.
    async fn tell(&self, told: Vec<(Work, ChildEnd)>, batch: &mut Batch<'_>) {
        if told.is_empty() {
            return;
        }
        let message = |(work, end): &(Work, ChildEnd)| -> Option<Envelope> {
            let (child, record) = (work.child()?, &batch.records[work.index]);
            let (priority, trace) = (lane(&record.topic), record.trace());
            let (parent, id) = (&child.parent, &child.order_id);
            Some(render::end_of_child(
                parent,
                id,
                priority,
                trace,
                end.clone(),
            ))
        };
        let messages = told.iter().filter_map(message).collect();
        for ((work, _), sent) in told.iter().zip(self.bus.publish(messages).await) {
            if let Err(e) = sent {
                batch.redeliver(work.index, Redelivery::from(e));
            }
        }
    }
}

impl Work {
    /// The message of a parent, if it is one.
    fn child(&self) -> Option<&ChildOrder> {
        match &self.input {
            Input::Message(SchedulerMessage::Child(child)) => Some(child),
            _ => None,
        }
    }
}

fn lane(topic: &str) -> Priority {
    match topic == topics::SCHEDULER_HIGH {
        true => Priority::High,
        false => Priority::Normal,
    }
}

/// Why the details of a child order do not fit its workflow; `None` if they do.
fn misfit(workflow: &Workflow, details: &Value) -> Option<Failure> {
    // A definition whose schema cannot be used is unreadable.
    let misfits = workflow.details.as_ref()?.misfits(details).ok()?;
    let misfits: Vec<String> = misfits.iter().map(ToString::to_string).collect();
    let failure = |why: &str| Failure::new(FailureKind::Permanent, "details-do-not-fit", why);
    (!misfits.is_empty()).then(|| failure(&misfits.join("; ")))
}

/// The answer about a child order that was stored and is not any more.
fn expired() -> ChildEnd {
    let why = "its record has expired: it is not known how it ended, or cannot be compensated";
    ChildEnd::Kept {
        cause: Failure::new(FailureKind::Permanent, "expired", why),
    }
}

fn no_effect(code: &str, why: &str) -> ChildEnd {
    ChildEnd::NoEffect {
        cause: Failure::new(FailureKind::Permanent, code, why),
    }
}
