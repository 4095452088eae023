//! `triad pause`, `triad resume` and `triad downstreams`: holding orders, step types and
//! downstreams, and what is known of the downstreams.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde_json::json;
use triad_core::downstream::{Downstream, DownstreamAction, ForcedTo};
use triad_core::{Act, Action};
use triad_runtime::operator::{DownstreamOperated, read_downstream};
use triad_runtime::ports::OperatorStore;
use triad_runtime::system::SystemClock;
use triad_runtime::{Clock, DefinitionStore};
use triad_workflow::{AgentName, StepId, Workflow, WorkflowName};

use super::bulk::BulkArgs;
use super::orders::{self, OrderArgs};
use super::pressure;
use super::{ActArgs, CliOperator, Store, operator};
use crate::commands::connection::{KafkaArgs, LoginArgs, StoreArgs};
use crate::output::{Usage, moment, print_line};

/// Hold orders, a step type or a downstream: nothing is started until it is resumed
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad pause 10248 --why 'customer is unsure'
  triad pause --downstream payment --why 'maintenance at the bank'
  triad pause --step-type order-fulfilment/ship-order --why 'warehouse is closed'

What is on its way to a service is not called back. Work for a paused downstream waits without
counting as failed. Every instance knows of a paused downstream within two seconds.")]
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

Work that was waiting is tried again when its time comes: within half a minute, and the time
between two sweeps of the Supervisor.")]
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
    /// Make no call to this downstream
    #[arg(long, value_name = "AGENT", requires = "why", group = "set")]
    force_open: Option<String>,
    /// Make every call to this downstream, whatever becomes of it
    #[arg(long, value_name = "AGENT", requires = "why", group = "set")]
    force_closed: Option<String>,
    /// Leave this downstream to its circuit breaker again
    #[arg(long, value_name = "AGENT", requires = "why", group = "set")]
    release: Option<String>,
    /// Why: it is told to the other operators
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    /// Who. Default: the user of this session
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Print a JSON line for each downstream
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
    /// Kafka bootstrap addresses, where a breaker is set
    #[arg(long, value_name = "HOST:PORT", env = "TRIAD_BROKERS")]
    brokers: Option<String>,
    #[command(flatten)]
    login: LoginArgs,
}

pub async fn pause(args: PauseArgs) -> Result<ExitCode> {
    let force = DownstreamAction::Force(ForcedTo::Open);
    hold(args.what, Action::Pause, force, |w, s| {
        DownstreamAction::PauseStep(w, s)
    })
    .await
}

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
    if !what.bulk.filter.is_empty() {
        return Err(Usage("a filter is for orders".into()).into());
    }
    let act = what.act.act()?;
    let store = what.store.store().await?;
    let operator = operator(&what.store, &what.kafka).await?;
    let workflows = published(&store).await?;
    let (agents, action) = match (&what.downstream, &what.step_type) {
        (Some(name), _) => (vec![known(&workflows, name)?], of_downstream),
        (None, Some(text)) => {
            let (workflow, step) = step_type(text)?;
            let agents = agents_of(&workflows, &workflow, &step);
            if agents.is_empty() {
                return Err(Usage(format!("no published workflow has a step {text}")).into());
            }
            (agents, of_step(workflow, step))
        }
        (None, None) => (Vec::new(), of_downstream),
    };
    set(&operator, &agents, &action, &act, what.bulk.json).await
}

async fn set(
    operator: &CliOperator,
    agents: &[AgentName],
    action: &DownstreamAction,
    act: &Act,
    as_json: bool,
) -> Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for agent in agents {
        let done = operator.operate_downstream(agent, action, act).await?;
        let (result, text) = match done {
            DownstreamOperated::Done(record) => ("done", record.last.what),
            DownstreamOperated::Refused(refusal) => {
                code = ExitCode::FAILURE;
                ("refused", refusal.to_string())
            }
        };
        if as_json {
            print_line(&json!({"downstream": agent.as_str(), "result": result, "text": text}))?;
        } else {
            println!("{agent}  {result}: {text}");
        }
    }
    Ok(code)
}

