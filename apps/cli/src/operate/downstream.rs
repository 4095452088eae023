//! `triad pause`, `triad resume` and `triad downstreams`: hold orders, step types and downstreams, and show the
//! downstreams.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::Cell;
use serde_json::json;
use triad_core::downstream::{Downstream, DownstreamAction, ForcedTo};
use triad_core::{Action, OperatorAct, Timestamp};
use triad_operator::downstreams::{
    self, DownstreamError, HoldError, InvalidStepType, Published, StepType, reachability,
};
use triad_runtime::Clock;
use triad_runtime::operator::DownstreamOperated;
use triad_runtime::system::SystemClock;
use triad_workflow::{AgentName, StepId, WorkflowName};

use super::bulk::BulkArgs;
use super::orders::{self, OrderArgs};
use super::pressure;
use super::{ActArgs, CliOperator, operator};
use crate::commands::connection::{KafkaArgs, LoginArgs, StoreArgs};
use crate::output::{self, Usage, count, print_line, relative_time};

/// Hold orders, a step type or a downstream: nothing is started until it is resumed
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad pause 10248 --why 'customer is unsure'
  triad pause --downstream payment --why 'maintenance at the bank'
  triad pause --step-type order-fulfilment/ship-order --why 'warehouse is closed'

Calls under way are not cancelled. Work for a paused downstream waits without counting as failed. Every
instance applies a pause within two seconds.")]
pub struct PauseArgs {
    #[command(flatten)]
    what: WhatArgs,
}

/// Let paused orders, step types or downstreams go on
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad resume 10248 --why 'go ahead'
  triad resume --downstream payment --why 'maintenance is over'
  triad resume --state Paused --yes --why 'go ahead'

Waiting work is tried again after at most 33 seconds plus the time between two sweeps of the Supervisor
(10 seconds in a worker, a minute in the function).")]
pub struct ResumeArgs {
    #[command(flatten)]
    what: WhatArgs,
}

#[derive(Debug, Args)]
struct WhatArgs {
    /// A downstream, by the name of its agent
    #[arg(long, value_name = "AGENT", conflicts_with_all = ["step_type", "orders"])]
    downstream: Option<String>,
    /// A step of a workflow, in all its orders
    #[arg(long, value_name = "WORKFLOW/STEP", conflicts_with = "orders")]
    step_type: Option<String>,
    #[command(flatten)]
    bulk: BulkArgs,
    #[command(flatten)]
    act: ActArgs,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    kafka: KafkaArgs,
}

/// Show the downstreams, their circuit breakers and what waits for them, or set a breaker by hand
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad downstreams
  triad downstreams --force-open payment --why 'they asked us to stop'
  triad downstreams --force-closed payment --why 'the breaker is wrong'
  triad downstreams --release payment --why 'back to normal'

Downstreams are those that the published workflows name.")]
pub struct DownstreamsArgs {
    /// Force the breaker open: make no call to this downstream
    #[arg(long, value_name = "AGENT", requires = "why", group = "set")]
    force_open: Option<String>,
    /// Force the breaker closed: make every call to this downstream, whatever fails
    #[arg(long, value_name = "AGENT", requires = "why", group = "set")]
    force_closed: Option<String>,
    /// Remove a forced state: its circuit breaker decides again
    #[arg(long, value_name = "AGENT", requires = "why", group = "set")]
    release: Option<String>,
    /// The reason, which other operators see
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    /// Name of the operator. Default: the user of this session
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Print a JSON line for each downstream
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
    /// Kafka bootstrap addresses, needed to set a breaker
    #[arg(long, value_name = "HOST:PORT", env = "TRIAD_BROKERS")]
    brokers: Option<String>,
    #[command(flatten)]
    login: LoginArgs,
}

impl WhatArgs {
    /// Whether anything is written: it is no dry run.
    fn changes(&self) -> bool {
        let is_of_orders = self.downstream.is_none() && self.step_type.is_none();
        !is_of_orders || !self.bulk.is_dry()
    }
}

impl PauseArgs {
    /// Whether anything is written: it is no dry run.
    pub fn changes(&self) -> bool {
        self.what.changes()
    }
}

