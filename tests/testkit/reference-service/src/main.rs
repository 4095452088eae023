//! `triad-reference-service`: the reference remote service as a process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use triad_reference_service::{Config, FaultPlan, Faults, ReferenceService};

/// The reference remote service: idempotent, with compensation, a ledger, and faults on request.
///
/// Faults given here apply to every service; PUT /_faults changes them, by service too.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Address to listen on; port 0 picks a free one
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// File that keeps the ledger over restarts
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    /// Most forward keys remembered (about 400 bytes each)
    #[arg(long, default_value_t = 1_000_000)]
    max_keys: usize,
    /// Seed of every fault decision
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Fraction of calls that fail with 429, 500 or 503
    #[arg(long, default_value_t = 0.0)]
    transient: f64,
    /// Fraction of those that fail after their effect
    #[arg(long, default_value_t = 0.5)]
    transient_after_effect: f64,
    /// Fraction of forward keys that are declined for good
    #[arg(long, default_value_t = 0.0)]
    permanent: f64,
    /// Fraction of keys of compensations that are declined for good
    #[arg(long, default_value_t = 0.0)]
    compensation_permanent: f64,
    /// Fraction of calls whose answer is held back
    #[arg(long, default_value_t = 0.0)]
    stall: f64,
    /// How long it is held back, in milliseconds
    #[arg(long, default_value_t = 0)]
    stall_ms: u64,
    /// Fraction of calls answered with a body that breaks off
    #[arg(long, default_value_t = 0.0)]
    garbage: f64,
    /// Latency of every call, in milliseconds
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
    /// Bound of a further, varying latency, in milliseconds
    #[arg(long, default_value_t = 0)]
    jitter_ms: u64,
    /// Answer 503 to everything
    #[arg(long)]
    down: bool,
    /// Answer every call 401, as if the caller's token had expired
    #[arg(long)]
    caller_refused: bool,
    /// Retry-After of transient answers, in seconds
    #[arg(long)]
    retry_after_s: Option<u32>,
}

impl Args {
    fn config(self) -> Config {
        let default = FaultPlan {
            transient: self.transient,
            transient_after_effect: self.transient_after_effect,
            permanent: self.permanent,
            compensation_permanent: self.compensation_permanent,
            stall: self.stall,
            stall_ms: self.stall_ms,
            garbage: self.garbage,
            latency_ms: self.latency_ms,
            jitter_ms: self.jitter_ms,
            down: self.down,
            caller_refused: self.caller_refused,
            retry_after_s: self.retry_after_s,
        };
        Config {
            listen: self.listen,
            ledger: self.ledger,
            faults: Faults {
                seed: self.seed,
                default,
                ..Faults::default()
            },
            max_keys: self.max_keys,
            ..Config::default()
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let service = match ReferenceService::start(Args::parse().config()).await {
        Ok(service) => service,
        Err(error) => {
            eprintln!("triad-reference-service: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("listening on http://{}", service.addr());
    if let Err(error) = told_to_stop().await {
        eprintln!("triad-reference-service: cannot wait for a signal: {error}");
        return ExitCode::FAILURE;
    }
    service.shutdown().await;
    ExitCode::SUCCESS
}

/// Waits for Ctrl-C, or for SIGTERM, which stops a container.
async fn told_to_stop() -> std::io::Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        _ = terminated.recv() => Ok(()),
    }
}
