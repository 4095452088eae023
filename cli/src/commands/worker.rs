//! `triad worker`: the handlers in a long-running process.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use tokio_util::sync::CancellationToken;
use triad_runtime::agent::Remotes;
use triad_setup::{Account, Config, Wiring, environment, http_remotes};
use triad_workflow::Millis;

use crate::worker::{self, Function};

/// Run handlers over Kafka and DynamoDB until told to stop; configured by TRIAD_ variables
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  TRIAD_BROKERS=kafka:9092 triad worker --functions submission,scheduler,supervisor
  TRIAD_BROKERS=kafka:9092 TRIAD_AGENTS='{\"payment\": {\"base_url\": \"https://pay.example\"}}' \\
      triad worker --functions agent

A broker or store that is not there is waited for. SIGTERM and Ctrl-C end it cleanly.")]
pub struct WorkerArgs {
    /// Which handlers to run
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "submission,scheduler,agent,supervisor"
    )]
    functions: Vec<Function>,
    /// Time between the Supervisor's sweeps
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = |t: &str| Millis::try_from(t.to_owned()))]
    sweep_every: Millis,
}

/// Bound of the wait between two looks for a broker.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

pub async fn run(args: WorkerArgs) -> Result<ExitCode> {
    let mut config = Config::read(&environment, Account::of_user())?;
    let login = config.auth.log_in(&config.account).await;
    config.kafka.login = login.map_err(anyhow::Error::msg)?;
    let remotes = if args.functions.contains(&Function::Agent) {
        http_remotes(&config)?
    } else {
        Remotes::new()
    };
    let stop = CancellationToken::new();
    tokio::spawn({
        let stop = stop.clone();
        async move {
            ended_by_signal().await;
            tracing::info!("stopping");
            stop.cancel();
        }
    });
    wait_for_broker(&config, &stop).await;
    let wiring = Wiring::new(config).await?;
    tracing::info!(functions = ?args.functions, "running");
    worker::run(
        wiring,
        remotes,
        &args.functions,
        args.sweep_every.as_duration(),
        stop,
    )
    .await?;
    Ok(ExitCode::SUCCESS)
}

/// Says clearly what is missing, and waits for it.
async fn wait_for_broker(config: &Config, stop: &CancellationToken) {
    let mut wait = Duration::from_millis(250);
    while !stop.is_cancelled() {
        let kafka = config.kafka.clone();
        let look = tokio::task::spawn_blocking(move || {
            triad_kafka::wait_for_broker(&kafka, Duration::from_secs(5))
        });
        match look.await {
            Ok(Ok(())) => return,
            Ok(Err(e)) => tracing::error!(next_try_in = ?wait, "{e}"),
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