impl ResumeArgs {
    /// Whether anything is written: it is no dry run.
    pub fn changes(&self) -> bool {
        self.what.changes()
    }
}

impl DownstreamsArgs {
    /// Whether a breaker is set.
    pub fn changes(&self) -> bool {
        self.force_open.is_some() || self.force_closed.is_some() || self.release.is_some()
    }
}

/// Runs `triad pause`, on orders, one downstream or one step type. The exit code is 0 if all of it
/// is done, 130 if the user interrupted it, otherwise 1.
///
/// # Errors
/// [`Usage`] if the options do not fit together or name what is not published; if the store or
/// Kafka fails.
pub async fn pause(args: PauseArgs) -> Result<ExitCode> {
    let force = DownstreamAction::Force(ForcedTo::Open);
    hold(args.what, Action::Pause, force, |w, s| {
        DownstreamAction::PauseStep(w, s)
    })
    .await
}

/// Runs `triad resume`. Exit codes and errors are those of [`pause`].
///
/// # Errors
/// As [`pause`].
pub async fn resume(args: ResumeArgs) -> Result<ExitCode> {
    let release = DownstreamAction::Release;
    hold(args.what, Action::Resume, release, |w, s| {
        DownstreamAction::ResumeStep(w, s)
    })
    .await
}

async fn hold(
    what: WhatArgs,
    of_orders: Action,
    of_downstream: DownstreamAction,
    of_step: impl Fn(WorkflowName, StepId) -> DownstreamAction,
) -> Result<ExitCode> {
    if what.downstream.is_none() && what.step_type.is_none() {
        let args = OrderArgs {
            bulk: what.bulk,
            act: what.act,
            store: what.store,
            kafka: what.kafka,
        };
        return orders::run(args, of_orders).await;
    }
    if !what.bulk.filter.filter().is_empty() {
        return Err(Usage(
            "--state, --cause, --workflow and --older-than choose orders: leave them out beside --downstream and --step-type".into(),
        ).into());
    }
    let act = what.act.act()?;
    let (store, operator) = operator(&what.store, &what.kafka).await?;
    let published = Published::read(&store).await.map_err(explain)?;
    let (agents, action) = match (&what.downstream, &what.step_type) {
        (Some(name), _) => {
            let agent = published.agent(name).map_err(explain)?;
            (BTreeSet::from([agent]), of_downstream)
        }
        (None, Some(text)) => {
            let step = step_type(text)?;
            let agents = published.agents_of(&step).map_err(explain)?;
            (agents, of_step(step.workflow, step.step))
        }
        (None, None) => (BTreeSet::new(), of_downstream),
    };
    set(&operator, &agents, &action, &act, what.bulk.json).await
}

async fn set(
    operator: &CliOperator,
    agents: &BTreeSet<AgentName>,
    action: &DownstreamAction,
    act: &OperatorAct,
    as_json: bool,
) -> Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    let (mut number, mut refused) = (0, 0);
    let done = downstreams::operate(operator, agents, action, act, false, |held| {
        let (result, text) = match &held.operated {
            DownstreamOperated::Done(record) => {
                number += 1;
                ("done", record.last.what.clone())
            }
            DownstreamOperated::Refused(refusal) => {
                refused += 1;
                code = ExitCode::FAILURE;
                ("refused", refusal.to_string())
            }
        };
        let agent = &held.downstream;
        if as_json {
            let line =
                json!({"kind": "result", "downstream": agent, "result": result, "text": text});
            print_line(&line)?;
        } else {
            println!("{agent}  {result}: {text}");
        }
        Ok(())
    });
    match done.await {
        Ok(()) if as_json => {
            let line = json!({"kind": "summary", "done": number, "refused": refused});
            print_line(&line)?;
            Ok(code)
        }
        Ok(()) => Ok(code),
        Err(HoldError::Operate(error)) => Err(error.into()),
        Err(HoldError::Report(error)) => Err(error),
    }
}

