//! The state of one world, shared by its ports, its tasks and its executor.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use triad_core::Timestamp;
use triad_core::invariants::Breach;

use crate::actors::Handler;
use crate::bus::BusState;
use crate::chaos::Sent;
use crate::control::ControlState;
use crate::coverage::Coverage;
use crate::executor::{Owner, Sleep, Work};
use crate::faults::Faults;
use crate::history::History;
use crate::load::{Load, Watched};
use crate::rng::Rng;
use crate::service::RemoteState;
use crate::setup::Setup;
use crate::store::StoreState;

/// Index of an instance of an actor.
pub(crate) type InstanceId = usize;

/// The instance that stands for everything outside: never killed, no clock error.
pub(crate) const OUTSIDE: InstanceId = 0;

/// What an instance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Outside,
    Submission,
    Scheduler,
    Agent,
    Supervisor,
    Operator,
}

/// One instance of an actor.
#[derive(Debug)]
pub(crate) struct Instance {
    pub kind: Kind,
    pub name: String,
    /// Its clock minus the true one.
    pub clock_error_ms: i64,
    pub alive: bool,
    /// Until then nothing of it runs; 0 if it is not frozen.
    pub frozen_until: u64,
}

/// A moment at which the world kills an instance: before or after an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Crash {
    /// The effect, counted from 1 over all instances.
    pub effect: u64,
    /// After it, and not before.
    pub after: bool,
}

/// Everything that is shared.
pub(crate) struct State {
    pub now: u64,
    timers: BTreeMap<(u64, u64), Waker>,
    timer_seq: u64,
    pub rng: Rng,
    pub faults: Faults,
    /// As they were before the calm.
    pub faults_at_first: Faults,
    /// Faults that may still happen.
    pub faults_left: u64,
    pub setup: Setup,
    /// Effects of the instances so far.
    pub effects: u64,
    /// Effects at which an instance is killed.
    pub crashes: Vec<Crash>,
    pub instances: Vec<Instance>,
    pub store: StoreState,
    pub control: ControlState,
    pub bus: BusState,
    pub remote: RemoteState,
    pub history: History,
    pub coverage: Coverage,
    pub breaches: Vec<Breach>,
    /// The living instances' handlers.
    pub handlers: BTreeMap<InstanceId, Handler>,
    /// Orders that were sent, and records that belong into the dead-letter topic.
    pub sent: Sent,
    pub calm_since: Option<u64>,
    /// What a world under load is about.
    pub load: Option<Load>,
    pub watched: Watched,
    pub began: u64,
    over: bool,
    tracing: bool,
    pub trace: Vec<String>,
    spawned: Vec<(Owner, Work)>,
    killed: Vec<InstanceId>,
}

/// How a world begins.
pub(crate) struct Beginning {
    pub rng: Rng,
    pub faults: Faults,
    pub setup: Setup,
    pub tracing: bool,
    pub faults_left: u64,
    pub crashes: Vec<Crash>,
}

impl State {
    /// Writes a line of the trace, if it is wanted.
    pub(crate) fn note(&mut self, who: InstanceId, line: impl FnOnce() -> String) {
        if self.tracing {
            let name = &self.instances[who].name;
            self.trace
                .push(format!("{:>9} {name:<12} {}", self.now, line()));
        }
    }

    /// A fault of a kind happens in so many of a thousand cases; it is counted.
    pub(crate) fn fault(&mut self, kind: &'static str, permille: u32) -> bool {
        let happens = self.rng.chance(permille) && self.faults_left > 0;
        if happens {
            self.faults_left -= 1;
            self.coverage.reach(kind);
        }
        happens
    }

    /// An invariant does not hold: the run ends.
    pub(crate) fn breach(&mut self, invariant: &'static str, seen: String) {
        self.note(OUTSIDE, || format!("BREACH {invariant}: {seen}"));
        self.breaches.push(Breach { invariant, seen });
        self.over = true;
    }

    pub(crate) fn end(&mut self) {
        self.over = true;
    }

    /// What an instance's clock shows.
    pub(crate) fn clock_of(&self, who: InstanceId) -> Timestamp {
        let error = self.instances[who].clock_error_ms;
        Timestamp(self.now.saturating_add_signed(error))
    }

