//! A simulated store, and orders to fill it with.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use triad_core::order::{Hold, OperatorAct};
use triad_core::{Failure, FailureKind, Order, OrderId, ProcessState, Timestamp, WorkflowRef};
use triad_runtime::{Created, DefinitionStore, NewOrder, StateStore, Write, Written};
use triad_sim::{Ports, calm_ports, run_on};
use triad_workflow::hash::canonical_json;
use triad_workflow::{Limits, Workflow};

/// Runs a test to its end in a simulated world without faults.
pub fn run<F>(test: impl FnOnce(Ports) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let ports = calm_ports(1);
    let done = Arc::new(AtomicBool::new(false));
    let (end, test) = (done.clone(), test(ports.clone()));
    run_on(&ports, async move {
        test.await;
        end.store(true, Ordering::SeqCst);
    });
    assert!(done.load(Ordering::SeqCst), "the test ran to its end");
}

/// A workflow of one step.
pub fn workflow(name: &str, action: &str) -> Workflow {
    let definition = json!({"workflow": name, "steps": [
        {"id": "pay", "agent": "bank", "action": action, "compensation": {"agent": "refunds", "action": "back"}}]});
    let definition = serde_json::from_value(definition).expect("a definition");
    Workflow::compile(definition, &Limits::published()).expect("a sound definition")
}

/// The name and hash of a workflow.
pub fn identity(workflow: &Workflow) -> WorkflowRef {
    WorkflowRef {
        name: workflow.name.clone(),
        hash: workflow.hash.clone(),
    }
}

pub async fn publish(store: &Ports, workflow: &Workflow) {
    let json = canonical_json(&workflow.definition);
    let published = store_publish(store, identity(workflow), json).await;
    assert_eq!(published, Ok(()));
}

async fn store_publish(
    store: &Ports,
    definition: WorkflowRef,
    json: String,
) -> Result<(), triad_runtime::StoreError> {
    DefinitionStore::publish(store, definition, json).await
}

/// A failure with this code.
pub fn cause(code: &str) -> Failure {
    Failure::new(FailureKind::Permanent, code, "")
}

/// The state Error, entered at the time `at` because of a failure with this code.
pub fn error(at: u64, code: &str) -> ProcessState {
    ProcessState::Error {
        at: Timestamp(at),
        cause: cause(code),
    }
}

/// Stores an order of a workflow, applies `change`, and stores the result.
pub async fn order(
    store: &Ports,
    workflow: &Workflow,
    name: &str,
    change: impl FnOnce(&mut Order),
) -> OrderId {
    searched(store, workflow, name, (1_000, &[]), change).await
}

/// The same with a submission time and search keys.
pub async fn searched(
    store: &Ports,
    workflow: &Workflow,
    name: &str,
    (at, keys): (u64, &[&str]),
    change: impl FnOnce(&mut Order),
) -> OrderId {
    let accepted = json!({"order_id": name, "workflow": identity(workflow).to_string(),
        "submitted_at": at, "due": 2_000, "search": keys, "details": {}});
    let accepted = serde_json::from_value(accepted).expect("an accepted order");
    let first = Order::new(&accepted, workflow, Timestamp(2_000));
    let new = NewOrder {
        order: first.clone(),
        details: Arc::new(Value::Null),
        digest: "d".into(),
        messages: Vec::new(),
    };
    assert_eq!(store.create(vec![new]).await, [Ok(Created::Created)]);
    let mut next = first.clone();
    next.version = first.version.next();
    change(&mut next);
    if next.state.is_finished() {
        next.due = None;
    }
    let write = Write::silent(first.version, Arc::new(next), 1);
    assert_eq!(store.commit(vec![write]).await, [Ok(Written::Written)]);
    first.id
}

/// An operator's pause since the time `at`.
pub fn hold(at: u64) -> Hold {
    Hold {
        at: Timestamp(at),
        act: OperatorAct::new("ann", "a reason"),
    }
}

pub fn id(name: &str) -> OrderId {
    OrderId::new(name).expect("an id")
}