/// Runs `triad downstreams`: sets a breaker if an option says so, otherwise prints all downstreams.
/// The exit code is 1 if the act was refused, otherwise 0.
///
/// # Errors
/// [`Usage`] if the downstream is not published or `--brokers` is missing; if the store or Kafka
/// fails.
pub async fn show(args: DownstreamsArgs) -> Result<ExitCode> {
    let wanted = [
        (&args.force_open, DownstreamAction::Force(ForcedTo::Open)),
        (
            &args.force_closed,
            DownstreamAction::Force(ForcedTo::Closed),
        ),
        (&args.release, DownstreamAction::Release),
    ];
    let set_by_hand = wanted
        .into_iter()
        .find_map(|(name, action)| name.as_ref().map(|n| (n, action)));
    if let Some((name, action)) = set_by_hand {
        let Some(brokers) = args.brokers else {
            return Err(
                Usage(
                    "--brokers is missing, and TRIAD_BROKERS is not set: the change is announced through Kafka; give its address, as triad dev prints it".into(),
                )
                .into(),
            );
        };
        let act = ActArgs {
            why: args.why.unwrap_or_default(),
            by: args.by,
        };
        let kafka = KafkaArgs {
            brokers,
            login: args.login,
        };
        let act = act.act()?;
        let (store, operator) = operator(&args.store, &kafka).await?;
        let published = Published::read(&store).await.map_err(explain)?;
        let agents = BTreeSet::from([published.agent(name).map_err(explain)?]);
        return set(&operator, &agents, &action, &act, args.json).await;
    }
    let store = args.store.store().await?;
    let published = Published::read(&store).await.map_err(explain)?;
    let now = SystemClock.now();
    let (mut all, mut not_called) = (0, 0);
    let mut table = output::table([
        "Downstream",
        "State",
        "Set by hand",
        "Paused steps",
        "Last change",
        "",
    ]);
    for agent in published.agents() {
        let view = downstreams::view(&store, &agent).await?;
        if args.json {
            output::print("downstream", &view)?;
        } else {
            table.add_row(row(&agent, &view.record, now));
        }
        all += 1;
        not_called += u64::from(view.is_not_called());
    }
    // Reports of a process that has ended are outdated.
    let waiting = match args.store.nobody_runs() {
        Some(_) => Vec::new(),
        None => downstreams::waiting(&store, now).await?,
    };
    let deferred = downstreams::deferred(&store, &published).await?;
    if args.json {
        for one in &waiting {
            pressure::print_json(one)?;
        }
        let further = json!({
            "not_called": not_called,
            "waiting": waiting.len(),
            "deferred": deferred.orders,
            "sampled": deferred.more,
        });
        output::summary(all, false, None, further)?;
    } else {
        if all > 0 {
            table.print();
        }
        let number = count(all as u64, "downstream", "downstreams");
        println!("{number}, {not_called} not to be called");
        let least = if deferred.more { "at least " } else { "" };
        for (agent, orders) in &deferred.orders {
            let orders = count(*orders, "order", "orders");
            println!("{least}{orders} deferred at {agent}");
        }
        pressure::print(&waiting, now);
    }
    Ok(ExitCode::SUCCESS)
}

fn row(agent: &AgentName, record: &Downstream, now: Timestamp) -> [Cell; 6] {
    let forced = record.forced.as_ref().map_or_else(String::new, |f| {
        let to = match f.to {
            ForcedTo::Open => "open",
            ForcedTo::Closed => "closed",
        };
        format!("{to} by {}: {}", f.hold.act.by, f.hold.act.why)
    });
    let paused: Vec<String> = record
        .paused
        .iter()
        .map(|p| format!("{}/{}", p.workflow, p.step))
        .collect();
    let at = if record.last.what.is_empty() {
        String::new()
    } else {
        relative_time(record.last.at, now)
    };
    [
        Cell::new(agent),
        output::state(reachability(&record.breaker)),
        Cell::new(forced),
        Cell::new(paused.join(", ")),
        Cell::new(at),
        Cell::new(&record.last.what),
    ]
}

/// Converts an error: a wrong request is a usage error, any other is not.
fn explain(error: DownstreamError) -> anyhow::Error {
    match error {
        DownstreamError::NoSuchAgent { .. } | DownstreamError::NoSuchStep(_) => {
            Usage(error.to_string()).into()
        }
        DownstreamError::Store(_) => error.into(),
    }
}

fn step_type(text: &str) -> Result<StepType, Usage> {
    text.parse()
        .map_err(|e: InvalidStepType| Usage(format!("--step-type {e}")))
}
