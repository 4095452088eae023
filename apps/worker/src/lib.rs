//! The long-running worker: the handlers over Kafka consumers, in one process.
//!
//! The binary `triad-worker` runs the chosen handlers over an installation; `triad dev` runs all of them over its
//! embedded engines.

mod attention_gauge;
mod heartbeat;
pub mod serving;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use triad_bootstrap::{SchedulerHandler, SubmissionHandler, WholeStore, Wiring};
use triad_consume::{Broker, LAST_WAIT, WorkerConfig, run_batches, run_stream};
use triad_core::{Priority, topics};
use triad_operator::history;
use triad_runtime::agent::Remotes;
use triad_runtime::supervisor::Supervisor;
use triad_runtime::system::{SystemClock, SystemEntropy};
use triad_runtime::{Bus, Clock, metric};
use triad_workflow::Millis;

use heartbeat::HandlerCounts;

/// Orders of one lane in one batch of Submission: few, because the Schedulers' writes wait during their transactions.
const SUBMITTED_AT_ONCE: usize = 64;
/// Records of one lane in one batch of the Scheduler.
const BATCH: usize = 64;
/// Concurrent requests in each agent.
const IN_FLIGHT: usize = 256;
/// Interval at which an idle Scheduler checks whether it can start waiting orders.
const LOOK_FOR_ROOM: Duration = Duration::from_millis(100);
/// Longest sweep; the next one continues where it stopped.
const SWEEP_TIME: Millis = Millis(20_000);
/// Longest turn for the campaigns; the next one continues where it stopped.
const CAMPAIGN_TIME: Millis = Millis(20_000);

/// Longest wait at the stop for the work in hand. Together with the following waits it must fit into the 30 s after
/// which most systems kill a process that they have asked to stop.
const LAST_WORK: Duration = Duration::from_secs(20);
/// On one machine, longest time after the stop until the Scheduler is stopped too: agents have 12 s of it for their calls.
const LAST_REPLIES: Duration = Duration::from_secs(15);
/// How often it is looked whether the Scheduler has handled the last replies.
const LOOK_FOR_REPLIES: Duration = Duration::from_millis(10);
/// Longest wait for the last spans at the end.
const LAST_SPANS: Millis = Millis(2_000);

/// Why a time between two sweeps is refused.
const NO_SPAN: &str = "the time between two sweeps must be above zero";

/// Reads the time between two sweeps as a user writes it, such as `10s`.
///
/// # Errors
/// The text is not a duration, is longer than 366 days, or is zero.
pub fn sweep_every(text: &str) -> anyhow::Result<Millis> {
    let span: Millis = text.parse()?;
    ensure!(span > Millis(0), NO_SPAN);
    Ok(span)
}

/// One kind of handler that a worker can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Function {
    /// Submission: it stores orders and announces them to the Scheduler.
    Submission,
    /// The Scheduler: it claims orders and runs their steps.
    Scheduler,
    /// The agents: they call the remote services.
    Agent,
    /// The Supervisor: it takes up overdue orders and carries out operators' campaigns.
    Supervisor,
}

/// Names of functions, for a log line.
fn names(functions: &[Function]) -> String {
    let values = functions
        .iter()
        .filter_map(clap::ValueEnum::to_possible_value);
    let names: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
    names.join(", ")
}

/// Runs the handlers named in `functions` until `stop` is cancelled. `remotes` are the services that agents
/// call. `sweep_every` is the time between two sweeps of the Supervisor, and between its turns at operators'
/// campaigns.
///
/// Once `stop` is cancelled nothing new is begun. Submission and the Scheduler finish the batches in hand, and
/// the Supervisor its sweep, if they can do so within 20 s: what a store that hangs holds up is broken off then, as by
/// a crash. Requests that agents have in hand have 12 s to end; those that do not are delivered again later. Work on
/// campaigns is broken off at once, and goes on at the next start. Then the function waits at most 5 s for messages that are not acknowledged, and 2 s for spans of
/// traces.
///
/// # Errors
/// An error at once, and nothing is begun, if `sweep_every` is zero. Otherwise the first error with which a
/// loop ended, or that a loop panicked; `stop` is then cancelled, so that all other loops end.
pub async fn run<S: WholeStore, B: Broker>(
    wiring: Wiring<S, B>,
    remotes: Remotes,
    functions: &[Function],
    sweep_every: Duration,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let submission = Arc::new(wiring.submission());
    let stops = Stops {
        scheduler: stop.clone(),
        all: stop,
        agents: None,
    };
    run_with(submission, wiring, remotes, functions, sweep_every, stops).await
}

