//! The embedded DynamoDB engine as a program: for scripts, and for tests that kill it.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use triad_embedded::Embedded;

/// A DynamoDB-compatible store for local runs and tests on one machine.
///
/// Its first line says where it is: {"event":"started","dynamodb":"http://127.0.0.1:8000"}. With
/// a directory a write that was answered survives `kill -9`. Stops on SIGINT and SIGTERM.
#[derive(Debug, Parser)]
#[command(name = "triad-store", version)]
struct Args {
    /// Where to listen, on the loopback address: there is no authentication. Port 0 takes a free
    /// one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Keep the tables here. Without it nothing survives the process.
    #[arg(long)]
    data: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // The engine warns of every condition that does not hold, which is a race that somebody lost.
    let quiet = || EnvFilter::new("warn,dynoxide::server=error");
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| quiet());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("triad-store: {e}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<(), Box<dyn std::error::Error>> {
    if !args.listen.ip().is_loopback() {
        return Err(format!("{} is not a loopback address", args.listen).into());
    }
    let _lock = args.data.as_deref().map(lock).transpose()?;
    let store = Embedded::start(args.listen, args.data.as_deref())?;
    let mut out = std::io::stdout();
    writeln!(
        out,
        r#"{{"event":"started","dynamodb":"http://{}"}}"#,
        store.addr()
    )?;
    out.flush()?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// Makes the directory and takes it for this process. The lock ends with the process, however it
/// ends.
fn lock(dir: &Path) -> Result<File, String> {
    let told = |e: std::io::Error| format!("{}: {e}", dir.display());
    std::fs::create_dir_all(dir).map_err(told)?;
    let file = File::create(dir.join("lock")).map_err(told)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(_) => Err(format!("{} is in use by another process", dir.display())),
    }
}