    /// Whether an instance runs.
    pub(crate) fn is_awake(&self, who: InstanceId) -> bool {
        let instance = &self.instances[who];
        instance.alive && instance.frozen_until <= self.now
    }
}

/// A handle on a world.
#[derive(Clone)]
pub struct World(Arc<Mutex<State>>);

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}

impl World {
    pub(crate) fn new(beginning: Beginning) -> Self {
        let outside = Instance {
            kind: Kind::Outside,
            name: "outside".into(),
            clock_error_ms: 0,
            alive: true,
            frozen_until: 0,
        };
        Self(Arc::new(Mutex::new(State {
            // Not near zero: moments minus spans must not saturate.
            now: 1_000_000_000,
            timers: BTreeMap::new(),
            timer_seq: 0,
            rng: beginning.rng,
            faults: beginning.faults,
            faults_at_first: beginning.faults,
            faults_left: beginning.faults_left,
            setup: beginning.setup,
            effects: 0,
            crashes: beginning.crashes,
            instances: vec![outside],
            store: StoreState::default(),
            control: ControlState::default(),
            bus: BusState::default(),
            remote: RemoteState::default(),
            history: History::default(),
            coverage: Coverage::default(),
            breaches: Vec::new(),
            handlers: BTreeMap::new(),
            sent: Sent::default(),
            calm_since: None,
            load: None,
            watched: Watched::default(),
            began: 0,
            over: false,
            tracing: beginning.tracing,
            trace: Vec::new(),
            spawned: Vec::new(),
            killed: Vec::new(),
        })))
    }

    /// The state; never held across an await.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> u64 {
        self.state().now
    }

    pub(crate) fn sleep(&self, ms: u64) -> Sleep {
        let at = self.now() + ms;
        Sleep::new(self.clone(), at)
    }

    pub(crate) fn wake_at(&self, at: u64, waker: Waker) {
        let mut state = self.state();
        state.timer_seq += 1;
        let key = (at, state.timer_seq);
        state.timers.insert(key, waker);
    }

    /// Moves time to the next timer; false if there is none.
    pub(crate) fn advance(&self) -> bool {
        let waker = {
            let mut state = self.state();
            let Some(((at, _), waker)) = state.timers.pop_first() else {
                return false;
            };
            state.now = state.now.max(at);
            waker
        };
        waker.wake();
        true
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state().over
    }

    /// Until when an instance is frozen, if it is.
    pub(crate) fn frozen_until(&self, who: InstanceId) -> Option<u64> {
        let state = self.state();
        let until = state.instances[who].frozen_until;
        (until > state.now).then_some(until)
    }

    pub(crate) fn spawn(&self, owner: Owner, work: impl Future<Output = ()> + Send + 'static) {
        self.state().spawned.push((owner, Box::pin(work)));
    }

    pub(crate) fn take_spawned(&self) -> Vec<(Owner, Work)> {
        std::mem::take(&mut self.state().spawned)
    }

    /// Kills an instance: its tasks are dropped before anything else happens.
    pub(crate) fn kill(&self, instance: InstanceId, why: &'static str) {
        let mut state = self.state();
        if !state.instances[instance].alive {
            return;
        }
        state.instances[instance].alive = false;
        state.instances[instance].frozen_until = 0;
        state.handlers.remove(&instance);
        state.killed.push(instance);
        state.coverage.reach(why);
        state.note(instance, || format!("DIES ({why})"));
        // What it had asked to be started dies with it.
        state
            .spawned
            .retain(|(owner, _)| *owner != Owner::Instance(instance));
    }

    /// Breaks the circle of a world that holds handlers that hold the world.
    pub(crate) fn dismantle(&self) {
        let (handlers, spawned) = {
            let mut state = self.state();
            (
                std::mem::take(&mut state.handlers),
                std::mem::take(&mut state.spawned),
            )
        };
        drop((handlers, spawned));
    }

    pub(crate) fn take_killed(&self) -> Vec<InstanceId> {
        std::mem::take(&mut self.state().killed)
    }
}