/// Does what [`run`] does, in the one process of an installation on one machine. Its messages between handlers ended
/// with the process before it, so every unfinished order is resumed first, concurrently with the handlers. When `stop` is
/// cancelled, the Scheduler goes on until the agents have ended and it has handled their last replies, which would be
/// lost otherwise. `submitting` is the Submission handler, which the caller may use too: orders that it submits through
/// it then wait in the same backlog as those of the topic.
///
/// # Errors
/// The same as those of [`run`].
pub async fn run_on_one_machine<S: WholeStore, B: Broker>(
    submitting: Arc<SubmissionHandler<S, B::Bus>>,
    wiring: Wiring<S, B>,
    remotes: Remotes,
    functions: &[Function],
    sweep_every: Duration,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let scheduling = CancellationToken::new();
    let (alive, agents) = mpsc::channel(1);
    let driving = drive_on(wiring.supervisor(), stop.clone());
    let last = last_replies(
        wiring.broker.clone(),
        agents,
        stop.clone(),
        scheduling.clone(),
    );
    let stops = Stops {
        all: stop.clone(),
        scheduler: scheduling,
        agents: Some(alive),
    };
    let running = run_with(submitting, wiring, remotes, functions, sweep_every, stops);
    // An end without a stop, such as a wrong setting, ends the others too.
    let running = running.inspect(|_| stop.cancel());
    let ((), (), result) = tokio::join!(driving, last, running);
    result
}

/// Ends the Scheduler of one machine: after `stop`, once no agent is there any more (`agents` has no sender) and what
/// they have sent is handled, at the latest after [`LAST_REPLIES`].
async fn last_replies<B: Broker>(
    broker: B,
    mut agents: mpsc::Receiver<()>,
    stop: CancellationToken,
    scheduling: CancellationToken,
) {
    stop.cancelled().await;
    let handled = async {
        // Nothing is sent through this channel.
        while agents.recv().await.is_some() {}
        for lane in [Priority::Normal, Priority::High] {
            let (group, topic) = (
                topics::group("", topics::SCHEDULER),
                topics::scheduler(lane),
            );
            while broker.unhandled(&group, topic) > 0 {
                tokio::time::sleep(LOOK_FOR_REPLIES).await;
            }
        }
    };
    if tokio::time::timeout(LAST_REPLIES, handled).await.is_err() {
        tracing::warn!(
            "the last replies of agents were not handled in time: their requests are sent again"
        );
    }
    scheduling.cancel();
}

/// What ends the loops.
struct Stops {
    all: CancellationToken,
    scheduler: CancellationToken,
    /// Held by each loop of an agent.
    agents: Option<mpsc::Sender<()>>,
}

/// Does what [`run`] does, with this Submission handler.
async fn run_with<S: WholeStore, B: Broker>(
    submitting: Arc<SubmissionHandler<S, B::Bus>>,
    wiring: Wiring<S, B>,
    remotes: Remotes,
    functions: &[Function],
    sweep_every: Duration,
    stops: Stops,
) -> anyhow::Result<()> {
    let stop = stops.all;
    ensure!(!sweep_every.is_zero(), NO_SPAN);
    let mut loops: JoinSet<anyhow::Result<()>> = JoinSet::new();
    let counts = Arc::new(HandlerCounts::default());
    let named = functions.to_vec();
    let say = move |beat| heartbeat::log(&named, beat);
    loops.spawn(heartbeat::beat(counts.clone(), stop.clone(), say));
    begin_counters(&wiring, &remotes).await;
    for function in functions {
        match function {
            Function::Submission => {
                submission(&mut loops, submitting.clone(), &wiring, &counts, &stop);
            }
            Function::Scheduler => scheduler(&mut loops, &wiring, &counts, &stops.scheduler),
            Function::Agent => {
                let alive = stops.agents.clone();
                agents(&mut loops, &wiring, &remotes, &counts, &stop, alive);
            }
            Function::Supervisor => {
                supervisor(&mut loops, &wiring, sweep_every, &stop);
                campaigns(&mut loops, &wiring, sweep_every, stop.clone());
            }
        }
    }
    drop(stops.agents);
    let result = ended(loops, &stop).await;
    B::flush(&wiring.bus, Duration::from_secs(5));
    wiring.config.settings.traces.flush(LAST_SPANS).await;
    result
}

