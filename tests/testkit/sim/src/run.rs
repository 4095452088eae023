//! Runs one world, from its seed to its result.

use triad_core::invariants::Breach;

use crate::kernel::coverage::Coverage;
use crate::kernel::{Beginning, Crash, Executor, Faults, OUTSIDE, Owner, Rng};
use crate::load::Load;
use crate::ports::Ports;
use crate::saved::{Drawn, NoOrder, Saved};
use crate::scenario::NewOrder;
use crate::setup::Setup;
use crate::world::World;
use crate::{actors, chaos, definitions, isolation, overload, scenario, senders};

/// Of this many consecutive seeds, one gives a world under load and one a world with a single fault.
const SPECIAL: u64 = 50;
/// Remainder of the seeds that give a world under load.
const LOADED: u64 = 49;
/// Remainder of the seeds that give a world with a single fault.
const ISOLATED: u64 = 24;
/// Remainders of the seeds that give a world of one machine.
const ON_ONE_MACHINE: [u64; 3] = [9, 26, 41];
/// Interval between two plain orders, in milliseconds; the simulated instances handle this rate without a backlog.
const PLAIN_PAUSE_MS: u64 = 150;

/// Options of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Whether to keep the readable list of events.
    pub trace: bool,
    /// If set, this many orders of three steps run without faults, instead of a scenario chosen by the seed;
    /// [`faults`](Self::faults) then has no effect.
    pub plain_orders: Option<usize>,
    /// If set, only the first faults of the run happen, at most this many.
    pub faults: Option<u64>,
}

/// The result of a run.
#[derive(Debug)]
pub struct WorldResult {
    /// The seed of the run.
    pub seed: u64,
    /// The violated invariants; empty if there are none.
    pub breaches: Vec<Breach>,
    /// What the run has reached, and how often.
    pub coverage: Coverage,
    /// Number of orders that were accepted.
    pub orders: usize,
    /// Virtual time that passed, in milliseconds.
    pub virtual_ms: u64,
    /// Number of effects of the instances: writes, sends, calls and offset commits.
    pub effects: u64,
    /// The points before and after effects that a living instance has passed since the last requested crash. At each
    /// it could have died.
    pub passed: Vec<Crash>,
    /// Number of faults that happened.
    pub faults: u64,
    /// The events, one line each; empty unless [`Options::trace`] was set.
    pub trace: Vec<String>,
}

