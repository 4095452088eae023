//! The kernel of a world: virtual time, the tasks, the random generator, the faults, the instances, and the counts.
//! It does not depend on the parts that use it.
//!
//! Architecture invariant: no module of the kernel names one outside it. Store, bus and service have their own
//! modules, which get the kernel as an argument; `crate::world` puts kernel and parts together.

pub mod coverage;
mod executor;
mod faults;
mod rng;

use std::collections::BTreeMap;
use std::future::Future;
use std::task::Waker;

use triad_core::Timestamp;
use triad_core::invariants::Breach;

pub(crate) use coverage::Coverage;
pub(crate) use executor::{Executor, Owner, Sleep, Work};
pub(crate) use faults::Faults;
pub(crate) use rng::Rng;

/// Start of a world's clock, in milliseconds. It is far from zero, so that the subtraction of a time span does not
/// saturate.
pub(crate) const BEGINNING_MS: u64 = 1_000_000_000;

/// Index of an instance of an actor.
pub(crate) type InstanceId = usize;

/// The instance that stands for everything outside of the installation: it is never killed and has no clock error.
pub(crate) const OUTSIDE: InstanceId = 0;

/// The kind of an instance.
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
    /// The instance's clock minus the true time, in milliseconds.
    pub clock_error_ms: i64,
    pub alive: bool,
    /// The time until which the instance is frozen; 0 if it is not.
    pub frozen_until: u64,
}

/// A point of a run at which the world kills an instance: just before or just after one of its
/// effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Crash {
    /// Number of the effect, counted from 1 over the effects of all instances.
    pub effect: u64,
    /// Whether the instance is killed after the effect; if false, before it.
    pub after: bool,
}

/// Parameters of a new world.
pub(crate) struct Beginning {
    pub rng: Rng,
    pub faults: Faults,
    pub tracing: bool,
    pub faults_left: u64,
    pub crashes: Vec<Crash>,
}

/// The state that all parts share.
pub(crate) struct Kernel {
    /// Virtual time, in milliseconds.
    pub now: u64,
    timers: BTreeMap<(u64, u64), Waker>,
    timer_seq: u64,
    pub rng: Rng,
    pub faults: Faults,
    /// The fault rates before the faults stopped.
    pub faults_at_first: Faults,
    /// Number of faults that may still happen.
    pub faults_left: u64,
    /// Number of effects of the instances so far.
    pub effects: u64,
    /// The points before and after effects that a living instance has passed since the last crash.
    pub passed: Vec<Crash>,
    /// The points at which an instance is to be killed.
    pub crashes: Vec<Crash>,
    pub instances: Vec<Instance>,
    pub coverage: Coverage,
    pub breaches: Vec<Breach>,
    /// The time at which the faults stopped, if they have.
    pub calm_since: Option<u64>,
    /// The time at which an instance was first refused something that only an operator can repair.
    pub refused_since: Option<u64>,
    over: bool,
    tracing: bool,
    pub trace: Vec<String>,
    spawned: Vec<(Owner, Work)>,
    killed: Vec<InstanceId>,
}

/// A handle of a world that is built on a kernel; it can be cloned.
pub(crate) trait OnKernel: Clone + Unpin {
    /// Calls `act` with exclusive access to the kernel.
    fn on_kernel<T>(&self, act: impl FnOnce(&mut Kernel) -> T) -> T;
}

impl Kernel {
    pub(crate) fn new(beginning: Beginning) -> Self {
        let outside = Instance {
            kind: Kind::Outside,
            name: "outside".into(),
            clock_error_ms: 0,
            alive: true,
            frozen_until: 0,
        };
        Self {
            now: BEGINNING_MS,
            timers: BTreeMap::new(),
            timer_seq: 0,
            rng: beginning.rng,
            faults: beginning.faults,
            faults_at_first: beginning.faults,
            faults_left: beginning.faults_left,
            effects: 0,
            passed: Vec::new(),
            crashes: beginning.crashes,
            instances: vec![outside],
            coverage: Coverage::default(),
            breaches: Vec::new(),
            calm_since: None,
            refused_since: None,
            over: false,
            tracing: beginning.tracing,
            trace: Vec::new(),
            spawned: Vec::new(),
            killed: Vec::new(),
        }
    }