/// Waits until all loops have ended, at most [`LAST_WORK`] after `stop`. The first failure sets `stop`.
async fn ended(
    mut loops: JoinSet<anyhow::Result<()>>,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let mut result = Ok(());
    let too_long = async {
        stop.cancelled().await;
        tokio::time::sleep(LAST_WORK).await;
    };
    tokio::pin!(too_long);
    loop {
        let ended = tokio::select! {
            ended = loops.join_next() => ended,
            () = &mut too_long => {
                tracing::warn!("work in hand is broken off, and is done again later: is the store slow, or away?");
                loops.shutdown().await;
                return result;
            }
        };
        let Some(ended) = ended else { return result };
        let ended = ended.context("a worker loop panicked").and_then(|r| r);
        if ended.is_err() && result.is_ok() {
            result = ended;
            stop.cancel();
        }
    }
}

/// Starts the counters of the served agents, and of all workflows, at 0. Best effort: the counters of a workflow that
/// could not be read start with its first order.
async fn begin_counters<S: WholeStore, B: Broker>(wiring: &Wiring<S, B>, remotes: &Remotes) {
    if !metric::is_measured() {
        return;
    }
    remotes.names().for_each(metric::begin_agent);
    match wiring.store.versions().await {
        Ok(all) => all
            .iter()
            .for_each(|one| metric::begin_workflow(&one.definition.name)),
        Err(error) => tracing::debug!(%error, "the counters of workflows begin later"),
    }
}

/// Configuration of a loop over both lanes: `name` gives the group, the topics are those of either priority.
fn config<S, B: Broker>(
    wiring: &Wiring<S, B>,
    topic: impl Fn(Priority) -> String,
    max_records: usize,
) -> WorkerConfig<B> {
    let normal = topic(Priority::Normal);
    WorkerConfig {
        broker: wiring.broker.clone(),
        group: topics::group(&wiring.config.kafka.prefix, &normal),
        high: Some(topic(Priority::High)),
        normal,
        max_records,
    }
}

fn submission<S: WholeStore, B: Broker>(
    loops: &mut JoinSet<anyhow::Result<()>>,
    handler: Arc<SubmissionHandler<S, B::Bus>>,
    wiring: &Wiring<S, B>,
    counts: &Arc<HandlerCounts>,
    stop: &CancellationToken,
) {
    let topic = |lane| topics::orders(lane).to_owned();
    let config = config(wiring, topic, SUBMITTED_AT_ONCE);
    let (stop, counts) = (stop.clone(), counts.clone());
    loops.spawn(async move {
        let handle = move |records: Arc<Vec<_>>| {
            let (handler, counts) = (handler.clone(), counts.clone());
            async move {
                let answers = handler.handle(&records).await;
                counts.note(&answers);
                answers
            }
        };
        Ok(run_batches(config, stop, handle).await?)
    });
}

fn scheduler<S: WholeStore, B: Broker>(
    loops: &mut JoinSet<anyhow::Result<()>>,
    wiring: &Wiring<S, B>,
    counts: &Arc<HandlerCounts>,
    stop: &CancellationToken,
) {
    let topic = |lane| topics::scheduler(lane).to_owned();
    let messages = config(wiring, topic, BATCH);
    let events = WorkerConfig {
        high: None,
        ..config(wiring, |_| topics::EVENTS.to_owned(), BATCH)
    };
    let handler = Arc::new(wiring.scheduler());
    loops.spawn(start_waiting(handler.clone(), stop.clone()));
    for config in [messages, events] {
        let (handler, stop, counts) = (handler.clone(), stop.clone(), counts.clone());
        loops.spawn(async move {
            let handle = move |records: Arc<Vec<_>>| {
                let (handler, counts) = (handler.clone(), counts.clone());
                async move {
                    let answers = handler.handle(&records).await;
                    counts.note(&answers);
                    answers
                }
            };
            Ok(run_batches(config, stop, handle).await?)
        });
    }
}

/// Starts the Scheduler's waiting orders when there is room, also while there is nothing to read.
async fn start_waiting<S: WholeStore, B: Bus>(
    handler: Arc<SchedulerHandler<S, B>>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut timer = tokio::time::interval(LOOK_FOR_ROOM);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = timer.tick() => {}
            () = stop.cancelled() => return Ok(()),
        }
        if handler.is_waiting() {
            survive("what waits for room", handler.handle(&[])).await;
        }
    }
}

/// Drives every alive order on, once.
async fn drive_on<S: WholeStore, B: Bus>(
    handler: Supervisor<S, B, SystemClock, SystemEntropy>,
    stop: CancellationToken,
) {
    let driving = survive("driving orders on", handler.drive_on());
    if let Some(Some(driven)) = stop.run_until_cancelled(driving).await {
        driven.log();
    }
}

