//! The broker as a program: for scripts, and for tests that kill it.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use triad_broker::{Broker, BrokerConfig, Error, FlushPolicy};

/// A single-node, Kafka-protocol-compatible broker for local runs and tests.
///
/// Prints the address to bootstrap from as its first line. Stops cleanly on SIGINT and SIGTERM.
#[derive(Debug, Parser)]
#[command(name = "triad-broker", version)]
struct Args {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Keep records, topics and offsets here. Without it nothing survives the process.
    #[arg(long)]
    data: Option<PathBuf>,
    /// What an acknowledged record survives: the machine's failure, or only the process's.
    #[arg(long, value_enum, default_value_t = Flush::Machine)]
    survive: Flush,
    /// Do not create topics that clients merely ask about.
    #[arg(long)]
    no_auto_create: bool,
    /// Partitions of a topic for which nobody said a number.
    #[arg(long, default_value_t = 1)]
    partitions: i32,
    /// Delete a partition's oldest finished segments beyond so many bytes. Default: never.
    #[arg(long)]
    retention_bytes: Option<u64>,
    /// Allow an address that other machines can reach. There is no authentication.
    #[arg(long)]
    allow_remote: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Flush {
    Machine,
    Process,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let args = Args::parse();
    let broker = Broker::start(BrokerConfig {
        listen: args.listen,
        allow_remote: args.allow_remote,
        data: args.data,
        flush: match args.survive {
            Flush::Machine => FlushPolicy::Sync,
            Flush::Process => FlushPolicy::System,
        },
        auto_create_topics: !args.no_auto_create,
        default_partitions: args.partitions,
        retention_bytes: args.retention_bytes,
        ..BrokerConfig::default()
    })?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", broker.addr())?;
    stdout.flush()?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    broker.shutdown().await
}
