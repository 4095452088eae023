//! Orders for the contracts of the stores: they have one small workflow and are built without the handlers.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use triad_core::children::Parent;
use triad_core::order::Claim;
use triad_core::received::KeptEvent;
use triad_core::{
    Accepted, Attempt, ClaimId, Context, Decision, Event, Failure, FailureKind, Order, OrderId,
    Overdue, ProcessState, StepState, Timestamp, Timing, WorkflowRef, decide,
};
use triad_runtime::{Created, NewOrder, StateStore, Write, Written};
use triad_workflow::{Limits, StepId, Workflow};

const DEFINITION: &str = r#"{"workflow": "contract", "steps": [
    {"id": "a", "agent": "x", "action": "go", "compensation": {"action": "compensate"}},
    {"id": "b", "agent": "x", "action": "go", "compensation": "none"}]}"#;

pub(super) fn workflow() -> &'static Workflow {
    static COMPILED: LazyLock<Workflow> = LazyLock::new(|| {
        let definition = serde_json::from_str(DEFINITION).expect("a definition");
        Workflow::compile(definition, &Limits::published()).expect("a sound definition")
    });
    &COMPILED
}

pub(super) fn id(prefix: &str, name: &str) -> OrderId {
    OrderId::new(format!("{prefix}-{name}")).expect("the prefix is fit for an id")
}

fn parent() -> Parent {
    let step = StepId::new("ship").expect("a name");
    Parent {
        order_id: OrderId::new("parent").expect("an id"),
        number: 17,
        attempt: 2,
        depth: 1,
        step,
    }
}

pub(super) fn new_order(id: &OrderId, due: u64, details: Value, digest: &str) -> NewOrder {
    let workflow = workflow();
    let accepted = Accepted {
        order_id: id.clone(),
        workflow: WorkflowRef {
            name: workflow.name.clone(),
            hash: workflow.hash.clone(),
        },
        priority: triad_core::Priority::High,
        reply_topic: Some("reply.app".into()),
        traceparent: Some("00-1-2-01".into()),
        submitted_at: Timestamp(1_000),
        due: Timestamp(due),
        start_at: None,
        deadline: None,
        search: vec![format!("order={id}").parse().expect("a search key")],
        parent: Some(Box::new(parent())),
        details: details.clone(),
    };
    NewOrder {
        order: Order::new(&accepted, workflow, accepted.due),
        details: Arc::new(details),
        digest: digest.to_owned(),
        messages: Vec::new(),
    }
}

pub(super) async fn create<S: StateStore>(store: &S, id: &OrderId, due: u64) -> Order {
    let new = new_order(id, due, json!({"n": 1}), "d");
    let order = new.order.clone();
    assert_eq!(store.create(vec![new]).await, [Ok(Created::Created)]);
    order
}

pub(super) async fn load<S: StateStore>(store: &S, id: &OrderId) -> Option<Order> {
    let mut all = store.load(vec![id.clone()]).await;
    assert_eq!(all.len(), 1, "one result for one id");
    all.remove(0).expect("the store works")
}

pub(super) async fn commit<S: StateStore>(
    store: &S,
    before: &Order,
    next: &Order,
    token: u64,
) -> Written {
    let write = Write::silent(before.version, Arc::new(next.clone()), token);
    let mut all = store.commit(vec![write]).await;
    assert_eq!(all.len(), 1, "one result for one write");
    all.remove(0).expect("the store works")
}

/// The order after a Scheduler has claimed it.
pub(super) fn claimed(order: &Order, claim: &str, now: u64) -> Order {
    after(
        order,
        Event::Claim(ClaimId(claim.into()), triad_core::CallbackSecret([1, 2])),
        now,
    )
}

pub(super) fn after(order: &Order, event: Event, now: u64) -> Order {
    let workflow = workflow();
    let ctx = Context {
        workflow,
        details: Some(&Value::Null),
        timing: Timing::default(),
    };
    match decide(&ctx, order, event, Timestamp(now)) {
        Ok(Decision::Transition(change)) => change.next,
        other => panic!("the event must change the order: {other:?}"),
    }
}

/// The versions of an order with every kind of write: claimed, released, ended in Error, compensating, failed.
pub(super) fn life(order: &Order) -> Vec<Order> {
    let mut all = vec![order.clone()];
    let mut now = 1_000;
    while !all[all.len() - 1].state.is_finished() {
        let last = &all[all.len() - 1];
        now += 100_000;
        let event = if last.state.locked_by().is_none() {
            Event::Claim(
                ClaimId(format!("claim-{now}")),
                triad_core::CallbackSecret([1, 2]),
            )
        } else {
            Event::Overdue(Overdue::default())
        };
        let next = after(last, event, now);
        all.push(next);
    }
    all
}

/// The order after its step `a` has completed with an output of about this many bytes, an event has come for a later
/// step, and details were amended.
pub(super) fn with_output(order: &Order, bytes: usize) -> Order {
    let mut next = Order {
        version: order.version.next(),
        events: vec![KeptEvent {
            event: "paid".to_owned(),
            id: "e-1".to_owned(),
            at: Timestamp(1_550),
            step: None,
            by: Some("ann".to_owned()),
            data: Some(json!({"n": 9.80})),
        }],
        amendment: Some(json!({"to": {"city": "Lyon"}, "gift": null, "sum": 9.80})),
        ..order.clone()
    };
    next.steps[0].state = StepState::Completed {
        attempt: Attempt(1),
        started: Some(Timestamp(1_500)),
        finished: Timestamp(1_600),
        position: 0,
        output: json!({"of": order.id, "n": 9.80, "document": "é".repeat(bytes / 2)}).into(),
    };
    next
}

/// Every process state; a test fails if one is missing here.
pub(super) fn every_state() -> Vec<ProcessState> {
    let cause = |code| Failure::new(FailureKind::Permanent, code, "why");
    let at = Timestamp(6_000);
    vec![
        ProcessState::Pending {
            complete_by: Some(at),
        },
        ProcessState::Processing(Claim {
            locked_by: ClaimId("claim".into()),
            complete_by: at,
        }),
        ProcessState::Processed { at },
        ProcessState::Error {
            at,
            cause: cause("no"),
        },
        ProcessState::Compensating {
            locked_by: Some(ClaimId("claim".into())),
            complete_by: at,
            cause: cause("no"),
        },
        ProcessState::Compensated {
            at,
            cause: cause("no"),
        },
        ProcessState::CompensationFailed {
            at,
            cause: cause("refused"),
            compensated_for: Some(cause("no")),
        },
    ]
}