/// The result of periodic work; `None` if it panicked, which is logged.
async fn survive<T>(what: &str, work: impl Future<Output = T>) -> Option<T> {
    let worked = AssertUnwindSafe(work).catch_unwind().await;
    let told = |_| tracing::error!(what, "a handler panicked; it is tried again");
    worked.map_err(told).ok()
}

/// A loop for each agent, with its own consumer group and its own bound: another agent does not change the group, and
/// a slow service does not delay the requests of others.
fn agents<S: WholeStore, B: Broker>(
    loops: &mut JoinSet<anyhow::Result<()>>,
    wiring: &Wiring<S, B>,
    remotes: &Remotes,
    counts: &Arc<HandlerCounts>,
    stop: &CancellationToken,
    alive: Option<mpsc::Sender<()>>,
) {
    let handler = Arc::new(wiring.agent(remotes.clone()));
    let used = handler.clone();
    let usage = move || used.usage();
    loops.spawn(heartbeat::usage(usage, stop.clone(), heartbeat::log_usage));
    let (ending, stopped) = (handler.clone(), stop.clone());
    loops.spawn(async move {
        stopped.cancelled().await;
        ending.end_by(SystemClock.now().plus(LAST_WAIT.into()));
        Ok(())
    });
    for name in remotes.names() {
        let topic = |lane| topics::agent(name, lane);
        let config = config(wiring, topic, IN_FLIGHT);
        let (handler, counts, stop) = (handler.clone(), counts.clone(), stop.clone());
        let alive = alive.clone();
        loops.spawn(async move {
            let _alive = alive;
            let handle = move |record: Arc<_>| {
                let (handler, counts) = (handler.clone(), counts.clone());
                async move {
                    let answer = handler.handle_one(&record, None).await;
                    counts.note(std::slice::from_ref(&answer));
                    answer
                }
            };
            Ok(run_stream(config, stop, handle).await?)
        });
    }
}

fn supervisor<S: WholeStore, B: Broker>(
    loops: &mut JoinSet<anyhow::Result<()>>,
    wiring: &Wiring<S, B>,
    every: Duration,
    stop: &CancellationToken,
) {
    if metric::is_measured() {
        loops.spawn(attention_gauge::publish_gauge(
            wiring.store.clone(),
            stop.clone(),
        ));
    }
    let handler = wiring.supervisor();
    let stop = stop.clone();
    loops.spawn(async move {
        let mut timer = tokio::time::interval(every);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = timer.tick() => {}
                () = stop.cancelled() => return Ok(()),
            }
            if let Some(report) = survive("a sweep", handler.sweep(SWEEP_TIME)).await {
                report.log(false);
            }
        }
    });
}

/// Carries operators' campaigns on, concurrently with the sweeps.
fn campaigns<S: WholeStore, B: Broker>(
    loops: &mut JoinSet<anyhow::Result<()>>,
    wiring: &Wiring<S, B>,
    every: Duration,
    stop: CancellationToken,
) {
    let (handler, store) = (wiring.campaigns(), wiring.store.clone());
    loops.spawn(async move {
        let mut timer = tokio::time::interval(every);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = timer.tick() => {}
                () = stop.cancelled() => return Ok(()),
            }
            let carrying = survive("carrying campaigns on", handler.carry_on(CAMPAIGN_TIME));
            // Cutting it off is safe, as a crash is.
            match stop.run_until_cancelled(carrying).await {
                Some(Some(report)) => report.log(),
                Some(None) => {}
                None => return Ok(()),
            }
            let sampling = history::sample(&store, &SystemEntropy, SystemClock.now());
            if let Some(Err(e)) = survive("keeping the history", sampling).await {
                tracing::warn!(error = %e, "the history for plots was not kept");
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_hangs_is_broken_off_and_the_rest_is_waited_for() {
        let (stop, began) = (CancellationToken::new(), Instant::now());
        let mut loops = JoinSet::new();
        loops.spawn(std::future::pending());
        loops.spawn(async {
            tokio::time::sleep(LAST_WORK * 2).await;
            anyhow::bail!("it was not waited for");
        });
        stop.cancel();
        let result = ended(loops, &stop).await;
        assert!(result.is_ok(), "{result:?}");
        assert_eq!(began.elapsed(), LAST_WORK);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_failure_ends_the_others_and_is_told() {
        let stop = CancellationToken::new();
        let mut loops = JoinSet::new();
        loops.spawn(async { anyhow::bail!("the first") });
        let told = stop.clone();
        loops.spawn(async move {
            told.cancelled().await;
            anyhow::bail!("the second")
        });
        let error = ended(loops, &stop).await.expect_err("it failed");
        assert_eq!(error.to_string(), "the first");
    }
}
