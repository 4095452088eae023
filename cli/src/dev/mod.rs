//! `triad dev`: the whole system in one process, with nothing installed.

pub mod engines;
pub mod follow;
mod service;
pub mod summary;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use triad_core::topics;
use triad_reference_service::{FaultPlan, Faults};
use triad_worker::Function;
use triad_workflow::{Millis, Workflow};

use crate::commands::validate::read_all;
use crate::output::{Usage, print_line};

use engines::{EngineOptions, Engines};
use follow::Follower;

/// Run the whole system in this process: embedded broker and tables, all handlers, a reference
/// remote service.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  triad dev                                        run until Ctrl-C, in memory
  triad dev --orders orders.jsonl --until-done     run a file of orders and sum up
  triad dev --data ./state --orders orders.jsonl   keep everything in ./state, resume after a kill
  triad dev --orders orders.jsonl --until-done --transient 10 --permanent 2 --stall 2")]
pub struct DevArgs {
    /// Keep everything durably in this directory, and resume from it. Default: memory
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Submit the orders of this JSON-lines file, through Kafka
    #[arg(long, value_name = "FILE")]
    pub orders: Option<PathBuf>,
    /// End when every order of the file is finished, with a summary
    #[arg(long, requires = "orders")]
    pub until_done: bool,
    /// Orders of the file under way at once; 0 is no limit. If more wait than can be done in the
    /// steps' time, replies are late, and each late reply costs another attempt
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub in_flight: u32,
    /// Workflow files to publish. Default: the built-in order-fulfilment
    #[arg(long, value_name = "FILE")]
    pub workflow: Vec<PathBuf>,
    /// Print machine-readable lines: the addresses first, the summary last
    #[arg(long)]
    pub json: bool,
    /// Kafka port. Default: a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub kafka_port: u16,
    /// DynamoDB port. Default: a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub dynamodb_port: u16,
    /// Port of the reference remote service. Default: a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub service_port: u16,
    /// Partitions of each topic
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(i32).range(1..=64))]
    pub partitions: i32,
    /// Time between two sweeps of the Supervisor
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = span)]
    pub sweep_every: Millis,
    /// Reply topics that orders may name, such as reply.shop
    #[arg(long, value_name = "TOPIC")]
    pub reply_topic: Vec<String>,
    /// Misbehaviour of the reference service
    #[command(flatten)]
    pub faults: FaultArgs,
}

/// Options that say how the reference service misbehaves.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Misbehaviour of the reference service")]
pub struct FaultArgs {
    /// Percent of calls that fail in a way that may pass; half of them after taking effect
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    pub transient: f64,
    /// Percent of steps that the service refuses for good
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    pub permanent: f64,
    /// Percent of compensations that the service refuses for good
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    pub undo_permanent: f64,
    /// Percent of calls that stall past the step's deadline
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    pub stall: f64,
    /// How long the answer of a stalled call is held back
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = span)]
    pub stall_for: Millis,
    /// Time that the service takes for every call
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = span)]
    pub latency: Millis,
    /// Seed of the misbehaviour: the same calls with the same seed meet the same faults
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub fault_seed: u64,
}

fn span(text: &str) -> Result<Millis, String> {
    Millis::try_from(text.to_owned())
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(p) if (0.0..=100.0).contains(&p) => Ok(p),
        _ => Err("is not a number from 0 to 100".to_owned()),
    }
}

impl DevArgs {
    fn engine_options(&self) -> Result<EngineOptions> {
        let workflows = if self.workflow.is_empty() {
            vec![engines::built_in()?]
        } else {
            read_all(&self.workflow, &engines::limits())?
        };
        self.faults.fit(&workflows)?;
        Ok(EngineOptions {
            data: self.data.clone(),
            ports: [self.kafka_port, self.dynamodb_port, self.service_port],
            partitions: self.partitions,
            workflows,
            reply_topics: self.reply_topic.clone(),
            faults: self.faults.faults(),
        })
    }
}

impl FaultArgs {
    /// Whether a call that nothing goes wrong with is answered in the time of every step.
    fn fit(&self, workflows: &[Workflow]) -> Result<(), Usage> {
        let steps = workflows
            .iter()
            .flat_map(|w| w.steps.iter().map(move |s| (w, s)));
        let late = steps
            .filter(|(_, step)| self.latency >= step.complete_within)
            .map(|(workflow, step)| {
                format!(
                    "step {} of {} gives a call {}, and with --latency {} none is answered in that time",
                    step.id, workflow.name, step.complete_within, self.latency
                )
            });
        let problems: Vec<String> = late.collect();
        match problems.is_empty() {
            true => Ok(()),
            false => Err(Usage(problems.join("\n"))),
        }
    }

