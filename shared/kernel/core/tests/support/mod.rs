//! Given, when, then: an order's story is applied event by event, and each write is checked against every invariant.

mod afterwards;

use serde_json::{Value, json};
use triad_core::children::{ChildEnd, ChildEnded, Parent, child_id};
use triad_core::message::SchedulerMessage;
use triad_core::order::IncidentKind;
use triad_core::outbox::Emission;
use triad_core::status::Status;
use triad_core::{
    Accepted, Action, Callback, ClaimId, Context, Decision, Direction, Envelope, Event, Failure,
    FailureKind, Illegal, Operation, OperationRefusal, OperatorAct, Order, Out, Overdue, Reason,
    ReceivedEvent, Reply, ReplyOutcome, Says, StepRecord, StepRequest, StepState, Timestamp,
    Timing, Untaken, Work, decide, invariants,
};
use triad_core::{doubt, effect, render};
use triad_workflow::{Limits, StepId, Workflow};

/// Three steps in a line, each with a compensation; one retry, without a delay.
pub const LINE: &str = r#"{"workflow": "line",
  "defaults": {"attempt_timeout": "10s", "retry": {"calls_per_attempt": 2}, "supervisor": {"failure_threshold": 1}},
  "steps": [
    {"id": "a", "agent": "x", "action": "do-a", "compensation": {"action": "compensate-a", "input": {"of": "${output}"}}},
    {"id": "b", "agent": "x", "action": "do-b", "input": {"from": "${steps.a}"}, "compensation": {"action": "compensate-b"}},
    {"id": "c", "agent": "y", "action": "do-c", "compensation": {"action": "compensate-c"}}]}"#;

/// `p` and `q` in parallel, then `join`; three retries with a growing delay.
pub const FORK: &str = r#"{"workflow": "fork",
  "defaults": {"attempt_timeout": "10s", "retry": {"calls_per_attempt": 2}, "supervisor": {"failure_threshold": 3, "delay": "4s", "max_delay": "10s"}},
  "steps": [
    {"id": "p", "agent": "x", "action": "do-p", "after": [], "compensation": {"action": "compensate-p"}},
    {"id": "q", "agent": "y", "action": "do-q", "after": [], "attempt_timeout": "30s", "compensation": {"action": "compensate-q"}},
    {"id": "join", "agent": "x", "action": "do-join", "after": ["p", "q"], "compensation": "none"}]}"#;

/// `once` may not be repeated and has no probe; one retry, without a delay.
pub const ONCE: &str = r#"{"workflow": "once",
  "defaults": {"attempt_timeout": "10s", "retry": {"calls_per_attempt": 2}, "supervisor": {"failure_threshold": 1}},
  "steps": [
    {"id": "a", "agent": "x", "action": "do-a", "compensation": {"action": "compensate-a"}},
    {"id": "once", "agent": "y", "action": "do-once", "at_most_once": true, "compensation": {"action": "compensate-once"}},
    {"id": "c", "agent": "x", "action": "do-c", "compensation": {"action": "compensate-c"}}]}"#;

/// `pay` may not be repeated and has a probe; two retries, without a delay.
pub const PROBED: &str = r#"{"workflow": "probed",
  "defaults": {"attempt_timeout": "10s", "retry": {"calls_per_attempt": 2}, "supervisor": {"failure_threshold": 2}},
  "steps": [
    {"id": "a", "agent": "x", "action": "do-a", "compensation": {"action": "compensate-a"}},
    {"id": "pay", "agent": "y", "action": "do-pay", "input": {"sum": "${details.amount}"},
     "probe": {"action": "find-pay", "attempt_timeout": "4s"}, "compensation": {"action": "compensate-pay"}},
    {"id": "c", "agent": "x", "action": "do-c", "input": {"paid": "${steps.pay}"}, "compensation": {"action": "compensate-c"}}]}"#;

/// `b` waits for the event `paid` with the order's amount, an hour at most; then the order is compensated.
pub const AWAITS: &str = r#"{"workflow": "awaits",
  "defaults": {"attempt_timeout": "10s", "retry": {"calls_per_attempt": 2}, "supervisor": {"failure_threshold": 1}},
  "steps": [
    {"id": "a", "agent": "x", "action": "do-a", "compensation": {"action": "compensate-a"}},
    {"id": "b", "await": {"event": "paid", "match": "event.amount == details.amount", "within": "1h"},
     "compensation": {"agent": "y", "action": "refund", "input": "${output}"}},
    {"id": "c", "agent": "y", "action": "do-c", "input": "${steps.b}", "compensation": {"action": "compensate-c"}}]}"#;

