//! `triad-worker`: the handlers in a long-running process, configured by `TRIAD_` variables.
//!
//! Exit codes: 0 stopped by a signal, 1 a permanent failure, 2 the command line or a setting is wrong.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use tokio_util::sync::CancellationToken;
use triad_bootstrap::{
    Account, Config, ConfigError, Sending, Wiring, deployed_engines, environment, export_traces,
    http_remotes, logging, memory,
};
use triad_metrics::prometheus::Endpoint;
use triad_runtime::agent::Remotes;
use triad_worker::Function;
use triad_worker::serving;
use triad_workflow::Millis;

/// Most allocations are small and short-lived, above all in the SDK.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Run handlers over Kafka and DynamoDB until a signal stops it; configured by TRIAD_ variables
#[derive(Debug, Parser)]
#[command(
    name = "triad-worker",
    version,
    after_help = "Examples:
  TRIAD_BROKERS=kafka:9092 triad-worker --functions submission,scheduler,supervisor
  TRIAD_BROKERS=kafka:9092 TRIAD_AGENTS='{\"payment\": {\"base_url\": \"https://pay.example\"}}' \\
      triad-worker --functions agent

It waits for a missing broker or store. SIGTERM and Ctrl-C stop it cleanly."
)]
struct Arguments {
    /// Which handlers to run
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "submission,scheduler,agent,supervisor"
    )]
    functions: Vec<Function>,
    /// Time between the Supervisor's sweeps
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = triad_worker::sweep_every)]
    sweep_every: Millis,
    /// Address on which Prometheus can read metrics at /metrics
    #[arg(long, value_name = "ADDRESS", env = "TRIAD_METRICS")]
    metrics: Option<SocketAddr>,
}

/// Longest interval between two attempts to reach a broker.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = environment("TRIAD_LOG").unwrap_or_else(|| "info".to_owned());
    logging::start(logging::Form::Text, Some(&filter));
    memory::usual_pages();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("triad-worker: no threads can be started: {e}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("triad-worker: {e:#}");
            if e.is::<ConfigError>() {
                ExitCode::from(2)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

async fn run(args: Arguments) -> Result<()> {
    let mut config = Config::read(&environment)?;
    let account = Account::of_user();
    config.kafka.login = config.auth.log_in(&account).await?;
    let remotes = if args.functions.contains(&Function::Agent) {
        http_remotes(&config, &account.clone().into())?
    } else {
        Remotes::new()
    };
    serving::check(&args.functions, &remotes)?;
    let engines = deployed_engines(&config);
    export_traces(&mut config, engines, Sending::Beside)?;
    let stop = CancellationToken::new();
    tokio::spawn({
        let stop = stop.clone();
        async move {
            ended_by_signal().await;
            tracing::info!("stopping");
            stop.cancel();
        }
    });
    if let Some(address) = args.metrics {
        let endpoint = Endpoint::start(address).await?;
        tracing::info!(address = %endpoint.address(), "metrics");
        tokio::spawn(endpoint.serve(stop.clone()));
    }
    wait_for_broker(&config, &stop).await;
    let wiring = Wiring::new(config, account).await?;
    serving::print_functions(&args.functions, &wiring.config);
    tokio::spawn(serving::watch(
        wiring.clone(),
        args.functions.clone(),
        stop.clone(),
    ));
    triad_worker::run(
        wiring,
        remotes,
        &args.functions,
        args.sweep_every.as_duration(),
        stop,
    )
    .await
}

/// Logs that no broker can be reached, and waits for one.
async fn wait_for_broker(config: &Config, stop: &CancellationToken) {
    let mut wait = Duration::from_millis(250);
    while !stop.is_cancelled() {
        let kafka = config.kafka.clone();
        let look = tokio::task::spawn_blocking(move || {
            triad_kafka::wait_for_broker(&kafka, Duration::from_secs(5))
        });
        match look.await {
            Ok(Ok(())) => return,
            Ok(Err(e)) => tracing::error!(next_try_in_ms = wait.as_millis() as u64, "{e}"),
            Err(e) => tracing::error!("the look for a broker failed: {e}"),
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = stop.cancelled() => {}
        }
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

async fn ended_by_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let interrupted = tokio::signal::ctrl_c();
    match signal(SignalKind::terminate()) {
        Ok(mut terminated) => {
            tokio::select! {
                _ = interrupted => {}
                _ = terminated.recv() => {}
            }
        }
        Err(_) => {
            let _ = interrupted.await;
        }
    }
}
