//! Operators' acts that race with other writers are tried again.

use serde_json::json;
use triad_core::downstream::{DownstreamAction, ForcedTo};
use triad_core::{
    Action, Attempt, Doubt, Failure, FailureKind, Operation, OperationRefusal, OperatorAct,
    ProcessState, StepState, Timestamp, Work,
};
use triad_runtime::operator::{OperateError, Operated, Operator};
use triad_runtime::settings::Settings;
use triad_workflow::AgentName;

use crate::support::{Asked, World, compiled, identity, order_id};

fn operator(world: &World) -> Operator<World, World, World, World> {
    let w = || world.clone();
    Operator::new(w(), w(), w(), w(), Settings::default())
}

#[test]
fn an_act_on_an_order_is_tried_eight_times() {
    let world = World::new();
    let workflow = world.workflow("w");
    world.announced(&workflow, "o-1", json!({}));
    world.inner().faults.raced = true;
    let operation = Operation {
        action: Action::Pause,
        act: OperatorAct::new("ann", "a reason"),
    };
    let done = world.run(operator(&world).operate(&order_id("o-1"), &operation, false));
    assert_eq!(done, Err(OperateError::Contended));
    assert_eq!(world.times(|asked| matches!(asked, Asked::Commit(_))), 8);
}

/// Another operator has resolved the same effect before; the step was attempted again, and its effect is in doubt
/// again. The act must not apply to the new attempt.
#[test]
fn what_is_said_of_one_attempt_is_not_taken_for_another_one_when_a_race_is_lost() {
    let world = World::new();
    let workflow = world.workflow("w");
    world.announced(&workflow, "o-1", json!({}));
    let id = order_id("o-1");
    let mut stopped = world.inner().orders[&id].clone();
    stopped.state = ProcessState::Error {
        at: Timestamp(1),
        cause: Failure::new(FailureKind::Ambiguous, "in-doubt", ""),
    };
    stopped.steps[0].in_doubt = Some(Doubt::default());
    let at = |attempt, version| {
        let mut order = stopped.clone();
        order.steps[0].state = StepState::Acting(Work::due(Attempt(attempt)));
        order.version = version;
        order
    };
    let (first, again) = (at(1, stopped.version), at(2, stopped.version.next()));
    let operation = Operation {
        action: Action::Resolve {
            step: stopped.steps[0].step.clone(),
            applied: None,
            attempt: None,
        },
        act: OperatorAct::new("ann", "a reason"),
    };
    let resolve = |overtaken| {
        let mut inner = world.inner();
        inner.orders.insert(id.clone(), first.clone());
        inner.faults.overtaken = overtaken;
        drop(inner);
        let done = world.run(operator(&world).operate(&id, &operation, false));
        done.expect("the store works")
    };
    let refused = resolve(Some(again.clone()));
    let Operated::Refused(OperationRefusal::Step { why, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(why.starts_with("attempt 2"), "{why}");
    assert_eq!(world.inner().orders[&id], again);
    // Another process has meanwhile written some other change.
    let noted = at(1, stopped.version.next());
    let done = resolve(Some(noted));
    assert!(matches!(done, Operated::Done(_)), "{done:?}");
}

#[test]
fn a_move_to_another_version_is_tried_eight_times() {
    let world = World::new();
    let workflow = world.workflow("w");
    world.announced(&workflow, "o-1", json!({}));
    let mut other = compiled("w").definition;
    other.steps[0].action = Some("give".into());
    let limits = triad_workflow::Limits::published();
    let other = triad_workflow::Workflow::compile(other, &limits).expect("it is sound");
    let json = triad_workflow::hash::canonical_json(&other.definition);
    let to = identity(&other);
    let published = triad_runtime::DefinitionStore::publish(&world, to.clone(), json);
    assert_eq!(world.run(published), Ok(()));
    world.inner().faults.raced = true;
    let act = OperatorAct::new("ann", "a reason");
    let moved = world.run(operator(&world).migrate(&order_id("o-1"), &to, &act, false));
    assert_eq!(moved, Err(OperateError::Contended));
    assert_eq!(world.times(|asked| matches!(asked, Asked::Commit(_))), 8);
}

#[test]
fn an_act_on_a_downstream_is_tried_eight_times() {
    let world = World::new();
    world.inner().faults.control_raced = true;
    let agent = AgentName::new("bank").expect("a name");
    let act = OperatorAct::new("ann", "a reason");
    let action = DownstreamAction::Force(ForcedTo::Open);
    let done = world.run(operator(&world).operate_downstream(&agent, &action, &act));
    assert_eq!(done, Err(OperateError::Contended));
    assert_eq!(world.times(|asked| *asked == Asked::ControlWrite), 8);
}