/// The service of `b` may finish its work within an hour. It is asked after 10 s, then more and more rarely.
pub const LATER: &str = r#"{"workflow": "later",
  "defaults": {"attempt_timeout": "10s", "retry": {"calls_per_attempt": 2}, "supervisor": {"failure_threshold": 1}},
  "steps": [
    {"id": "a", "agent": "x", "action": "do-a", "compensation": {"action": "compensate-a"}},
    {"id": "b", "agent": "y", "action": "book", "compensation": {"action": "cancel", "input": {"of": "${output}"}},
     "finishes_later": {"within": "1h", "fails_when": "event.state == 'failed'",
       "poll": {"action": "look", "input": {"job": "${output.job}"}, "every": "10s", "max": "40s"}}},
    {"id": "c", "agent": "x", "action": "do-c", "input": {"booked": "${steps.b}"}, "compensation": {"action": "compensate-c"}}]}"#;

/// `b` waits for a day.
pub const TIMED: &str = r#"{"workflow": "timed",
  "defaults": {"attempt_timeout": "10s", "retry": {"calls_per_attempt": 2}, "supervisor": {"failure_threshold": 1}},
  "steps": [
    {"id": "a", "agent": "x", "action": "do-a", "compensation": {"action": "compensate-a"}},
    {"id": "b", "wait": {"for": "1day"}},
    {"id": "c", "agent": "y", "action": "do-c", "compensation": {"action": "compensate-c"}}]}"#;

/// `b` runs an order of `ship` for each line, two at once.
pub const LINES: &str = r#"{"workflow": "lines",
  "defaults": {"attempt_timeout": "10s", "retry": {"calls_per_attempt": 2}, "supervisor": {"failure_threshold": 1}},
  "steps": [
    {"id": "a", "agent": "x", "action": "do-a", "compensation": {"action": "compensate-a"}},
    {"id": "b", "for_each": {"in": "details.lines", "as": "line", "at_once": 2},
     "run": {"workflow": "ship", "details": {"sku": "${line}", "n": "${index}", "of": "${steps.a.ref}"}}},
    {"id": "c", "agent": "y", "action": "do-c", "input": "${steps.b}", "compensation": {"action": "compensate-c"}}]}"#;

/// The result of an event.
#[derive(Debug, PartialEq)]
pub enum Then {
    Written,
    Repeat,
    Ignored(Reason),
    Refused(OperationRefusal),
    Illegal(Illegal),
}

/// One order, its definition and the time.
pub struct Story {
    pub workflow: Workflow,
    pub details: Value,
    pub timing: Timing,
    pub now: Timestamp,
    pub order: Order,
    claims: u32,
}

/// How long a request may wait in the queue of its agent, in milliseconds.
pub const QUEUE: u64 = 60_000;

/// The time at which each story begins, in milliseconds.
pub const BEGIN: u64 = 1_000_000;

impl Story {
    /// A new order of this workflow, just accepted.
    pub fn of(workflow: &str) -> Self {
        Self::with_details(workflow, json!({"amount": 7}))
    }

    pub fn with_details(workflow: &str, details: Value) -> Self {
        Self::with_workflow(compile(workflow), details)
    }

    pub fn with_workflow(workflow: Workflow, details: Value) -> Self {
        let accepted = accepted(&workflow, &details);
        Self {
            order: Order::new(&accepted, &workflow, accepted.due),
            workflow,
            details,
            timing: Timing::default(),
            now: Timestamp(BEGIN),
            claims: 0,
        }
    }

    /// The order's announcement, as Submission makes it.
    pub fn accepted(&self) -> Accepted {
        accepted(&self.workflow, &self.details)
    }

