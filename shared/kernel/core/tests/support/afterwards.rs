//! Checks after each write of a story that need the event or later events, and so cannot be invariants of a record.

use serde_json::json;
use triad_core::children::{ChildEnd, ChildState};
use triad_core::decide::true_due;
use triad_core::{
    Action, Decision, Direction, Event, Failure, FailureKind, Operation, OperatorAct, Order,
    Overdue, ProcessState, Reason, Reply, ReplyOutcome, Timestamp, doubt,
};

use super::{Story, Then};

/// Limit on the events until a resubmitted order has ended.
const MOST: usize = 60;

impl Story {
    /// Checks the change that the event made to the order `before`.
    #[track_caller]
    pub(super) fn check_afterwards(&mut self, before: &Order, event: &Event) {
        match event {
            Event::Reply(reply) => self.check_reported(before, reply),
            Event::Overdue(_) => self.check_second_pass(event),
            Event::Claim(..)
            | Event::Received(_)
            | Event::CalledBack(_)
            | Event::ChildEnded(_)
            | Event::ParentCompensated(_)
            | Event::Operate(_)
            | Event::Admit
            | Event::Confirmed => {}
        }
        self.check_hint(event);
        // An expression without a value fails again, unless its input or the workflow's version changes.
        let cause = self.order.state.cause();
        let can_be_mended = cause.is_none_or(|cause| cause.kind != FailureKind::Definition);
        let is_closed_child = self.order.parent.is_some() && self.order.closed.is_some();
        if is_bad(&self.order) && can_be_mended && !is_closed_child {
            let (order, now) = (self.order.clone(), self.now);
            for happened in [true, false] {
                self.comes_to_a_good_end(happened);
                (self.order, self.now) = (order.clone(), now);
            }
        }
    }

    /// The due hint is no later than the true due time, and exists if the true due time exists.
    #[track_caller]
    fn check_hint(&self, event: &Event) {
        let (hint, due) = (self.order.due, true_due(&self.ctx(), &self.order));
        match (hint, due) {
            (Some(hint), Some(due)) => {
                assert!(hint <= due || due <= self.now, "hint {hint:?}, due {due:?}");
            }
            // The order ended within a claim, so the sending of its last status must still be confirmed.
            (Some(_), None) => assert!(matches!(event, Event::Claim(..)), "{:?}", self.order),
            (None, _) => assert!(self.order.state.is_finished(), "it is alive"),
        }
    }

    /// The calls counted for a step's direction are those that agents reported, each attempt counted once.
    #[track_caller]
    fn check_reported(&self, before: &Order, reply: &Reply) {
        for (was, is) in before.steps.iter().zip(&self.order.steps) {
            let out = was.state.out().zip(is.state.out());
            let waits_on = out.is_some_and(|(was, is)| was.is_same(&is));
            for direction in [Direction::Forward, Direction::Compensate] {
                let is_its = was.step == reply.step
                    && (reply.direction == Direction::Compensate)
                        == (direction == Direction::Compensate);
                let more = if is_its && !waits_on { reply.calls } else { 0 };
                let made = (was.leg(direction).made + more, is.leg(direction).made);
                assert_eq!(made.0, made.1, "calls of {}, {direction}", was.step);
            }
        }
    }

    /// A second check by the Supervisor at the same time changes nothing.
    #[track_caller]
    fn check_second_pass(&self, event: &Event) {
        let wanted = match self.order.state.is_finished() {
            true => Decision::Repeat,
            false => Decision::Ignore(Reason::NotDue),
        };
        assert_eq!(
            self.asked(event.clone()),
            Ok(wanted),
            "a second pass plans nothing more"
        );
    }

    /// After a failure, an operator can bring the order to Processed or Compensated if all later calls succeed,
    /// whether or not an effect in doubt happened.
    #[track_caller]
    fn comes_to_a_good_end(&mut self, happened: bool) {
        for _ in 0..MOST {
            let then = match &self.order.state {
                ProcessState::Processed { .. } | ProcessState::Compensated { .. } => return,
                _ if is_bad(&self.order) => self.is_set_going(happened),
                _ => self.goes_on(happened),
            };
            assert_eq!(then, Then::Written, "no way on: {:?}", self.order.state);
        }
        panic!(
            "no operator brings it to a good end: {:?}",
            self.order.state
        );
    }

    fn is_set_going(&mut self, happened: bool) -> Then {
        if self.order.due.is_some() {
            return self.takes(Event::Confirmed);
        }
        self.silent();
        let doubtful = self
            .order
            .steps
            .iter()
            .filter(|s| doubt::can_be_resolved(s));
        for step in doubtful.map(|s| s.step.clone()).collect::<Vec<_>>() {
            let applied = happened.then(|| json!({"ref": 4}));
            let resolved = self.does(Action::Resolve {
                step,
                applied,
                attempt: None,
            });
            if resolved == Then::Written {
                return resolved;
            }
        }
        match self.order.state {
            ProcessState::Error { .. } => self.does(Action::Resubmit { input: None }),
            _ => self.does(Action::RetryCompensation),
        }
    }

    fn goes_on(&mut self, happened: bool) -> Then {
        let out = self
            .order
            .steps
            .iter()
            .find_map(|s| Some((s.step.to_string(), s.state.out()?)));
        let Some((step, out)) = out else {
            if let Some(until) = self.order.steps.iter().find_map(|s| s.awaited_until()) {
                return self.wait_ends(until);
            }
            let event = self.claim_event();
            return self.takes(event);
        };
        let output = match out.direction {
            Direction::Probe => json!({"applied": happened, "output": {"ref": 4}}),
            Direction::Forward | Direction::Compensate => json!({"ref": 1}),
        };
        let reply = self.reply(&step, ReplyOutcome::Succeeded { output });
        self.takes(Event::Reply(reply))
    }

    /// The awaited event comes; a timer runs out.
    fn wait_ends(&mut self, until: Timestamp) -> Then {
        if let Some(event) = self.next_child_end() {
            return self.takes(event);
        }
        let taken = self.order.events.len();
        let amount = self.details["amount"].clone();
        let event = self.event("paid", &format!("late-{taken}"), json!({"amount": amount}));
        match self.takes(event) {
            Then::Written => Then::Written,
            _ => {
                self.now = self.now.max(until.plus(self.timing.skew));
                self.takes(Event::Overdue(Overdue::default()))
            }
        }
    }

    /// A child order that is asked for ends well.
    fn next_child_end(&self) -> Option<Event> {
        self.order.steps.iter().find_map(|record| {
            record.awaited_until()?;
            let mut children = (0..).zip(&record.children.as_ref()?.all);
            children.find_map(|(number, child)| {
                let cause = || Failure::new(FailureKind::Operator, "cancelled", "");
                let end = match child.state {
                    ChildState::Running => ChildEnd::Processed { output: json!(1) },
                    ChildState::Compensating { .. } => ChildEnd::NoEffect { cause: cause() },
                    _ => return None,
                };
                Some(self.child_end(record.step.as_str(), number, end))
            })
        })
    }

    fn does(&mut self, action: Action) -> Then {
        let act = OperatorAct::new("ann", "because");
        self.takes(Event::Operate(Operation { action, act }))
    }
}

fn is_bad(order: &Order) -> bool {
    matches!(
        order.state,
        ProcessState::Error { .. } | ProcessState::CompensationFailed { .. }
    )
}
