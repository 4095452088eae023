//! A next version of a record while a decision builds it, with the requests that it makes.

use std::ops::{Deref, DerefMut};

use serde_json::Value;
use triad_workflow::{EvalError, StepIndex};

use super::{Decision, Transition};
use crate::context::{Context, NeedsDetails};
use crate::effect::{self, Effect};
use crate::ids::{Attempt, Direction};
use crate::order::Order;
use crate::outbox::{Emission, Writer};
use crate::status::Status;
use crate::step::{StepState, Work};

/// The next version, as decided so far. Its messages are in its outbox. The input of a request is computed once, when
/// the request is made, and kept here.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    order: Order,
    requests: Vec<Effect>,
}

impl Deref for Draft {
    type Target = Order;
    fn deref(&self) -> &Order {
        &self.order
    }
}

impl DerefMut for Draft {
    fn deref_mut(&mut self) -> &mut Order {
        &mut self.order
    }
}

/// The next version, before any change.
pub(crate) fn next_version(order: &Order, writer: Writer) -> Draft {
    // What Submission has announced to a Scheduler, it has told before.
    draft(order, writer, writer != Writer::Scheduler)
}

/// The next version for an event from outside, before any change. The Scheduler may know of the order by the event
/// alone, before Submission has announced it.
pub(super) fn next_version_by_event(order: &Order) -> Draft {
    draft(order, Writer::Scheduler, true)
}

fn draft(order: &Order, writer: Writer, may_be_untold: bool) -> Draft {
    let mut next = order.successor();
    next.outbox = order.outbox.carried_to(writer);
    if order.outbox.writer == Writer::Submission && may_be_untold && order.parent.is_none() {
        // The order is unclaimed, so Submission may have died before it sent this status, and Submission does not
        // send it again once the record has a later version.
        next.outbox.entries.push(Emission::Status {
            sequence: 1,
            status: Status::Received,
            step: None,
            at: order.submitted_at,
            cause: None,
        });
    }
    Draft {
        order: next,
        requests: Vec::new(),
    }
}

impl Draft {
    /// Adds the request of the attempt that is out.
    pub(super) fn request(
        &mut self,
        ctx: &Context<'_>,
        index: StepIndex,
        direction: Direction,
        input: Value,
    ) {
        let Some(request) = effect::request(ctx, &self.order, index, direction, input) else {
            return;
        };
        self.order.outbox.entries.push(Emission::Request {
            step: request.step.clone(),
            direction,
            attempt: request.attempt,
        });
        self.requests.push(Effect::request(request));
    }

    /// Adds the messages that ask for child orders of a step: to be started, or to be compensated. An error if the
    /// details of one have no value; then none is added.
    pub(super) fn ask_children(
        &mut self,
        ctx: &Context<'_>,
        index: StepIndex,
        numbers: Vec<u32>,
    ) -> Result<Result<(), EvalError>, NeedsDetails> {
        if numbers.is_empty() {
            return Ok(Ok(()));
        }
        let effects = match effect::children(ctx, &self.order, index, &numbers)? {
            Ok(effects) => effects,
            Err(e) => return Ok(Err(e)),
        };
        let step = self.order.steps[index].step.clone();
        let entry = Emission::Children { step, numbers };
        self.order.outbox.entries.push(entry);
        self.requests.extend(effects);
        Ok(Ok(()))
    }

    /// Removes the requests of this write: their attempts were not made, and child orders not asked for.
    pub(super) fn void_requests(&mut self) {
        self.requests.clear();
        let Order { steps, outbox, .. } = &mut self.order;
        outbox.entries.retain(|entry| {
            let step = match entry {
                Emission::Request { step, .. } => step,
                // Child orders that were not asked for are asked for again, or compensated.
                Emission::Children { .. } => return false,
                _ => return true,
            };
            for record in steps.iter_mut().filter(|r| &r.step == step) {
                let StepState::Acting(Work::Out(out)) = record.state else {
                    continue;
                };
                let last = Attempt(out.attempt.0.saturating_sub(1));
                record.state = if last.0 <= record.action.earlier {
                    StepState::Waiting
                } else {
                    StepState::Acting(Work::Due {
                        last,
                        deferred_since: out.deferred_since,
                    })
                };
            }
            false
        });
    }

    /// The decision to write this version and to send its messages.
    pub(crate) fn decided(self) -> Decision {
        let mut effects = effect::status_effects(&self.order);
        effects.extend(self.requests);
        Decision::Transition(Box::new(Transition {
            next: self.order,
            effects,
        }))
    }
}