    pub fn ctx(&self) -> Context<'_> {
        Context {
            workflow: &self.workflow,
            details: Some(&self.details),
            timing: self.timing,
        }
    }

    /// Advances the time.
    pub fn after(&mut self, ms: u64) -> &mut Self {
        self.now = Timestamp(self.now.0 + ms);
        self
    }

    /// The core's decision on an event, which is not applied.
    pub fn asked(&self, event: Event) -> Result<Decision, Illegal> {
        decide(&self.ctx(), &self.order, event, self.now)
    }

    /// Applies an event, and checks the invariants and [`Story::check_afterwards`] after a write.
    #[track_caller]
    pub fn when(&mut self, event: Event) -> Then {
        let before = self.order.clone();
        let then = self.takes(event.clone());
        if then == Then::Written {
            self.check_afterwards(&before, &event);
        }
        then
    }

    fn takes(&mut self, event: Event) -> Then {
        match self.asked(event) {
            Ok(Decision::Transition(change)) => {
                let breaches = invariants::of_write(&self.order, &change.next, &self.workflow);
                assert_eq!(breaches, [], "every write keeps every invariant");
                let made_again = effect::of_record(&self.ctx(), &change.next);
                if !change.effects.is_empty() {
                    assert_eq!(
                        made_again,
                        Ok(change.effects),
                        "a record says what it wants sent"
                    );
                }
                self.order = change.next;
                Then::Written
            }
            Ok(Decision::Repeat) => Then::Repeat,
            Ok(Decision::NeedsDetails) => panic!("it has the details"),
            Ok(Decision::Ignore(reason)) => Then::Ignored(reason),
            Ok(Decision::Refuse(refusal)) => Then::Refused(refusal),
            Err(illegal) => Then::Illegal(illegal),
        }
    }

    pub fn claim_event(&mut self) -> Event {
        self.claims += 1;
        Event::Claim(
            ClaimId(format!("claim-{}", self.claims)),
            triad_core::CallbackSecret([1, 2]),
        )
    }

    pub fn claimed(mut self) -> Self {
        self.claim();
        self
    }

    pub fn claim(&mut self) -> &mut Self {
        let event = self.claim_event();
        assert_eq!(self.when(event), Then::Written);
        self
    }

    /// An event from outside, for the order.
    pub fn event(&self, event: &str, id: &str, data: Value) -> Event {
        Event::Received(Box::new(ReceivedEvent {
            order_id: self.order.id.clone(),
            event: event.to_owned(),
            id: id.to_owned(),
            data,
            by: None,
        }))
    }

    /// The result of a person's decision.
    pub fn decides(&mut self, by: &str, event: &str, id: &str, data: Value) -> Then {
        let mut event = self.event(event, id, data);
        if let Event::Received(event) = &mut event {
            event.by = Some(by.to_owned());
        }
        self.when(event)
    }

    /// The result of an event from outside.
    #[track_caller]
    pub fn hears(&mut self, event: &str, id: &str, data: Value) -> Then {
        let event = self.event(event, id, data);
        self.when(event)
    }

    /// A callback of a step's service, with the step's own token.
    pub fn callback(&self, step: &str, id: &str, says: Says) -> Event {
        let token = self.record(step).callback.as_ref();
        Event::CalledBack(Box::new(Callback {
            order_id: self.order.id.clone(),
            step: step.to_owned(),
            token: token.map_or_else(String::new, |token| token.as_str().to_owned()),
            id: id.to_owned(),
            says,
        }))
    }

    /// The result of a callback with the step's own token.
    #[track_caller]
    pub fn called_back(&mut self, step: &str, id: &str, says: Says) -> Then {
        let event = self.callback(step, id, says);
        self.when(event)
    }

    /// The end of a child order of a step.
    pub fn child_end(&self, step: &str, number: u32, end: ChildEnd) -> Event {
        let record = self.record(step);
        let child = record.children.as_ref().map(|c| &c.all[number as usize]);
        let attempt = child.expect("it has the child").attempt;
        Event::ChildEnded(Box::new(ChildEnded {
            order_id: self.order.id.clone(),
            child: child_id(&self.order.id, &record.step, Some(number), attempt),
            parent: Parent {
                order_id: self.order.id.clone(),
                step: record.step.clone(),
                number,
                attempt,
                depth: 1,
            },
            end,
        }))
    }

    /// The end of a child order of a step, which must be taken.
    #[track_caller]
    pub fn child_ends(&mut self, step: &str, number: u32, end: ChildEnd) -> &mut Self {
        let event = self.child_end(step, number, end);
        assert_eq!(self.when(event), Then::Written);
        self
    }

    /// The child orders that the outbox asks for: the id, and whether it is to be compensated.
    pub fn children_asked(&self) -> Vec<(String, bool)> {
        let messages = self.messages().into_iter();
        let asked = messages.filter_map(|m| match serde_json::from_slice(&m.value) {
            Ok(SchedulerMessage::Child(child)) => Some(child),
            _ => None,
        });
        asked
            .map(|child| (child.order_id.to_string(), child.compensate.is_some()))
            .collect()
    }

    /// A reply to the running attempt at a step, in either direction.
    pub fn reply(&self, step: &str, outcome: ReplyOutcome) -> Reply {
        let state = self.step(step);
        let Some(Out {
            direction,
            attempt,
            complete_by,
            ..
        }) = state.out()
        else {
            panic!("step {step} waits for no reply: {state:?}");
        };
        Reply {
            order_id: self.order.id.clone(),
            step: step.to_owned().try_into().unwrap(),
            direction,
            attempt,
            complete_by,
            calls: 1,
            outcome,
            sent_at: None,
            pace: None,
        }
    }

    /// The bus has acknowledged all messages: the outbox is empty in the copy for the next decision.
    pub fn sent(&mut self) -> &mut Self {
        self.order.outbox = self.order.outbox.acknowledged();
        self
    }

    pub fn answer(&mut self, step: &str, outcome: ReplyOutcome) -> &mut Self {
        let reply = self.reply(step, outcome);
        assert_eq!(self.when(Event::Reply(reply)), Then::Written);
        self
    }

    pub fn succeed(&mut self, step: &str) -> &mut Self {
        self.answer(step, done())
    }

    pub fn refuse(&mut self, step: &str) -> &mut Self {
        self.answer(step, refused(false))
    }

    /// All requests under way time out, and the Supervisor checks the order. Attempts with counted calls get no
    /// reply, although an agent took them; for the others the agent replies with a timeout.
    #[track_caller]
    pub fn overdue(&mut self) -> &mut Self {
        let out = |s: &Self| -> Vec<(String, bool)> {
            let steps = s.order.steps.iter().zip(&s.workflow.steps);
            steps
                .filter(|(r, _)| r.state.complete_by().is_some())
                .filter(|(r, _)| r.state.complete_by() <= Some(s.ripe().minus(s.timing.skew)))
                .map(|(r, w)| {
                    let compensation = r.state.to_compensate().is_some();
                    let counted = match &w.compensation {
                        Some(c) if compensation => c.is_counted,
                        _ => w.call().expect("a call").is_counted,
                    };
                    (r.step.to_string(), counted)
                })
                .collect()
        };
        let ripe = self.ripe();
        for (step, _) in out(self).into_iter().filter(|(_, counted)| !counted) {
            let mut reply = self.reply(&step, timed_out());
            reply.calls = self.allowance(&step);
            // The agent sends the reply before complete-by, even if it is read later.
            reply.sent_at = Some(self.now.min(reply.complete_by));
            assert_eq!(self.when(Event::Reply(reply)), Then::Written);
        }
        self.now = self.now.max(ripe);
        let then = self.when(Event::Overdue(Overdue::default()));
        let listened_until = out(self)
            .iter()
            .filter(|(_, counted)| *counted)
            .filter_map(|(step, _)| self.record(step).state.unheard_since())
            .map(|since| since.plus(self.timing.hear_within))
            .filter(|until| *until > self.now)
            .max();
        let Some(until) = listened_until else {
            assert_eq!(then, Then::Written);
            return self;
        };
        // If a late reply was read before, this check writes nothing.
        assert!(matches!(
            then,
            Then::Written | Then::Ignored(Reason::NotDue)
        ));
        self.now = until;
        assert_eq!(self.when(Event::Overdue(Overdue::default())), Then::Written);
        self
    }

    /// The Supervisor checks the order now.
    #[track_caller]
    pub fn overdue_now(&mut self) -> &mut Self {
        self.now = self.now.max(self.ripe());
        assert_eq!(self.when(Event::Overdue(Overdue::default())), Then::Written);
        self
    }

    /// No agent takes the requests under way, so no reply comes.
    #[track_caller]
    pub fn untaken(&mut self) -> &mut Self {
        self.now = self.now.max(self.ripe());
        let out: Untaken = self.order.steps.iter().map(|r| r.step.clone()).collect();
        if self.when(Event::Overdue(out.clone().into())) == Then::Written {
            self.now = self.now.plus(self.timing.hear_within);
        }
        assert_eq!(self.when(Event::Overdue(out.into())), Then::Written);
        self
    }

    /// The earliest time at which the Supervisor may act on the order.
    pub fn ripe(&self) -> Timestamp {
        let due = triad_core::decide::true_due(&self.ctx(), &self.order).expect("it is alive");
        due.plus(self.timing.skew)
    }

    fn allowance(&self, step: &str) -> u32 {
        let at = self.workflow.step_index(step).expect("the step exists");
        let out = self.step(step).out();
        let direction = out.map_or(Direction::Forward, |out| out.direction);
        triad_core::budget::allowance(&self.workflow.steps[at], &self.order.steps[at], direction)
    }

    /// The result of an operator's act, which may be refused.
    pub fn tries(&mut self, action: Action) -> Then {
        self.when(Event::Operate(Operation {
            action,
            act: OperatorAct::new("ann", "because"),
        }))
    }

    /// An operator's act that must succeed.
    #[track_caller]
    pub fn acts(&mut self, action: Action) -> &mut Self {
        assert_eq!(self.tries(action), Then::Written);
        self
    }

    /// An operator resubmits the order.
    #[track_caller]
    pub fn resubmit(&mut self) -> &mut Self {
        self.acts(Action::Resubmit { input: None })
    }

    /// An operator resubmits the order with another input of a step.
    pub fn correct(&mut self, step: &str, input: Value) -> Then {
        let step = StepId::new(step).unwrap();
        self.tries(Action::Resubmit {
            input: Some((step, input)),
        })
    }

    /// Advances the time until no request in doubt can take effect any more.
    pub fn silent(&mut self) -> &mut Self {
        let open = self.order.steps.iter().filter_map(doubt::open_until).max();
        self.now = open.map_or(self.now, |until| self.now.max(until));
        self
    }

    /// An operator resolves an effect in doubt.
    pub fn resolve(&mut self, step: &str, applied: Option<Value>) -> Then {
        let step = StepId::new(step).unwrap();
        self.tries(Action::Resolve {
            step,
            applied,
            attempt: None,
        })
    }

    /// The agent defers the running attempt without a call.
    pub fn deferred(&mut self, step: &str, ms: u64) -> &mut Self {
        let until = Timestamp(self.now.0 + ms);
        self.answer_after(0, step, deferred_until(until, false))
    }

    /// The agent replies to the running attempt after `calls` calls.
    pub fn answer_after(&mut self, calls: u32, step: &str, outcome: ReplyOutcome) -> &mut Self {
        let mut reply = self.reply(step, outcome);
        reply.calls = calls;
        assert_eq!(self.when(Event::Reply(reply)), Then::Written);
        self
    }

    pub fn record(&self, step: &str) -> &StepRecord {
        let at = self.workflow.step_index(step).expect("the step exists");
        &self.order.steps[at]
    }

    pub fn step(&self, step: &str) -> &StepState {
        &self.record(step).state
    }

    /// The kinds of the timeline's lines.
    pub fn timeline(&self) -> Vec<IncidentKind> {
        self.order.incidents.iter().map(|i| i.what).collect()
    }

    pub fn steps(&self) -> Vec<(&str, &'static str)> {
        let named = |s: &'static str| s;
        self.order
            .steps
            .iter()
            .map(|s| (s.step.as_str(), named(s.state.name())))
            .collect()
    }

    pub fn state(&self) -> &'static str {
        self.order.state.name()
    }

    /// The statuses in the outbox, with their sequence numbers.
    pub fn statuses(&self) -> Vec<(u32, Status)> {
        let entries = self.order.outbox.entries.iter();
        entries
            .filter_map(|e| match e {
                Emission::Status {
                    sequence, status, ..
                } => Some((*sequence, *status)),
                _ => None,
            })
            .collect()
    }

    /// The requests in the outbox: step, direction, attempt.
    pub fn asks(&self) -> Vec<(String, Direction, u32)> {
        let entries = self.order.outbox.entries.iter();
        entries
            .filter_map(|e| match e {
                Emission::Request {
                    step,
                    direction,
                    attempt,
                } => Some((step.to_string(), *direction, attempt.0)),
                _ => None,
            })
            .collect()
    }

    /// Whether the outbox has an alert for operators.
    pub fn alerts(&self) -> bool {
        let entries = &self.order.outbox.entries;
        entries.iter().any(|e| matches!(e, Emission::Alert { .. }))
    }

    pub fn messages(&self) -> Vec<Envelope> {
        let effects = effect::of_record(&self.ctx(), &self.order).expect("a sound record");
        let messages = effects.iter().map(|e| render::effect(e, &self.order));
        messages.collect()
    }

    /// The requests that a pass would send.
    pub fn requests(&self) -> Vec<StepRequest> {
        let sent = self.messages().into_iter();
        sent.filter(|m| m.topic.starts_with("agent."))
            .map(|m| serde_json::from_slice(&m.value).unwrap())
            .collect()
    }

    /// Whether the outbox has a wake for the Scheduler.
    pub fn announces(&self) -> bool {
        self.messages().iter().any(|m| {
            m.topic == "scheduler"
                && matches!(
                    serde_json::from_slice(&m.value),
                    Ok(SchedulerMessage::Wake(_))
                )
        })
    }

    pub fn failures(&self, step: &str) -> u32 {
        self.record(step).action.failures
    }

    pub fn compensation_calls(&self, step: &str) -> u32 {
        self.record(step).compensation.calls
    }

    pub fn calls(&self, step: &str) -> u32 {
        self.record(step).action.calls
    }
}

