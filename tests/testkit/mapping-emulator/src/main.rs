//! The mapping emulator as a program: for LocalStack and for the deployed test.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use triad_bootstrap::{environment, logging};
use triad_kafka::KafkaConfig;
use triad_mapping_emulator::{Account, Front};

/// Event source mappings from Kafka to Lambda functions, before an emulator that has none.
///
/// Prints its own address as its first line. It speaks the API of mappings and hands every other
/// request on, so that an emulator's clients can be pointed at it. Stops cleanly on SIGTERM.
#[derive(Debug, Parser)]
#[command(name = "triad-mapping-emulator", version)]
struct Args {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The emulator.
    #[arg(long, value_name = "URL", env = "AWS_ENDPOINT_URL")]
    endpoint: String,
    /// Kafka bootstrap addresses.
    #[arg(long, value_name = "HOST:PORT", env = "TRIAD_BROKERS")]
    brokers: String,
    /// Region of the functions.
    #[arg(long, env = "AWS_REGION", default_value = "us-east-1")]
    region: String,
    /// Mappings to make at once: a JSON list in the form of CreateEventSourceMapping.
    #[arg(long, value_name = "FILE")]
    mappings: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    logging::start(logging::Form::Text, environment("TRIAD_LOG").as_deref());
    let args = Args::parse();
    let credential = |name| environment(name).unwrap_or_else(|| "test".to_owned());
    let account = Account {
        endpoint: args.endpoint.trim_end_matches('/').to_owned(),
        region: args.region,
        key: credential("AWS_ACCESS_KEY_ID"),
        secret: credential("AWS_SECRET_ACCESS_KEY"),
    };
    let front = Front::new(account, KafkaConfig::new(args.brokers));
    if let Some(file) = args.mappings {
        let text = std::fs::read(&file).with_context(|| file.display().to_string())?;
        let mappings: Vec<serde_json::Value> = serde_json::from_slice(&text)
            .with_context(|| format!("{}: not a list of mappings", file.display()))?;
        for mapping in mappings {
            front.create(mapping)?;
        }
    }
    let listener = tokio::net::TcpListener::bind(args.listen).await?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", listener.local_addr()?)?;
    stdout.flush()?;
    let mut terminate = signal(SignalKind::terminate())?;
    let stopped = async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
    };
    axum::serve(listener, front.routes())
        .with_graceful_shutdown(stopped)
        .await?;
    Ok(())
}