    /// The name of an instance.
    pub(crate) fn name_of(&self, who: InstanceId) -> &str {
        &self.instances[who].name
    }

    /// Records that an instance was refused something that only an operator can repair.
    pub(crate) fn refuse(&mut self) {
        self.refused_since.get_or_insert(self.now);
    }

    /// Writes a line of the trace, if tracing is on.
    pub(crate) fn note(&mut self, who: InstanceId, line: impl FnOnce() -> String) {
        if self.tracing {
            let name = &self.instances[who].name;
            self.trace
                .push(format!("{:>9} {name:<12} {}", self.now, line()));
        }
    }

    /// Whether a fault occurs, by this rate in thousandths. Counts it if it does.
    pub(crate) fn fault(&mut self, kind: &'static str, permille: u32) -> bool {
        let happens = self.rng.chance(permille) && self.faults_left > 0;
        if happens {
            self.faults_left -= 1;
            self.coverage.reach(kind);
        }
        happens
    }

    /// Checks an invariant, and counts the check under its name; a breach ends the run.
    pub(crate) fn check(
        &mut self,
        invariant: &'static str,
        holds: bool,
        seen: impl FnOnce() -> String,
    ) {
        self.coverage.reach(invariant);
        if !holds {
            self.breach(invariant, seen());
        }
    }

    /// Records a violated invariant, which ends the run.
    pub(crate) fn breach(&mut self, invariant: &'static str, seen: String) {
        self.note(OUTSIDE, || format!("BREACH {invariant}: {seen}"));
        self.breaches.push(Breach { invariant, seen });
        self.over = true;
    }

    pub(crate) fn end(&mut self) {
        self.over = true;
    }

    /// The time on an instance's clock.
    pub(crate) fn clock_of(&self, who: InstanceId) -> Timestamp {
        let error = self.instances[who].clock_error_ms;
        Timestamp(self.now.saturating_add_signed(error))
    }

    /// Whether an instance runs.
    pub(crate) fn is_awake(&self, who: InstanceId) -> bool {
        let instance = &self.instances[who];
        instance.alive && instance.frozen_until <= self.now
    }

    /// Starts a task, which is dropped when its owner dies.
    pub(crate) fn spawn(&mut self, owner: Owner, work: impl Future<Output = ()> + Send + 'static) {
        self.spawned.push((owner, Box::pin(work)));
    }

    /// Takes the spawned tasks that have not started.
    pub(crate) fn take_spawned(&mut self) -> Vec<(Owner, Work)> {
        std::mem::take(&mut self.spawned)
    }

    /// Kills an instance if it is alive: its tasks are dropped before any other event.
    pub(crate) fn kill(&mut self, instance: InstanceId, why: &'static str) -> bool {
        if !self.instances[instance].alive {
            return false;
        }
        self.instances[instance].alive = false;
        self.instances[instance].frozen_until = 0;
        self.killed.push(instance);
        self.coverage.reach(why);
        self.note(instance, || format!("DIES ({why})"));
        // Also the tasks that have not started yet.
        self.spawned
            .retain(|(owner, _)| *owner != Owner::Instance(instance));
        true
    }

    /// Whether an instance must die at this point. If not, and if it is alive, it has passed the point. (Concurrent
    /// work of a dead instance may still reach an effect at the time of its death.)
    pub(crate) fn dies_at(&mut self, who: InstanceId, moment: Crash) -> bool {
        let dies = self.crashes.contains(&moment);
        if dies {
            self.passed.clear();
        } else if self.instances[who].alive {
            self.passed.push(moment);
        }
        dies
    }

    fn take_killed(&mut self) -> Vec<InstanceId> {
        std::mem::take(&mut self.killed)
    }

    fn wake_at(&mut self, at: u64, waker: Waker) {
        self.timer_seq += 1;
        self.timers.insert((at, self.timer_seq), waker);
    }

    /// Advances the clock to the next timer and returns its waker; `None` if there is no timer.
    fn advance(&mut self) -> Option<Waker> {
        let ((at, _), waker) = self.timers.pop_first()?;
        self.now = self.now.max(at);
        Some(waker)
    }

    /// The time until which an instance is frozen, if it is.
    fn frozen_until(&self, who: InstanceId) -> Option<u64> {
        let until = self.instances[who].frozen_until;
        (until > self.now).then_some(until)
    }
}
