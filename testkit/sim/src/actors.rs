//! Instances of the actors: the production handlers, and the loops of a long-running worker
//! around them.

use std::future::Future;
use std::sync::Arc;

use triad_core::{Envelope, topics};
use triad_runtime::agent::{Agent, Remotes};
use triad_runtime::operator::Operator;
use triad_runtime::scheduler::Scheduler;
use triad_runtime::submission::Submission;
use triad_runtime::supervisor::Supervisor;
use triad_runtime::{Handled, InputRecord};
use triad_workflow::{AgentName, Millis};

use crate::bus::Fetch;
use crate::definitions::{AGENTS, TIMING};
use crate::executor::Owner;
use crate::operators;
use crate::ports::Ports;
use crate::remote::SimRemote;
use crate::rng::Rng;
use crate::world::{Instance, InstanceId, Kind, World};

/// Longest pause between two sweeps of one Supervisor.
pub(crate) const SWEEP_MS: u64 = 4_000;
/// How often a Scheduler that reads nothing looks whether it can start what waits.
const IDLE_MS: u64 = 200;
/// Longest time of one sweep.
const SWEEP_TIME: Millis = Millis(20_000);

/// A handler of any kind.
#[derive(Clone)]
pub(crate) enum Handler {
    Submission(Arc<Submission<Ports, Ports, Ports>>),
    Scheduler(Arc<Scheduler<Ports, Ports, Ports, Ports>>),
    Agent(Arc<Agent<Ports, Ports, Ports, Ports>>),
    Supervisor(Arc<Supervisor<Ports, Ports, Ports, Ports>>),
    Operator(Arc<Operator<Ports, Ports, Ports, Ports>>),
}

impl Handler {
    async fn handle(&self, batch: &[InputRecord]) -> Vec<Handled> {
        match self {
            Self::Submission(h) => h.handle(batch).await,
            Self::Scheduler(h) => h.handle(batch).await,
            Self::Agent(h) => h.handle(batch, None).await,
            Self::Supervisor(_) | Self::Operator(_) => Vec::new(),
        }
    }
}

fn build(world: &World, who: InstanceId, kind: Kind) -> Option<Handler> {
    let p = Ports::new(world.clone(), who);
    let s = {
        let mut state = world.state();
        let cached = *state.rng.pick(&[0, 2, 64]);
        state.setup.settings(cached)
    };
    let all = || (p.clone(), p.clone(), p.clone());
    let ((store, bus, clock), entropy) = (all(), p.clone());
    Some(match kind {
        Kind::Outside => return None,
        Kind::Submission => Handler::Submission(Arc::new(Submission::new(store, bus, clock, s))),
        Kind::Scheduler => {
            Handler::Scheduler(Arc::new(Scheduler::new(store, bus, clock, entropy, s)))
        }
        Kind::Supervisor => {
            Handler::Supervisor(Arc::new(Supervisor::new(store, bus, clock, entropy, s)))
        }
        Kind::Operator => Handler::Operator(Arc::new(Operator::new(store, bus, clock, entropy, s))),
        Kind::Agent => {
            let remotes = AGENTS.into_iter().fold(Remotes::new(), |remotes, service| {
                let name = AgentName::new(service).expect("a good name");
                let ports = p.clone();
                remotes.with(name, SimRemote { ports, service })
            });
            Handler::Agent(Arc::new(Agent::new(remotes, store, bus, clock, entropy, s)))
        }
    })
}

/// Which actor reads a topic.
fn reader(topic: &str) -> Option<Kind> {
    match topic {
        topics::ORDERS | topics::ORDERS_HIGH => Some(Kind::Submission),
        t if topics::is_scheduler(t) => Some(Kind::Scheduler),
        t if t.starts_with("agent.") => Some(Kind::Agent),
        _ => None,
    }
}

/// Topics and partitions that an actor reads.
pub(crate) fn reads(world: &World, kind: Kind) -> Vec<(String, usize)> {
    let state = world.state();
    let mine = state
        .bus
        .topics
        .iter()
        .filter(|(t, _)| reader(t) == Some(kind));
    mine.flat_map(|(t, partitions)| (0..partitions.len()).map(|n| (t.clone(), n)))
        .collect()
}

/// Creates the topics, and all instances with their share of the partitions.
pub(crate) fn set_up(world: &World) {
    {
        let mut state = world.state();
        for (topic, partitions) in [
            (topics::ORDERS, 2),
            (topics::ORDERS_HIGH, 1),
            (topics::SCHEDULER, 3),
            (topics::SCHEDULER_HIGH, 1),
            (topics::STATUS, 1),
            ("reply.app", 1),
            (topics::ALERTS, 1),
            (topics::DEAD_LETTER, 1),
        ] {
            state.bus.add_topic(topic, partitions);
        }
        for agent in AGENTS {
            state.bus.add_topic(&format!("agent.{agent}"), 2);
            state.bus.add_topic(&format!("agent.{agent}.high"), 1);
        }
        for (kind, name, count) in [
            (Kind::Submission, "submission", 2),
            (Kind::Scheduler, "scheduler", 3),
            (Kind::Agent, "agent", 3),
            (Kind::Supervisor, "supervisor", 2),
            (Kind::Operator, "operator", 2),
        ] {
            for n in 0..count {
                let clock_error_ms = small_error(&mut state.rng);
                state.instances.push(Instance {
                    kind,
                    name: format!("{name}-{n}"),
                    clock_error_ms,
                    alive: false,
                    frozen_until: 0,
                });
            }
        }
    }
    let count = world.state().instances.len();
    for who in 1..count {
        start(world, who);
    }
    for kind in [Kind::Submission, Kind::Scheduler, Kind::Agent] {
        for (topic, partition) in reads(world, kind) {
            if let Some(who) = somebody(world, kind) {
                give(world, &topic, partition, who);
            }
        }
    }
}

