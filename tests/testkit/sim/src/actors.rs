//! The instances of the actors: the production handlers, in loops like those of a long-running worker.

use std::future::Future;
use std::sync::Arc;

use triad_core::topics;
use triad_runtime::agent::{Agent, Remotes};
use triad_runtime::operator::Operator;
use triad_runtime::scheduler::Scheduler;
use triad_runtime::settings::Settings;
use triad_runtime::submission::Submission;
use triad_runtime::supervisor::Supervisor;
use triad_runtime::{Handled, InputRecord};
use triad_workflow::{AgentName, Millis};

use crate::campaigns::{self, Carrier};
use crate::checks::restart_sends::ExpectedSends;
use crate::consumer::{Assignment, consume};
use crate::definitions::{AGENTS, TIMING};
use crate::kernel::{Instance, InstanceId, Kind, Owner, Rng};
use crate::operators;
use crate::ports::Ports;
use crate::remote::SimRemote;
use crate::setup::SWEEP_MS;
use crate::world::{Reader, World};

/// How often a Scheduler without messages checks whether waiting orders can start.
const IDLE_MS: u64 = 200;
/// Time limit of one sweep.
const SWEEP_TIME: Millis = Millis(20_000);

/// The handler of any actor.
enum Handler {
    Submission(Arc<Submission<Ports, Ports, Ports>>),
    Scheduler(Arc<Scheduler<Ports, Ports, Ports, Ports>>),
    Agent(Arc<Agent<Ports, Ports, Ports, Ports>>),
    Supervisor(Arc<Supervisor<Ports, Ports, Ports, Ports>>, Arc<Carrier>),
    Operator(Arc<Operator<Ports, Ports, Ports, Ports>>),
}

impl Handler {
    /// The function that handles batches, if the actor reads topics.
    fn reader(&self) -> Option<Reader> {
        match self {
            Self::Submission(h) => {
                Some(reader(h, |h, batch| async move { h.handle(&batch).await }))
            }
            Self::Scheduler(h) => Some(reader(h, |h, batch| async move { h.handle(&batch).await })),
            Self::Agent(h) => Some(reader(
                h,
                |h, batch| async move { h.handle(&batch, None).await },
            )),
            Self::Supervisor(..) | Self::Operator(_) => None,
        }
    }
}

fn reader<H, R>(
    handler: &Arc<H>,
    handle: impl Fn(Arc<H>, Vec<InputRecord>) -> R + Send + Sync + 'static,
) -> Reader
where
    H: Send + Sync + 'static,
    R: Future<Output = Vec<Handled>> + Send + 'static,
{
    let handler = handler.clone();
    Arc::new(move |batch| Box::pin(handle(handler.clone(), batch)))
}