fn accepted(workflow: &Workflow, details: &Value) -> Accepted {
    let accepted = json!({
        "order_id": "o-1",
        "workflow": format!("{}@{}", workflow.name, workflow.hash),
        "submitted_at": BEGIN, "due": BEGIN + 10_000, "details": details,
    });
    serde_json::from_value(accepted).unwrap()
}

/// The workflow with calls counted across redeliveries, so that a reply to one delivery holds for all deliveries.
pub fn counted(json: &str) -> String {
    let mut definition: Value = serde_json::from_str(json).expect("a definition");
    definition["defaults"]["retry"] = json!({"calls_per_attempt": 2, "calls_per_run": 20});
    definition.to_string()
}

pub fn compile(json: &str) -> Workflow {
    let definition = serde_json::from_str(json).expect("a definition");
    Workflow::compile(definition, &Limits::published()).expect("a sound definition")
}

pub fn done() -> ReplyOutcome {
    ReplyOutcome::Succeeded {
        output: json!({"ref": 1}),
    }
}

pub fn refused(maybe_applied: bool) -> ReplyOutcome {
    ReplyOutcome::Failed {
        failure: Failure::new(FailureKind::Permanent, "out-of-stock", "none left"),
        maybe_applied,
    }
}

/// A transient failure whose calls cannot have had an effect.
pub fn failed_cleanly() -> ReplyOutcome {
    ReplyOutcome::Failed {
        failure: Failure::new(FailureKind::Transient, "http-503", "busy"),
        maybe_applied: false,
    }
}

