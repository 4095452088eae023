//! `triad pause`, `triad resume` and `triad downstreams`: hold orders, step types and downstreams, and show the
//! downstreams.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::Cell;
use serde_json::json;
use triad_core::Timestamp;
use triad_core::downstream::{Downstream, ForcedTo};
use triad_operator::downstreams::reachability;
use triad_operator::operations::downstreams::DownstreamAct;
use triad_operator::operations::order_acts::{ActDetails, OrderAct};
use triad_operator::operations::{ActOnDownstreams, ListDownstreams};
use triad_runtime::Clock;
use triad_runtime::system::SystemClock;
use triad_workflow::AgentName;

use super::bulk::BulkArgs;
use super::orders::{self, OrderArgs};
use super::pressure;
use crate::commands::who::ActArgs;
use crate::connection::{KafkaArgs, LoginArgs, StoreArgs};
use crate::output::{self, Usage, count, print_line, relative_time};
use crate::place::Place;

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
    hold(args.what, OrderAct::Pause, DownstreamAct::Pause).await
}

/// Runs `triad resume`. Exit codes and errors are those of [`pause`].
///
/// # Errors
/// As [`pause`].
pub async fn resume(args: ResumeArgs) -> Result<ExitCode> {
    hold(args.what, OrderAct::Resume, DownstreamAct::Resume).await
}

async fn hold(what: WhatArgs, of_orders: OrderAct, act: DownstreamAct) -> Result<ExitCode> {
    if what.downstream.is_none() && what.step_type.is_none() {
        let args = OrderArgs {
            bulk: what.bulk,
            act: what.act,
            store: what.store,
            kafka: what.kafka,
        };
        return orders::run(args, of_orders, ActDetails::default()).await;
    }
    if !what.bulk.filter.is_empty() {
        return Err(Usage(
            "--state, --cause, --workflow and --older-than choose orders: leave them out beside --downstream and --step-type".into(),
        ).into());
    }
    let asked = ActOnDownstreams {
        act,
        downstream: what.downstream,
        step_type: what.step_type,
        reason: what.act.reason(what.store.data.far()?.is_some())?,
        dry_run: false,
    };
    let place = what.store.place_with(&what.kafka).await?;
    set(&place, asked, what.bulk.json).await
}

async fn set(place: &Place, asked: ActOnDownstreams, as_json: bool) -> Result<ExitCode> {
    let acted = place.ask(asked).await?;
    for one in &acted.results {
        match as_json {
            true => output::print("result", one)?,
            false => println!("{}  {}: {}", one.downstream, one.result, one.text),
        }
    }
    if as_json {
        print_line(&json!({"kind": "summary", "done": acted.done, "refused": acted.refused}))?;
    }
    Ok(match acted.refused {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Runs `triad downstreams`: sets a breaker if an option says so, otherwise prints all downstreams.
/// The exit code is 1 if the act was refused, otherwise 0.
///
/// # Errors
/// [`Usage`] if the downstream is not published or `--brokers` is missing; if the store or Kafka
/// fails.
pub async fn show(args: DownstreamsArgs) -> Result<ExitCode> {
    let wanted = [
        (&args.force_open, DownstreamAct::ForceOpen),
        (&args.force_closed, DownstreamAct::ForceClosed),
        (&args.release, DownstreamAct::Release),
    ];
    let set_by_hand = wanted
        .into_iter()
        .find_map(|(name, act)| Some((name.clone()?, act)));
    let is_far = args.store.data.far()?.is_some();
    if let Some((downstream, act)) = set_by_hand {
        let brokers = match (args.brokers, is_far) {
            (Some(brokers), _) => brokers,
            (None, true) => String::new(),
            (None, false) => {
                return Err(
                    Usage(
                        "--brokers is missing, and TRIAD_BROKERS is not set: the change is announced through Kafka; give its address, as triad dev prints it".into(),
                    )
                    .into(),
                );
            }
        };
        let reason = ActArgs {
            why: args.why.unwrap_or_default(),
            by: args.by,
        };
        let asked = ActOnDownstreams {
            act,
            downstream: Some(downstream),
            step_type: None,
            reason: reason.reason(is_far)?,
            dry_run: false,
        };
        let kafka = KafkaArgs {
            brokers,
            login: args.login,
        };
        let place = args.store.place_with(&kafka).await?;
        return set(&place, asked, args.json).await;
    }
    let place = args.store.place().await?;
    let found = place.ask(ListDownstreams::default()).await?;
    let now = SystemClock.now();
    let not_called = found
        .downstreams
        .iter()
        .filter(|one| one.is_not_called())
        .count();
    let all = found.downstreams.len();
    // Reports of a process that has ended are outdated.
    let waiting = match args.store.nobody_runs() {
        Some(_) => Vec::new(),
        None => found.waiting,
    };
    if args.json {
        for view in &found.downstreams {
            output::print("downstream", view)?;
        }
        for one in &waiting {
            pressure::print_json(one)?;
        }
        let further = json!({
            "not_called": not_called,
            "waiting": waiting.len(),
            "deferred": found.deferred,
            "sampled": found.sampled,
        });
        output::summary(all, false, None, further)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = output::table([
        "Downstream",
        "State",
        "Set by hand",
        "Paused steps",
        "Last change",
        "",
    ]);
    for view in &found.downstreams {
        table.add_row(row(&view.downstream, &view.record, now));
    }
    if all > 0 {
        table.print();
    }
    let number = count(all as u64, "downstream", "downstreams");
    println!("{number}, {not_called} not to be called");
    let least = if found.sampled { "at least " } else { "" };
    for (agent, orders) in &found.deferred {
        let orders = count(*orders, "order", "orders");
        println!("{least}{orders} deferred at {agent}");
    }
    pressure::print(&waiting, now);
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