fn build(world: &World, who: InstanceId, kind: Kind) -> Option<Handler> {
    let p = Ports::new(world.clone(), who);
    let s = {
        let mut state = world.state();
        let cached = *state.kernel.rng.pick(&[0, 2, 64, 2_048]);
        let name = state.kernel.name_of(who).to_owned();
        Settings {
            instance: name,
            ..state.setup.settings(cached)
        }
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
            let operator = Operator::new(p.clone(), p.clone(), p.clone(), p.clone(), s.clone());
            let carrier = Carrier::new(operator, p.clone(), p.clone(), p.clone(), p.clone());
            let supervisor = Supervisor::new(store, bus, clock, entropy, s);
            Handler::Supervisor(Arc::new(supervisor), Arc::new(carrier))
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

/// The actor that reads a topic; `None` if no actor does.
fn actor_of(topic: &str) -> Option<Kind> {
    match topic {
        topics::ORDERS | topics::ORDERS_HIGH => Some(Kind::Submission),
        topics::EVENTS => Some(Kind::Scheduler),
        t if topics::is_scheduler(t) => Some(Kind::Scheduler),
        t if t.starts_with("agent.") => Some(Kind::Agent),
        _ => None,
    }
}

/// The topics and partitions that an actor reads.
pub(crate) fn reads(world: &World, kind: Kind) -> Vec<(String, usize)> {
    let state = world.state();
    let mine = state
        .bus
        .topics
        .iter()
        .filter(|(t, _)| actor_of(t) == Some(kind));
    mine.flat_map(|(t, partitions)| (0..partitions.len()).map(|n| (t.clone(), n)))
        .collect()
}

/// Creates the topics, and all instances with their partitions.
pub(crate) fn set_up(world: &World) {
    {
        let mut state = world.state();
        let sizes = state.setup.sizes;
        for (topic, partitions) in [
            (topics::ORDERS, sizes.orders_partitions),
            (topics::ORDERS_HIGH, 1),
            (topics::EVENTS, sizes.orders_partitions),
            (topics::SCHEDULER, sizes.scheduler_partitions),
            (topics::SCHEDULER_HIGH, 1),
            (topics::STATUS, 1),
            ("reply.app", 1),
            (topics::ALERTS, 1),
            (topics::DEAD_LETTER, 1),
        ] {
            state.bus.add_topic(topic, partitions);
        }
        for agent in AGENTS {
            state
                .bus
                .add_topic(&format!("agent.{agent}"), sizes.agent_partitions);
            state.bus.add_topic(&format!("agent.{agent}.high"), 1);
        }
        for (kind, name, count) in [
            (Kind::Submission, "submission", sizes.submissions),
            (Kind::Scheduler, "scheduler", sizes.schedulers),
            (Kind::Agent, "agent", sizes.agents),
            (Kind::Supervisor, "supervisor", sizes.supervisors),
            (Kind::Operator, "operator", 2),
        ] {
            for n in 0..count {
                let clock_error_ms = small_error(&mut state.kernel.rng);
                state.kernel.instances.push(Instance {
                    kind,
                    name: format!("{name}-{n}"),
                    clock_error_ms,
                    alive: false,
                    frozen_until: 0,
                });
            }
        }
    }
    let count = world.state().kernel.instances.len();
    for who in 1..count {
        start(world, who);
    }
    for kind in [Kind::Submission, Kind::Scheduler, Kind::Agent] {
        for (topic, partition) in reads(world, kind) {
            if let Some(who) = any_instance(world, kind) {
                give(world, &topic, partition, who);
            }
        }
    }
}

/// A random clock error. With errors of this size, any two clocks differ by at most the skew.
pub(crate) fn small_error(rng: &mut Rng) -> i64 {
    let half = i64::try_from(TIMING.skew.0 / 2).unwrap_or(0);
    i64::try_from(rng.between(0, TIMING.skew.0)).unwrap_or(0) - half
}

/// An instance of this kind that is alive and not frozen.
pub(crate) fn any_instance(world: &World, kind: Kind) -> Option<InstanceId> {
    let mut state = world.state();
    let alive: Vec<InstanceId> = (0..state.kernel.instances.len())
        .filter(|&i| state.kernel.instances[i].kind == kind && state.kernel.is_awake(i))
        .collect();
    (!alive.is_empty()).then(|| *state.kernel.rng.pick(&alive))
}

/// Starts an instance, or restarts a dead one without its memory.
pub(crate) fn start(world: &World, who: InstanceId) {
    let kind = world.state().kernel.instances[who].kind;
    let Some(handler) = build(world, who, kind) else {
        return;
    };
    {
        let mut state = world.state();
        state.kernel.instances[who].alive = true;
        state.bus.begin(who);
        if let Some(reader) = handler.reader() {
            state.readers.insert(who, reader);
        }
        state.kernel.note(who, || "starts".into());
    }
    if let Handler::Operator(operator) = &handler {
        operators::work(world, who, operator.clone());
        campaigns::work(world, who);
    }
    if let Handler::Scheduler(scheduler) = &handler {
        let (ticks, scheduler) = (world.clone(), scheduler.clone());
        world.spawn(Owner::Instance(who), async move {
            loop {
                ticks.sleep(IDLE_MS).await;
                if scheduler.is_waiting() {
                    ticks
                        .state()
                        .kernel
                        .coverage
                        .reach("saw: order waits to be started");
                    scheduler.handle(&[]).await;
                }
            }
        });
    }
    if let Handler::Supervisor(supervisor, carrier) = handler {
        campaigns::carry_on(world, who, carrier);
        let world = world.clone();
        world.clone().spawn(Owner::Instance(who), async move {
            drive_on(&world, who, &supervisor).await;
            loop {
                let pause = world.state().kernel.rng.between(SWEEP_MS / 2, SWEEP_MS);
                world.sleep(pause).await;
                let report = supervisor.sweep(SWEEP_TIME).await;
                if report.found + report.failed > 0 {
                    world.state().kernel.note(who, || format!("{report:?}"));
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

/// Sends again what all unfinished orders wait for, as at the start of an installation on one machine.
async fn drive_on(
    world: &World,
    who: InstanceId,
    supervisor: &Supervisor<Ports, Ports, Ports, Ports>,
) {
    if !world.state().setup.one_machine {
        return;
    }
    let wanted = ExpectedSends::now(&world.state(), who);
    let driven = supervisor.drive_on().await;
    let mut state = world.state();
    state.kernel.note(who, || format!("{driven:?}"));
    if driven.sent > 0 {
        state.kernel.coverage.reach("saw: order driven on");
    }
    if driven.is_whole() {
        wanted.check(&mut state, who);
    }
}

/// Assigns a partition to a living instance, which continues at the committed offset.
pub(crate) fn give(world: &World, topic: &str, partition: usize, who: InstanceId) {
    let Some(reader) = world.state().readers.get(&who).cloned() else {
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
        consume(&world, who, &*reader, assignment).await;
    });
}
