//! `triad dev`: the whole system in one process, without any installation.

pub mod agents;
pub mod engines;
mod faults;
mod files;
pub mod follow;
mod handlers;
mod live;
mod order_news;
mod other_workers;
mod output;
pub mod project;
mod publisher;
mod reread;
mod service;
mod services;
mod setup;
pub mod summary;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use triad_bootstrap::SubmissionHandler;
use triad_core::topics;
use triad_ingress::{Server, StartError};
use triad_metrics::prometheus::{Endpoint, EndpointError};
use triad_runtime::agent::Remotes;
use triad_sqlite::file;
use triad_sqlite::topics::LocalBus;
use triad_worker::Function;
use triad_workflow::Millis;

use crate::machine::directory::taken;
use crate::machine::signals::interrupted;
use crate::machine::stores::{Kind, StoreAddress};
use crate::output::{Usage, print_line, quoted};
use crate::store::Store;

use agents::{AgentArgs, AgentRow, ServiceAddress};
use engines::{Addresses, Engines};
use faults::FaultArgs;
use follow::Follower;
use live::Live;
use output::Say;
use services::Services;
use setup::Setup;
use summary::Summary;

/// Run the whole system in this process: embedded broker and store, all handlers, a reference
/// remote service.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  triad dev                                        run until Ctrl-C, in memory
  triad new trip && cd trip && triad dev           run a project: its workflow and its services
  triad dev --workflow w.yaml --agent bank=http://127.0.0.1:8080
  triad dev --orders orders.jsonl --until-done     run a file of orders and sum up
  triad dev --data ./state --orders orders.jsonl   keep everything in ./state, resume after a kill;
                                                   then: triad list --data ./state
  triad dev --dynamodb-port 8000                   tables that any client of DynamoDB can read
  triad dev --orders orders.jsonl --until-done --transient 10 --permanent 2 --stall 2

In a directory with a triad.yaml (see triad new) it runs the project in that file, publishes a workflow again
when its file changes, restarts a service when its files change, and applies a changed triad.yaml.

Exit codes: 0 every order was processed, 1 an order did not end well, 2 the options or files are wrong,
130 interrupted.")]
pub struct DevArgs {
    /// Keep everything durably in this directory, and resume from it. Default: memory
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Which store to run on. Default: the one that the directory of --data has; else dynamodb with --dynamodb-port
    /// or --external-agent, and sqlite without them
    #[arg(long, value_enum)]
    pub store: Option<Kind>,
    /// Submit the orders of this JSON-lines file, through Kafka
    #[arg(long, value_name = "FILE")]
    pub orders: Option<PathBuf>,
    /// Submit the orders of the project's file
    #[arg(long, conflicts_with = "orders")]
    pub submit: bool,
    /// End when every order of the file is finished, with a summary; in a project, of its file
    #[arg(long)]
    pub until_done: bool,
    /// Most orders of the file under way at once; 0 is no limit. With too many, replies come after the steps'
    /// timeouts, and each late reply costs another attempt
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub in_flight: u32,
    /// Workflow files to publish, without a project. Default: those of the project in this directory,
    /// or else the built-in order-fulfilment
    #[arg(long, value_name = "FILE")]
    pub workflow: Vec<PathBuf>,
    /// Run the project in this directory, or of this triad.yaml
    #[arg(long, value_name = "DIR|FILE", conflicts_with = "workflow")]
    pub project: Option<PathBuf>,
    /// Print machine-readable lines: the addresses first, the summary last
    #[arg(long)]
    pub json: bool,
    /// Kafka port. Default: a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub kafka_port: u16,
    /// DynamoDB port. Default: a free one with --store dynamodb, none with sqlite
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub dynamodb_port: u16,
    /// Port of the reference remote service. Default: a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub service_port: u16,
    /// Port of HTTP: orders at /v1/orders, the console at /console/. Default: a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub console_port: u16,
    /// Address on which Prometheus can read metrics at /metrics
    #[arg(long, value_name = "ADDRESS", env = "TRIAD_METRICS")]
    pub metrics: Option<SocketAddr>,
    /// Models may act at /mcp of the console, too; without this option they may only read
    #[arg(long)]
    pub allow_mcp_acts: bool,
    /// Partitions of each topic
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(i32).range(1..=64))]
    pub partitions: i32,
    /// Time between two sweeps of the Supervisor
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = triad_worker::sweep_every)]
    pub sweep_every: Millis,
    /// Reply topics that orders may name, such as reply.shop
    #[arg(long, value_name = "TOPIC")]
    pub reply_topic: Vec<String>,
    /// Services that the agents call
    #[command(flatten)]
    pub agents: AgentArgs,
    /// Faults of the reference service
    #[command(flatten)]
    pub faults: FaultArgs,
}

