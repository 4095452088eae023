//! No answer to an application contains the value of a hidden field, although each part of the order has it.

use std::sync::Arc;

use serde_json::json;
use triad_console::Hidden;
use triad_core::failure::ANSWERED;
use triad_core::operate::{Action, Operation};
use triad_core::order::{Incident, IncidentKind, OperatorAct};
use triad_core::step::StepState;
use triad_core::{Attempt, Failure, FailureKind, Order, OrderId, ProcessState};
use triad_runtime::operator::Operator;
use triad_runtime::system::{SystemClock, SystemEntropy};
use triad_runtime::{Clock, StateStore, Write, Written};
use triad_workflow::StepId;

use crate::common::client::Said;
use crate::common::{Made, World, order};

/// The value of the hidden field `card`.
const SECRET: &str = "4929000000006";

fn shows_nothing(way: &str, said: &Said) {
    let text = String::from_utf8_lossy(&said.body);
    assert!(!text.contains(SECRET), "{way}: {text}");
}

async fn change(world: &World, id: &str, change: impl FnOnce(&mut Order)) {
    let mut order = world.stored(id).await.expect("it is stored");
    let expected = order.version;
    order.version = expected.next();
    order.due = None;
    change(&mut order);
    let write = Write::silent(expected, Arc::new(order), 7);
    let written = world.sqlite.commit(vec![write]).await;
    assert_eq!(written, [Ok(Written::Written)]);
}

/// Ends an order in Error by a service's answer that repeats its request.
fn fails_with_it(order: &mut Order) {
    let at = SystemClock.now();
    let text = format!("422{ANSWERED}{{\"card\": \"{SECRET}\"}}");
    let cause = Failure::new(FailureKind::Permanent, "http-422", &text);
    let mut line = Incident::new(IncidentKind::AttemptFailed, at);
    line.failure = Some(cause.clone());
    order.incidents.push(line);
    order.search = vec![format!("card={SECRET}").parse().unwrap()];
    let card = json!({"card": SECRET, "deep": [{"Card": SECRET}]});
    let step = &mut order.steps[0];
    step.error = Some(cause.clone());
    step.input = Some(card.clone());
    step.state = StepState::Completed {
        attempt: Attempt(1),
        started: None,
        finished: at,
        position: 0,
        output: card.into(),
    };
    order.state = ProcessState::Error { at, cause };
}

/// Resubmits the step with another input, as an operator does.
async fn correct(world: &World, id: &str) {
    let settings = triad_runtime::settings::Settings::default();
    let (store, bus) = (world.sqlite.clone(), world.heard.clone());
    let operator = Operator::new(store, bus, SystemClock, SystemEntropy, settings);
    let input = Some((StepId::new("a").unwrap(), json!({"card": SECRET})));
    let corrected = Operation {
        action: Action::Resubmit { input },
        act: OperatorAct::new("ann", "w"),
    };
    let id = OrderId::new(id).unwrap();
    let done = operator.operate(&id, &corrected, false).await;
    assert!(done.is_ok(), "{done:?}");
}

#[tokio::test]
async fn a_secret_in_every_place_of_an_order_is_in_no_answer() {
    let mut made = Made::default();
    made.settings.hidden = Hidden::of(["card".to_owned()]);
    let world = World::with(made).await;
    for id in ["e", "f"] {
        let mut with_card = order(id);
        with_card["details"]["card"] = SECRET.into();
        let said = world.client.post("/v1/orders", &with_card).await;
        assert_eq!(said.status, 201);
    }
    change(&world, "e", fails_with_it).await;
    let (at, kind) = (SystemClock.now(), FailureKind::Permanent);
    let cause = Failure::new(kind, "x", "y");
    change(&world, "f", |order| {
        order.state = ProcessState::Error { at, cause }
    })
    .await;
    correct(&world, "f").await;
    for path in ["/v1/orders/e", "/v1/orders/f", "/v1/orders/e?wait=1s"] {
        let said = world.get(path).await;
        assert_eq!(said.json()["kind"], "order", "{path}");
        shows_nothing(path, &said);
    }
    let misfit = json!({"order_id": "worse", "workflow": "strict", "details": {"n": SECRET}});
    let said = world.client.post("/v1/orders", &misfit).await;
    assert_eq!(said.is(), (422, "details-do-not-fit".into()));
    shows_nothing("misfit", &said);
}
