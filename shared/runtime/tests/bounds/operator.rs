//! Tries at what others also write.

use serde_json::json;
use triad_core::downstream::{DownstreamAction, ForcedTo};
use triad_core::{Action, Operation, OperatorAct};
use triad_runtime::operator::{OperateError, Operator};
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

#[test]
fn a_move_to_another_version_is_tried_eight_times() {
    let world = World::new();
    let workflow = world.workflow("w");
    world.announced(&workflow, "o-1", json!({}));
    let mut other = compiled("w").definition;
    other.steps[0].action = "give".into();
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