/// Runs `triad dev`. The exit code is 0 if every order was processed, 1 if one did not end well or was lost, 130 if
/// the user interrupted it. Without `--until-done` it runs until then.
///
/// # Errors
/// If a file or an option is wrong; if an engine cannot be started, with its address or file; if a handler ends
/// without a stop; or if an order cannot be submitted or a record cannot be read.
pub async fn run(args: DevArgs) -> Result<ExitCode> {
    let say = if args.json { Say::Json } else { Say::Text };
    let setup = Setup::of(&args)?;
    let orders = match &setup.orders {
        Some(file) => Some(follow::read_orders(file)?),
        None => None,
    };
    let metrics = match args.metrics {
        Some(address) => Some(Endpoint::start(address).await.map_err(unmeasured)?),
        None => None,
    };
    let engines = Engines::start(setup.engine_options(&args)).await?;
    let submission = Arc::new(engines.wiring.submission());
    let console = listen(&args, &engines, submission.clone()).await?;
    let interrupted = interrupted();
    let measured = metrics.as_ref().map(Endpoint::address);
    announce(&args, &engines, &setup, console.address(), measured)?;
    let stop = CancellationToken::new();
    if let Some(endpoint) = metrics {
        tokio::spawn(endpoint.serve(stop.clone()));
    }
    // The agents' handlers are separate: a changed project file restarts them.
    let functions = [
        Function::Submission,
        Function::Scheduler,
        Function::Supervisor,
    ];
    let mut worker = tokio::spawn({
        let (wiring, stop) = (engines.wiring.clone(), stop.clone());
        let every = args.sweep_every.as_duration();
        async move {
            triad_worker::run_on_one_machine(
                submission,
                wiring,
                Remotes::new(),
                &functions,
                every,
                stop,
            )
            .await
        }
    });
    let mut live = Live::start(&setup, &engines, say, stop.clone())?;
    let result = tokio::select! {
        result = work(&args, &engines, live.services(), orders) => result.map(RunEnding::Done),
        result = live.follow() => result.map(RunEnding::With),
        () = interrupted => Ok(RunEnding::With(ExitCode::from(130))),
        // Engines without handlers look alive and do nothing, so the process ends.
        ended = &mut worker => {
            let ended = ended.context("the worker panicked").and_then(|ended| ended);
            let error = ended.err().unwrap_or_else(|| anyhow!("it ended without a request to stop"));
            let error = error.context("the handlers have ended");
            tracing::error!("{error:#}");
            // Ignored: the first error is already logged.
            let _ = live.stop().await;
            console.stop().await;
            engines.shutdown().await;
            return Err(error);
        }
    };
    stop.cancel();
    console.stop().await;
    let ended = worker.await.context("the worker panicked")?;
    let agents = live.stop().await;
    engines.shutdown().await;
    // After the last report of an order, so that the summary is the last line; printed even if the handlers failed.
    if let Ok(RunEnding::Done(summary)) = &result {
        if args.json {
            print_line(&json!({"event": "summary", "summary": summary}))?;
        } else {
            summary.print();
        }
    }
    ended?;
    let result = result?;
    agents?;
    Ok(match result {
        RunEnding::With(code) => code,
        RunEnding::Done(summary) if summary.is_good() => ExitCode::SUCCESS,
        RunEnding::Done(_) => ExitCode::FAILURE,
    })
}

fn unmeasured(error: EndpointError) -> anyhow::Error {
    match error {
        EndpointError::Listen { address, error } => taken("--metrics", address, &error).into(),
        error => error.into(),
    }
}

/// How a run has ended.
enum RunEnding {
    /// The run has ended with this exit code, and prints no summary.
    With(ExitCode),
    /// All orders of the file are finished.
    Done(Summary),
}

/// Submits the orders of the file and follows them to their ends. Never returns if there is no file, or if the run is
/// to continue.
async fn work(
    args: &DevArgs,
    engines: &Engines,
    services: Option<Arc<Services>>,
    orders: Option<Vec<follow::OrderLine>>,
) -> Result<Summary> {
    if let Some(services) = services {
        let ended = services.started().await;
        // The orders would wait for a service that has failed to start.
        if args.until_done && !ended.is_empty() {
            return Err(anyhow!(
                "{} did not start; nothing was submitted",
                ended.join(", ")
            ));
        }
    }
    let Some(orders) = orders else {
        return std::future::pending().await;
    };
    let shown = !args.json && std::io::stderr().is_terminal();
    let follower = Follower::open(engines, orders, args.in_flight, shown)?;
    let outcome = follower.run().await?;
    if !args.until_done {
        return std::future::pending().await;
    }
    Summary::of(engines, &outcome).await
}