/// An agent took the attempt, and got no answer within the step's attempt timeout.
pub fn timed_out() -> ReplyOutcome {
    ReplyOutcome::Failed {
        failure: Failure::new(FailureKind::TimedOut, "no-answer", "no answer in time"),
        maybe_applied: true,
    }
}

pub fn deferred_until(until: Timestamp, maybe_applied: bool) -> ReplyOutcome {
    ReplyOutcome::Deferred {
        until,
        opens: None,
        failure: Failure::new(FailureKind::Transient, "breaker-open", "not now"),
        maybe_applied,
    }
}

/// A service's answer to a probe: whether the effect happened.
pub fn found(applied: bool) -> ReplyOutcome {
    ReplyOutcome::Succeeded {
        output: match applied {
            true => json!({"applied": true, "output": {"ref": 9}}),
            false => json!({"applied": false}),
        },
    }
}

pub fn failed() -> ReplyOutcome {
    ReplyOutcome::Failed {
        failure: Failure::new(FailureKind::Transient, "http-503", "busy"),
        maybe_applied: true,
    }
}

/// The step's attempt that is under way.
pub fn out_of(record: &mut StepRecord) -> &mut Out {
    match &mut record.state {
        StepState::Acting(Work::Out(out))
        | StepState::Compensating {
            work: Work::Out(out),
            ..
        } => out,
        other => panic!("nothing of it is out: {other:?}"),
    }
}