    fn faults(&self) -> Faults {
        Faults {
            seed: self.fault_seed,
            default: FaultPlan {
                transient: self.transient / 100.0,
                permanent: self.permanent / 100.0,
                undo_permanent: self.undo_permanent / 100.0,
                stall: self.stall / 100.0,
                stall_ms: self.stall_for.0,
                latency_ms: self.latency.0,
                ..FaultPlan::default()
            },
            services: BTreeMap::new(),
        }
    }
}

/// Runs `triad dev`. The exit code is 0 after good orders, 1 if an order did not end well or was
/// lost, 130 if the user interrupted it. Without `--until-done` it runs until then.
///
/// # Errors
/// If an engine cannot be started, with the address or file it is about; if a handler ends by
/// itself; or if an order cannot be submitted or a record cannot be read.
pub async fn run(args: DevArgs) -> Result<ExitCode> {
    let orders = match &args.orders {
        Some(file) => Some(follow::read_orders(file)?),
        None => None,
    };
    let engines = Engines::start(args.engine_options()?).await?;
    announce(&args, &engines)?;
    let stop = CancellationToken::new();
    let functions = [
        Function::Submission,
        Function::Scheduler,
        Function::Agent,
        Function::Supervisor,
    ];
    let mut worker = tokio::spawn({
        let (wiring, remotes, stop) = (
            engines.wiring.clone(),
            engines.remotes.clone(),
            stop.clone(),
        );
        let every = args.sweep_every.as_duration();
        async move { triad_worker::run(wiring, remotes, &functions, every, stop).await }
    });
    let result = tokio::select! {
        result = work(&args, &engines, orders) => result,
        _ = tokio::signal::ctrl_c() => Ok(ExitCode::from(130)),
        // Engines without handlers look alive and do nothing: better no process at all.
        ended = &mut worker => {
            let ended = ended.context("the worker panicked").and_then(|ended| ended);
            let error = ended.err().unwrap_or_else(|| anyhow!("nobody told it to stop"));
            let error = error.context("the handlers have ended");
            tracing::error!("{error:#}");
            engines.shutdown().await;
            return Err(error);
        }
    };
    stop.cancel();
    let ended = worker.await.context("the worker panicked")?;
    engines.shutdown().await;
    ended?;
    result
}

async fn work(
    args: &DevArgs,
    engines: &Engines,
    orders: Option<Vec<follow::OrderLine>>,
) -> Result<ExitCode> {
    let Some(orders) = orders else {
        return std::future::pending().await;
    };
    let shown = !args.json && std::io::stderr().is_terminal();
    let follower = Follower::open(engines, orders, args.in_flight, shown)?;
    let outcome = follower.run().await?;
    if !args.until_done {
        return std::future::pending().await;
    }
    let summary = summary::Summary::of(engines, &outcome).await?;
    if args.json {
        print_line(&json!({"event": "summary", "summary": &summary}))?;
    } else {
        summary.print();
    }
    Ok(if summary.is_good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn announce(args: &DevArgs, engines: &Engines) -> Result<()> {
    let (kafka, dynamodb, service) = engines.addresses();
    if args.json {
        return print_line(&json!({
            "event": "started",
            "kafka": kafka.to_string(),
            "dynamodb": format!("http://{dynamodb}"),
            "service": format!("http://{service}"),
            "data": args.data.as_ref().map(|d| d.display().to_string()),
        }));
    }
    println!("Kafka     {kafka}");
    println!("DynamoDB  http://{dynamodb}   (any credentials, region us-east-1)");
    println!("Service   http://{service}   (GET /_ledger, PUT /_faults)");
    println!(
        "State     {}",
        args.data
            .as_ref()
            .map_or_else(|| "memory".to_owned(), |d| d.display().to_string())
    );
    println!();
    println!("In another terminal:");
    println!("  export TRIAD_BROKERS={kafka} TRIAD_DYNAMODB_ENDPOINT=http://{dynamodb}");
    println!("  triad list");
    println!();
    Ok(())
}

/// Checks the options that clap cannot check: the percentages together, and the form of reply
/// topics.
///
/// # Errors
/// [`Usage`] naming every option that is wrong.
pub fn check(args: &DevArgs) -> Result<(), Usage> {
    let mut problems = Vec::new();
    let together = args.faults.transient + args.faults.stall;
    if together > 100.0 {
        problems.push(format!(
            "--transient and --stall are {together} percent together; a call can only do one"
        ));
    }
    let bad = args
        .reply_topic
        .iter()
        .filter(|t| !topics::is_reply_topic(t));
    problems.extend(bad.map(|t| format!("--reply-topic {t:?} is not of the form reply.<app>")));
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Usage(problems.join("\n")))
    }
}

/// Longest wait for a single answer of an engine in this process.
const ENGINE_WAIT: Duration = Duration::from_secs(10);
