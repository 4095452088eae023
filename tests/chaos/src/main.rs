//! `triad-chaos`: real processes under kills and freezes, or with outages of one part; checks the guarantees.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use triad_chaos::options::Options;
use triad_chaos::run::{AnyReport, Interrupted, run};

/// Exit code: a guarantee was violated, or a check has looked at nothing.
const BROKEN: u8 = 1;
/// Exit code: the run failed.
const NOT_MADE: u8 = 2;
/// Exit code: ended by Ctrl-C or SIGTERM.
const INTERRUPTED: u8 = 130;

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let interrupted = CancellationToken::new();
    tokio::spawn({
        let interrupted = interrupted.clone();
        async move {
            match told_to_stop().await {
                Ok(()) => interrupted.cancel(),
                Err(e) => eprintln!("triad-chaos: signals cannot be waited for: {e}"),
            }
        }
    });
    let result = run(&options, interrupted).await;
    match result.and_then(|shown| Ok(print(&shown, options.json).map(|()| shown)?)) {
        Ok(shown) if shown.is_good() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(BROKEN),
        Err(e) if e.is::<Interrupted>() => ExitCode::from(INTERRUPTED),
        Err(e) => {
            eprintln!("triad-chaos: {e:#}");
            ExitCode::from(NOT_MADE)
        }
    }
}

fn print(shown: &AnyReport, json: bool) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        serde_json::to_writer(&mut out, shown)?;
        writeln!(out)
    } else {
        write!(out, "{shown}")
    }
}

async fn told_to_stop() -> std::io::Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        _ = terminated.recv() => Ok(()),
    }
}
