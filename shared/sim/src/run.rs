//! One run: a seed in, an outcome out.

use triad_core::WorkflowRef;
use triad_core::invariants::Breach;
use triad_workflow::hash;

use crate::coverage::Coverage;
use crate::executor::{Executor, Owner};
use crate::faults::Faults;
use crate::ports::Ports;
use crate::rng::Rng;
use crate::world::{OUTSIDE, World};
use crate::{actors, chaos, scenario};

/// How a world is built.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Keep the readable list of events.
    pub trace: bool,
    /// Instead of a scenario drawn from the seed: so many plain three-step orders, no faults.
    pub plain_orders: Option<usize>,
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// What did not hold; empty if all is well.
    pub breaches: Vec<Breach>,
    /// What was reached.
    pub coverage: Coverage,
    /// Orders that were accepted.
    pub orders: usize,
    /// Virtual milliseconds that passed.
    pub virtual_ms: u64,
    /// The events, if they were wanted.
    pub trace: Vec<String>,
}

impl Outcome {
    /// The breaches, the seed and the events, fit to be read.
    #[must_use]
    pub fn report(&self) -> String {
        let mut text = self.trace.join("\n");
        for breach in &self.breaches {
            text += &format!(
                "\nseed {}: {}: {}",
                self.seed, breach.invariant, breach.seen
            );
        }
        text
    }
}

/// Runs the world of a seed to its end.
///
/// # Example
/// ```
/// let outcome = triad_sim::run(1, triad_sim::Options::default());
/// assert!(outcome.breaches.is_empty(), "{}", outcome.report());
/// ```
#[must_use]
pub fn run(seed: u64, options: Options) -> Outcome {
    let mut rng = Rng::new(seed);
    let faults = match options.plain_orders {
        Some(_) => Faults::default(),
        None => Faults::drawn(&mut rng),
    };
    let world = World::new(rng, faults, options.trace);
    let began = world.now();
    publish_definitions(&world);
    actors::set_up(&world);
    match options.plain_orders {
        Some(count) => {
            let over_ms = count as u64;
            chaos::send_orders(&world, scenario::plain_orders(count), over_ms, 0);
            chaos::unleash(&world, over_ms, chaos::bound_ms());
        }
        None => {
            let (orders, poison, calm_after) = {
                let mut state = world.state();
                let count = usize::try_from(state.rng.between(2, 6)).unwrap_or(2);
                let orders = scenario::orders(&mut state.rng, count);
                let poison = usize::try_from(state.rng.below(4)).unwrap_or(0);
                (orders, poison, state.rng.between(5_000, 120_000))
            };
            chaos::send_orders(&world, orders, 10_000, poison);
            chaos::unleash(&world, calm_after, chaos::bound_ms());
        }
    }
    Executor::new(world.clone()).run();
    world.dismantle();
    let mut state = world.state();
    Outcome {
        seed,
        breaches: std::mem::take(&mut state.breaches),
        coverage: std::mem::take(&mut state.coverage),
        orders: state.store.orders().count(),
        virtual_ms: state.now - began,
        trace: std::mem::take(&mut state.trace),
    }
}

fn publish_definitions(world: &World) {
    let mut state = world.state();
    for workflow in scenario::workflows() {
        let identity = WorkflowRef {
            name: workflow.name.clone(),
            hash: workflow.hash.clone(),
        };
        let json = hash::canonical_json(&workflow.definition);
        state.store.publish(&identity, json);
    }
}

/// The ports of a world without faults, for work that is not a scenario.
#[must_use]
pub fn calm_ports(seed: u64) -> Ports {
    let world = World::new(Rng::new(seed), Faults::default(), false);
    Ports::new(world, OUTSIDE)
}

/// Runs a piece of work in the world of its ports, to its end.
pub fn run_on(ports: &Ports, work: impl Future<Output = ()> + Send + 'static) {
    let world = ports.world.clone();
    let end = world.clone();
    world.spawn(Owner::World, async move {
        work.await;
        end.state().end();
    });
    Executor::new(world).run();
}
