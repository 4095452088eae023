//! The cache of compiled definitions.

use triad_core::Timestamp;
use triad_runtime::definitions::Definitions;
use triad_runtime::settings::Settings;
use triad_workflow::{Millis, Workflow};

use crate::support::{Asked, World, identity};

fn workflows(world: &World, count: usize) -> Vec<Workflow> {
    (0..count)
        .map(|n| world.workflow(&format!("w{n}")))
        .collect()
}

#[test]
fn of_compiled_definitions_256_are_remembered_and_all_are_forgotten_for_one_more() {
    let world = World::new();
    let workflows = workflows(&world, 257);
    let definitions = Definitions::new(world.clone(), Millis(10_000));
    let ask = |these: &[Workflow]| {
        for workflow in these {
            let found = world.run(definitions.pinned(&identity(workflow), Timestamp(0)));
            assert_eq!(found.map(|w| w.hash.clone()), Ok(workflow.hash.clone()));
        }
        world.times(|asked| *asked == Asked::Definition)
    };
    assert_eq!(ask(&workflows[..256]), 256);
    assert_eq!(ask(&workflows[..256]), 0, "all are remembered");
    assert_eq!(ask(&workflows[256..]), 1);
    assert_eq!(ask(&workflows[..1]), 1, "it was forgotten");
}

#[test]
fn of_names_256_are_remembered_and_all_are_forgotten_for_one_more() {
    let world = World::new();
    let workflows = workflows(&world, 257);
    let definitions = Definitions::new(world.clone(), Millis(10_000));
    let ask = |these: &[Workflow]| {
        for workflow in these {
            let found = world.run(definitions.current(&workflow.name, Timestamp(0)));
            assert_eq!(found.map(|w| w.is_some()), Ok(true));
        }
        world.times(|asked| *asked == Asked::Current)
    };
    assert_eq!(ask(&workflows[..256]), 256);
    assert_eq!(ask(&workflows[..256]), 0, "all are remembered");
    assert_eq!(ask(&workflows[256..]), 1);
    assert_eq!(ask(&workflows[..1]), 1, "it was forgotten");
}

#[test]
fn a_name_is_asked_for_again_after_ten_seconds_where_nothing_is_set() {
    let world = World::new();
    let name = world.workflow("w").name;
    let definitions = Definitions::new(world.clone(), Settings::default().refresh_definitions);
    let reads = |at: u64| {
        let found = world.run(definitions.current(&name, Timestamp(at)));
        assert!(found.is_ok_and(|w| w.is_some()));
        world.times(|asked| *asked == Asked::Current)
    };
    assert_eq!((reads(0), reads(9_999), reads(10_000)), (1, 0, 1));
}