/// Serves HTTP on a loopback address: orders, and the console of this run.
async fn listen(
    args: &DevArgs,
    engines: &Engines,
    submission: Arc<SubmissionHandler<Store, LocalBus>>,
) -> Result<Server> {
    let wiring = &engines.wiring;
    let api = crate::console::api(
        wiring.store.clone(),
        wiring.bus.clone(),
        wiring.operator(),
        wiring.config.kafka.clone(),
        triad_console::Settings::default(),
    )?;
    let address = SocketAddr::from(([127, 0, 0, 1], args.console_port));
    let settings = triad_ingress::Settings {
        operators: Some(crate::mounted::mounted(api, args.allow_mcp_acts)),
        operations: Some(crate::console::operations(
            (wiring.store.clone(), wiring.bus.clone()),
            wiring.operator(),
            wiring.config.kafka.clone(),
        )),
        timing: wiring.config.settings.timing,
        ..triad_ingress::Settings::on(address)
    };
    let server = Server::start(
        settings,
        submission,
        wiring.store.clone(),
        wiring.store.ends.clone(),
    );
    server.await.map_err(|error| match error {
        StartError::Listen { address, why } => taken("--console-port", address, &why).into(),
        error => error.into(),
    })
}

fn announce(
    args: &DevArgs,
    engines: &Engines,
    setup: &Setup,
    console: SocketAddr,
    metrics: Option<SocketAddr>,
) -> Result<()> {
    let Addresses {
        kafka,
        store,
        service,
    } = engines.addresses();
    let rows = engines.publisher.rows();
    if args.json {
        return print_line(&json!({
            "event": "started",
            "kafka": kafka.to_string(),
            "store": store.kind().name(),
            "dynamodb": store.url(),
            "triad_data": store.data().map(|dir| dir.display().to_string()),
            "service": format!("http://{service}"),
            "console": format!("http://{console}/console/"),
            "orders": format!("http://{console}/v1/orders"),
            "metrics": metrics.map(|at| format!("http://{at}/metrics")),
            "data": args.data.as_ref().map(|d| d.display().to_string()),
            "project": setup.project.as_ref().map(|p| p.file.display().to_string()),
            "agents": rows.iter().map(AgentRow::json).collect::<Vec<Value>>(),
        }));
    }
    println!("Kafka     {kafka}");
    match &store {
        StoreAddress::Port(at) => {
            println!("DynamoDB  http://{at}   (any credentials, region us-east-1)")
        }
        StoreAddress::Data(dir) => {
            println!("Store     {}   (SQLite)", file(dir).display())
        }
    }
    if rows
        .iter()
        .any(|row| row.place == ServiceAddress::Reference)
    {
        println!(
            "Service   http://{service}   (the reference service: GET /_ledger, PUT /_faults)"
        );
    }
    println!("Console   http://{console}/console/");
    println!("Orders    http://{console}/v1/orders   (POST, with ?wait=30s until its end)");
    if let Some(at) = metrics {
        println!("Metrics   http://{at}/metrics");
    }
    let memory = match store {
        StoreAddress::Port(_) => "memory",
        StoreAddress::Data(_) => "memory; the store is in a temporary directory, until the end",
    };
    println!(
        "State     {}",
        args.data
            .as_ref()
            .map_or_else(|| memory.to_owned(), |d| d.display().to_string())
    );
    println!();
    println!("{}", agents::table(&rows));
    println!();
    println!("In another terminal:");
    match (&setup.project, &store) {
        (Some(_), StoreAddress::Port(_)) => println!(
            "  . .triad/env      (in this directory; it says where Kafka and DynamoDB are)"
        ),
        (Some(_), StoreAddress::Data(_)) => println!(
            "  . .triad/env      (in this directory; it says where Kafka and the store are)"
        ),
        (None, StoreAddress::Port(at)) => {
            println!("  export TRIAD_BROKERS={kafka} TRIAD_DYNAMODB_ENDPOINT=http://{at}")
        }
        (None, StoreAddress::Data(dir)) => {
            println!("  export TRIAD_DATA={}", quoted(&dir.display().to_string()))
        }
    }
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

/// Longest wait for one answer of an engine in this process.
const ENGINE_WAIT: Duration = Duration::from_secs(10);
