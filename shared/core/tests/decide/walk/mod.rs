//! Random walks: thousands of events of every kind over a handful of workflows, each write held
//! against every invariant and against what the world outside knows; then faults stop, and the
//! order finishes.

mod book;
mod chance;
mod end;
mod flows;
mod reached;
mod told;
mod world;

use reached::Reached;
use world::World;

/// Walks over each workflow.
const WALKS: u64 = 200;
/// Random events of each walk, before faults stop.
const EVENTS: usize = 150;

#[test]
fn on_every_way_the_rules_hold_and_every_state_is_reached() {
    let mut reached = Reached::default();
    for (flow, mut workflows) in flows::all().into_iter().enumerate() {
        for walk in 0..WALKS {
            let seed = walk * 1_000 + flow as u64;
            let mut world = World::new(workflows, seed, &mut reached);
            world.walk(EVENTS);
            world.is_brought_to_a_good_end();
            workflows = world.into_workflows();
        }
    }
    assert_eq!(reached.missing(), [], "never reached");
}
