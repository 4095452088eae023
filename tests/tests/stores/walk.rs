//! Unfinished orders, made by applying the core's decisions to random events of a seed.

use std::collections::BTreeSet;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use triad_core::{
    Accepted, Action, ClaimId, Context, Decision, Direction, Event, Failure, FailureKind,
    Operation, OperatorAct, Order, OrderId, Overdue, Priority, Reply, ReplyOutcome, StepState,
    Timestamp, Timing, Work, WorkflowRef, decide,
};
use triad_workflow::Workflow;

/// Three steps with compensations, two of them in parallel.
pub const YAML: &str = "workflow: walk
defaults: { supervisor: { failure_threshold: 1 } }
steps:
  - { id: a, agent: x, action: go, compensation: { action: back } }
  - { id: b, agent: x, action: go, after: [a], compensation: { action: back } }
  - { id: c, agent: y, action: go, after: [a], compensation: { action: back } }
  - { id: d, agent: y, action: go, after: [b, c], point_of_no_return: true }
";
/// Most events that are tried on one order.
const EVENTS: usize = 16;
/// The same limit for an order that should come far.
const EVENTS_OF_FAR: usize = 60;

/// How the services answer an order's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    /// With all kinds of answers.
    Mixed,
    /// Almost always with success.
    Good,
    /// With success, except for the last step, which is refused.
    RefusesTheLast,
    /// With a refusal, after which every compensation fails.
    RefusesToGoBack,
}

/// A new order of the workflow.
#[must_use]
pub fn new(workflow: &Workflow, id: OrderId, now: Timestamp, details: Value) -> Order {
    let accepted = Accepted {
        order_id: id,
        workflow: WorkflowRef {
            name: workflow.name.clone(),
            hash: workflow.hash.clone(),
        },
        priority: Priority::Normal,
        reply_topic: None,
        traceparent: None,
        submitted_at: now,
        due: now,
        start_at: None,
        deadline: None,
        search: Vec::new(),
        parent: None,
        details,
    };
    Order::new(&accepted, workflow, now)
}

/// The order after random events; events that its state does not allow are skipped.
#[must_use]
pub fn walked(workflow: &Workflow, new: &Order, seed: u64) -> Order {
    let mut rng = StdRng::seed_from_u64(seed);
    let (mut order, mut now) = (new.clone(), new.submitted_at);
    // Some orders are set aside instead, so they have not begun.
    if rng.random_range(0..12) == 0 {
        order.set_aside = Some(now);
        return order;
    }
    let moods = [Mood::RefusesTheLast, Mood::RefusesToGoBack, Mood::Good];
    let mood = moods.get(rng.random_range(0..12)).copied();
    let mood = mood.unwrap_or(Mood::Mixed);
    let most = match mood {
        Mood::Mixed => EVENTS,
        _ => EVENTS_OF_FAR,
    };
    for _ in 0..rng.random_range(0..most) {
        let late = matches!(rng.random_range(0..6), 0);
        now = Timestamp(now.0 + if late { 400_000 } else { 50 });
        let ctx = Context {
            workflow,
            details: Some(&Value::Null),
            timing: Timing::default(),
        };
        let event = event(&order, mood, now, &mut rng);
        if let Ok(Decision::Transition(change)) = decide(&ctx, &order, event, now) {
            order = change.next;
        }
    }
    order
}

fn event(order: &Order, mood: Mood, now: Timestamp, rng: &mut StdRng) -> Event {
    let act = |action| {
        let act = OperatorAct::new("ann", "as agreed");
        Event::Operate(Operation { action, act })
    };
    let first = if mood == Mood::Mixed { 0 } else { 5 };
    match rng.random_range(first..24) {
        0 => act(Action::Pause),
        1 => act(Action::Cancel),
        2 => act(Action::Resume),
        3 => act(Action::Close),
        4 => Event::Confirmed,
        5..=8 => Event::Overdue(Overdue::default()),
        9..=12 => Event::Claim(
            ClaimId(format!("claim-{}", now.0)),
            triad_core::CallbackSecret([1, 2]),
        ),
        _ => reply(order, mood, now, rng).unwrap_or_else(|| {
            Event::Claim(
                ClaimId("claim".to_owned()),
                triad_core::CallbackSecret([1, 2]),
            )
        }),
    }
}

/// A random reply to one of the requests under way.
fn reply(order: &Order, mood: Mood, now: Timestamp, rng: &mut StdRng) -> Option<Event> {
    let out = order.steps.iter();
    let out: Vec<_> = out.filter_map(|s| Some((s, s.state.out()?))).collect();
    let (step, out) = out.get(rng.random_range(0..out.len().max(1)))?;
    let failure = |kind| Failure::new(kind, "no", "why");
    let failed = |kind, maybe_applied| ReplyOutcome::Failed {
        failure: failure(kind),
        maybe_applied,
    };
    let is_back = out.direction == Direction::Compensate;
    let refuses = match mood {
        Mood::RefusesTheLast => step.step.as_str() == "d",
        Mood::RefusesToGoBack => is_back || step.step.as_str() == "c",
        Mood::Mixed | Mood::Good => false,
    };
    let first = if mood == Mood::Mixed { 0 } else { 5 };
    let outcome = match rng.random_range(first..12) {
        _ if refuses => failed(FailureKind::Permanent, false),
        0 | 1 => failed(FailureKind::Permanent, false),
        2 | 3 => failed(FailureKind::Transient, true),
        4 | 5 => ReplyOutcome::Deferred {
            until: Timestamp(now.0 + 60_000),
            opens: None,
            failure: failure(FailureKind::Transient),
            maybe_applied: false,
        },
        _ => ReplyOutcome::Succeeded {
            output: json!({"n": 0.1}),
        },
    };
    Some(Event::Reply(Reply {
        order_id: order.id.clone(),
        step: step.step.clone(),
        direction: out.direction,
        attempt: out.attempt,
        complete_by: out.complete_by,
        calls: 1,
        outcome,
        sent_at: Some(now),
        pace: None,
    }))
}

/// The properties of an order, used to check that orders of every kind were made.
#[must_use]
pub fn kinds(order: &Order) -> BTreeSet<String> {
    let mut kinds = BTreeSet::from([order.state.name().to_owned()]);
    let mut out = 0;
    for step in &order.steps {
        kinds.insert(format!("step {}", step.state.name()));
        let work = match &step.state {
            StepState::Acting(work) | StepState::Compensating { work, .. } => Some(work),
            _ => None,
        };
        out += usize::from(matches!(work, Some(Work::Out(_))));
    }
    let mut has = |what: &str, is_so| {
        if is_so {
            kinds.insert(what.to_owned());
        }
    };
    has("request out", out > 0);
    has("parallel requests out", out > 1);
    has("paused", order.paused.is_some());
    has("set aside", order.set_aside.is_some());
    has("closed", order.closed.is_some());
    let is_unsent = order.state.is_finished() && !order.outbox.entries.is_empty();
    has("finished, with messages unsent", is_unsent);
    kinds
}

/// The properties that at least one of a thousand orders must have.
pub const KINDS: [&str; 20] = [
    "Pending",
    "Processing",
    "Processed",
    "Error",
    "Compensating",
    "Compensated",
    "CompensationFailed",
    "step waiting",
    "step running",
    "step deferred",
    "step failed",
    "step retry-due",
    "step completed",
    "step compensating",
    "step compensated",
    "request out",
    "parallel requests out",
    "paused",
    "set aside",
    "finished, with messages unsent",
];