impl WorldResult {
    /// The events, and then the breaches with the seed, as lines of text.
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

/// Runs the world of a seed to its end. The same seed and options always give the same outcome.
///
/// # Example
/// ```
/// let outcome = triad_sim::run(1, triad_sim::Options::default());
/// assert!(outcome.breaches.is_empty(), "{}", outcome.report());
/// ```
#[must_use]
pub fn run(seed: u64, options: Options) -> WorldResult {
    if let Some(count) = options.plain_orders {
        let plain = |n| scenario::plain_order(n, "line");
        let orders = (0..count).map(plain).collect();
        return run_plain(
            Setup::plain(),
            seed,
            orders,
            count as u64 * PLAIN_PAUSE_MS,
            Vec::new(),
            options.trace,
        );
    }
    match seed % SPECIAL {
        LOADED => return run_load(seed, options),
        ISOLATED => return run_lone(seed, options),
        _ => {}
    }
    run_drawn(seed, None, options).0
}

/// Runs a world from what [`of_seed`] has saved, without drawing it again.
///
/// # Errors
/// [`NoOrder`] if `saved` has no order.
pub fn replay(saved: &Saved, options: Options) -> Result<WorldResult, NoOrder> {
    let drawn = saved.drawn()?;
    Ok(run_drawn(saved.seed, Some(drawn), options).0)
}

/// Whether the world of a seed is one of one machine.
fn is_one_machine(seed: u64) -> bool {
    ON_ONE_MACHINE.contains(&(seed % SPECIAL))
}

/// Runs the world of a seed and returns the random choices from which it was built, to be saved in a file. `None` for
/// worlds under load, with one fault, or of one machine, which cannot be saved.
#[must_use]
pub fn of_seed(seed: u64) -> Option<Saved> {
    let is_special = [LOADED, ISOLATED].contains(&(seed % SPECIAL)) || is_one_machine(seed);
    (!is_special).then(|| Saved::of(seed, &run_drawn(seed, None, Options::default()).1))
}

/// Runs a world from new or from saved random choices; also returns the choices.
fn run_drawn(seed: u64, kept: Option<Drawn>, options: Options) -> (WorldResult, Drawn) {
    let (rng, faults, setup) = match &kept {
        Some(kept) => (Rng::at(kept.rng), kept.faults, kept.setup.clone()),
        None => {
            let mut rng = Rng::new(seed);
            let mut faults = Faults::drawn(&mut rng);
            let mut setup = Setup::drawn(&mut rng);
            if is_one_machine(seed) {
                faults = faults.on_one_machine(&mut rng);
                setup = setup.on_one_machine();
            }
            (rng, faults, setup)
        }
    };
    let (at_first, count) = (rng.state(), setup.orders);
    let faults_left = options.faults.unwrap_or(u64::MAX);
    let world = World::new(
        Beginning {
            rng,
            faults,
            tracing: options.trace,
            faults_left,
            crashes: Vec::new(),
        },
        setup.clone(),
    );
    publish_definitions(&world);
    actors::set_up(&world);
    let drawn = kept.unwrap_or_else(|| {
        let mut state = world.state();
        let rng = &mut state.kernel.rng;
        // If submissions are rejected, it is unknown which of two conflicting ones was accepted, so there are no
        // conflicting ones.
        let conflicts = setup.admission.reject_after.is_none();
        let orders = scenario::orders(rng, count, conflicts);
        let poison = usize::try_from(rng.below(4)).unwrap_or(0);
        // So long that records expire during the run.
        let latest = match setup.retention_ms {
            Some(_) => 330_000,
            None => 120_000,
        };
        // With a cap on orders in flight, all orders come at once, so that the cap is reached.
        let admission = &setup.admission;
        let is_capped = admission.in_flight.is_some() || !admission.per_workflow.is_empty();
        Drawn {
            faults,
            orders,
            poison,
            over_ms: if is_capped { 1_000 } else { 10_000 },
            calm_after_ms: rng.between(5_000, latest),
            rng: at_first,
            then: rng.state(),
            setup,
        }
    });
    world.state().kernel.rng = Rng::at(drawn.then);
    senders::send_orders(&world, drawn.orders.clone(), drawn.over_ms, drawn.poison);
    chaos::unleash(&world, drawn.calm_after_ms, chaos::LATEST_LANDING_MS);
    (finish(seed, &world, faults_left), drawn)
}

/// Runs the world under load of this seed.
fn run_load(seed: u64, options: Options) -> WorldResult {
    let mut rng = Rng::new(seed);
    let load = Load::drawn(&mut rng);
    let world = World::new(
        Beginning {
            rng,
            faults: Faults::default(),
            tracing: options.trace,
            faults_left: u64::MAX,
            crashes: Vec::new(),
        },
        Setup::load(),
    );
    publish_definitions(&world);
    actors::set_up(&world);
    overload::unleash(&world, load);
    finish(seed, &world, u64::MAX)
}

/// Runs the world with one fault of this seed.
fn run_lone(seed: u64, options: Options) -> WorldResult {
    let faults_left = options.faults.unwrap_or(u64::MAX);
    let world = World::new(
        Beginning {
            rng: Rng::new(seed),
            faults: Faults::default(),
            tracing: options.trace,
            faults_left,
            crashes: Vec::new(),
        },
        Setup::plain(),
    );
    publish_definitions(&world);
    actors::set_up(&world);
    isolation::unleash(&world, seed / SPECIAL);
    finish(seed, &world, faults_left)
}

/// Runs orders in a world with these settings, whose only faults are the requested crashes.
pub(crate) fn run_plain(
    setup: Setup,
    seed: u64,
    orders: Vec<NewOrder>,
    over_ms: u64,
    crashes: Vec<Crash>,
    tracing: bool,
) -> WorldResult {
    let world = World::new(
        Beginning {
            rng: Rng::new(seed),
            faults: Faults::default(),
            tracing,
            faults_left: u64::MAX,
            crashes,
        },
        setup,
    );
    publish_definitions(&world);
    actors::set_up(&world);
    senders::send_orders(&world, orders, over_ms, 0);
    // No call arrives later than this, in milliseconds.
    chaos::unleash(&world, over_ms, 1_000);
    finish(seed, &world, u64::MAX)
}

fn finish(seed: u64, world: &World, faults_at_first: u64) -> WorldResult {
    let began = world.now();
    Executor::new(world.clone()).run();
    world.dismantle();
    let mut state = world.state();
    WorldResult {
        seed,
        breaches: std::mem::take(&mut state.kernel.breaches),
        coverage: std::mem::take(&mut state.kernel.coverage),
        orders: state.store.orders().count(),
        virtual_ms: state.kernel.now - began,
        effects: state.kernel.effects,
        passed: std::mem::take(&mut state.kernel.passed),
        faults: faults_at_first - state.kernel.faults_left,
        trace: std::mem::take(&mut state.kernel.trace),
    }
}

fn publish_definitions(world: &World) {
    let mut state = world.state();
    for workflow in definitions::workflows() {
        senders::publish(&mut state, workflow);
    }
}

/// The ports of a new world without faults, for work other than a scenario. `seed` is the seed of its random numbers.
#[must_use]
pub fn calm_ports(seed: u64) -> Ports {
    ports_of(seed, Setup::plain())
}

/// The same as [`calm_ports`], of one machine: its store has the topics.
#[must_use]
pub fn calm_machine(seed: u64) -> Ports {
    ports_of(seed, Setup::plain().on_one_machine())
}

fn ports_of(seed: u64, setup: Setup) -> Ports {
    let world = World::new(
        Beginning {
            rng: Rng::new(seed),
            faults: Faults::default(),
            tracing: false,
            faults_left: u64::MAX,
            crashes: Vec::new(),
        },
        setup,
    );
    Ports::new(world, OUTSIDE)
}

/// Runs `work` in virtual time, in the world to which `ports` belong, until `work` has ended. Blocks the thread.
pub fn run_on(ports: &Ports, work: impl Future<Output = ()> + Send + 'static) {
    let world = ports.world.clone();
    let end = world.clone();
    world.spawn(Owner::World, async move {
        work.await;
        end.state().kernel.end();
    });
    Executor::new(world).run();
}