pub async fn show(args: DownstreamsArgs) -> Result<ExitCode> {
    let store = args.store.store().await?;
    let workflows = published(&store).await?;
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
                Usage("--brokers is missing: the change is told through Kafka".into()).into(),
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
        let operator = operator(&args.store, &kafka).await?;
        let agent = known(&workflows, name)?;
        return set(&operator, &[agent], &action, &act.act()?, args.json).await;
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_header([
        "Downstream",
        "Breaker",
        "Set by hand",
        "Paused steps",
        "Last change",
        "",
    ]);
    for agent in all_agents(&workflows) {
        let (record, _) = read_downstream(&store, &agent).await?;
        if args.json {
            print_line(&json!({"downstream": agent.as_str(), "record": record}))?;
        } else {
            table.add_row(row(&agent, &record));
        }
    }
    let now = SystemClock.now();
    let held_back = pressure::read(&store, now).await?;
    if args.json {
        for one in held_back.iter().filter(|p| p.waiting > 0) {
            print_line(&pressure::line(one))?;
        }
    } else {
        println!("{table}");
        pressure::print(&held_back, now);
    }
    Ok(ExitCode::SUCCESS)
}

fn row(agent: &AgentName, record: &Downstream) -> [String; 6] {
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
        moment(record.last.at)
    };
    [
        agent.to_string(),
        record.breaker.name().to_owned(),
        forced,
        paused.join(", "),
        at,
        record.last.what.clone(),
    ]
}

/// Every stored version of every workflow.
async fn published(store: &Store) -> Result<Vec<Workflow>> {
    let mut workflows = Vec::new();
    for version in store.versions().await? {
        if let Some(json) = store.definition(version.definition.clone()).await? {
            match Workflow::from_published(&json) {
                Ok(workflow) => workflows.push(workflow),
                Err(_) => bail!("definition {} cannot be read", version.definition),
            }
        }
    }
    Ok(workflows)
}

fn all_agents(workflows: &[Workflow]) -> BTreeSet<AgentName> {
    let steps = workflows.iter().flat_map(|w| &w.steps);
    steps
        .flat_map(|s| std::iter::once(&s.agent).chain(s.compensation.as_ref().map(|c| &c.agent)))
        .cloned()
        .collect()
}

fn agents_of(workflows: &[Workflow], name: &WorkflowName, step: &StepId) -> Vec<AgentName> {
    let mut agents: Vec<AgentName> = workflows
        .iter()
        .filter(|w| &w.name == name)
        .flat_map(|w| &w.steps)
        .filter(|s| &s.id == step)
        .flat_map(|s| std::iter::once(&s.agent).chain(s.compensation.as_ref().map(|c| &c.agent)))
        .cloned()
        .collect();
    agents.sort();
    agents.dedup();
    agents
}

fn known(workflows: &[Workflow], name: &str) -> Result<AgentName, Usage> {
    let agents = all_agents(workflows);
    agents
        .iter()
        .find(|a| a.as_str() == name)
        .cloned()
        .ok_or_else(|| {
            let names: Vec<_> = agents.iter().map(AgentName::as_str).collect();
            Usage(format!(
                "no published workflow has an agent {name:?}; there are: {}",
                names.join(", ")
            ))
        })
}

fn step_type(text: &str) -> Result<(WorkflowName, StepId), Usage> {
    let bad = || {
        Usage(format!(
            "--step-type {text:?} is not WORKFLOW/STEP, such as order-fulfilment/ship-order"
        ))
    };
    let (workflow, step) = text.split_once('/').ok_or_else(bad)?;
    let workflow = WorkflowName::new(workflow).map_err(|_| bad())?;
    let step = StepId::new(step).map_err(|_| bad())?;
    Ok((workflow, step))
}