/// An error of a clock such that any two are at most the skew apart.
pub(crate) fn small_error(rng: &mut Rng) -> i64 {
    let half = i64::try_from(TIMING.skew.0 / 2).unwrap_or(0);
    i64::try_from(rng.between(0, TIMING.skew.0)).unwrap_or(0) - half
}

/// A living instance of a kind that is not frozen.
pub(crate) fn somebody(world: &World, kind: Kind) -> Option<InstanceId> {
    let mut state = world.state();
    let alive: Vec<InstanceId> = (0..state.instances.len())
        .filter(|&i| state.instances[i].kind == kind && state.is_awake(i))
        .collect();
    (!alive.is_empty()).then(|| *state.rng.pick(&alive))
}

/// Starts an instance, or starts a dead one again: it remembers nothing.
pub(crate) fn start(world: &World, who: InstanceId) {
    let kind = world.state().instances[who].kind;
    let Some(handler) = build(world, who, kind) else {
        return;
    };
    {
        let mut state = world.state();
        state.instances[who].alive = true;
        state.handlers.insert(who, handler.clone());
        state.note(who, || "starts".into());
    }
    if let Handler::Operator(operator) = &handler {
        operators::work(world, who, operator.clone());
    }
    if let Handler::Scheduler(scheduler) = &handler {
        let (ticks, scheduler) = (world.clone(), scheduler.clone());
        world.spawn(Owner::Instance(who), async move {
            loop {
                ticks.sleep(IDLE_MS).await;
                if scheduler.is_waiting() {
                    ticks
                        .state()
                        .coverage
                        .reach("saw: order waits to be started");
                    scheduler.handle(&[]).await;
                }
            }
        });
    }
    if let Handler::Supervisor(supervisor) = handler {
        let world = world.clone();
        world.clone().spawn(Owner::Instance(who), async move {
            loop {
                let pause = world.state().rng.between(SWEEP_MS / 2, SWEEP_MS);
                world.sleep(pause).await;
                let report = supervisor.sweep(SWEEP_TIME).await;
                if report.found + report.failed > 0 {
                    world.state().note(who, || format!("{report:?}"));
                }
            }
        });
    }
    let own = reads(world, kind).into_iter().filter(|(topic, at)| {
        let mut state = world.state();
        let partition = state.bus.partition(topic, *at);
        partition.is_some_and(|p| p.owner == Some(who))
    });
    for (topic, partition) in own.collect::<Vec<_>>() {
        give(world, &topic, partition, who);
    }
}

/// Gives a partition to a living instance, which reads on from the last commit.
pub(crate) fn give(world: &World, topic: &str, partition: usize, who: InstanceId) {
    let Some(handler) = world.state().handlers.get(&who).cloned() else {
        return;
    };
    let Some((generation, from)) = world.assign(topic, partition, who) else {
        return;
    };
    let assignment = Assignment {
        topic: topic.to_owned(),
        partition,
        generation,
        from,
    };
    let world = world.clone();
    world.clone().spawn(Owner::Instance(who), async move {
        let handle = |batch: Vec<InputRecord>| {
            let handler = handler.clone();
            async move { handler.handle(&batch).await }
        };
        consume(&world, who, handle, assignment).await;
    });
}

/// A partition as it was given to somebody.
pub(crate) struct Assignment {
    pub topic: String,
    pub partition: usize,
    /// Of the assignment; an older one reads nothing more.
    pub generation: u64,
    /// The first record to read.
    pub from: usize,
}

/// Reads a partition until it is given to somebody else: hands batches to a handler, commits what
/// is done up to the first record that is not, and begins again there after a pause.
pub(crate) async fn consume<F, R>(world: &World, who: InstanceId, handle: F, given: Assignment)
where
    F: Fn(Vec<InputRecord>) -> R,
    R: Future<Output = Vec<Handled>>,
{
    let Assignment {
        topic,
        partition,
        generation,
        from,
    } = given;
    let ports = Ports::new(world.clone(), who);
    let mut position = from;
    loop {
        let fetch = Fetch {
            world: world.clone(),
            who,
            topic: topic.clone(),
            partition,
            generation,
            from: position,
        };
        let Some(batch) = fetch.await else { return };
        let answers = handle(batch).await;
        let done = answers.iter().take_while(|a| a.is_done()).count();
        position += done;
        if done > 0 {
            let number = ports.before("offset commit").await;
            world.commit_offset(who, &topic, partition, generation, position);
            ports.after(number).await;
        }
        if let Some(Handled::Redeliver(why)) = answers.get(done) {
            if why.is_for_room() {
                world.state().coverage.reach("saw: order held back");
            }
            world.state().note(who, || {
                format!("{topic}-{partition}@{position} again: {why}")
            });
            let pause = world.state().rng.between(50, 1_000);
            world.sleep(pause).await;
        }
    }
}

/// A record from outside.
pub(crate) fn from_outside(topic: &str, key: Option<&str>, value: Vec<u8>) -> Envelope {
    Envelope {
        topic: topic.to_owned(),
        key: key.map(|k| k.as_bytes().to_vec()),
        value,
        headers: Vec::new(),
        trace: None,
    }
}
