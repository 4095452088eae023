//! The three steps as a durare workflow on SQLite, with an HTTP endpoint for orders in the same process.
//!
//! durare's own way to open a file sets WAL mode and `synchronous = NORMAL`, with which a commit is not synced. This
//! program opens the file with the same settings but `synchronous = FULL`, and gives durare that pool. It has five
//! connections, as durare's own has.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use common::{Addresses, STEPS, Service, id_of};
use durare::{
    DurableContext, DurableEngine, EngineConfig, Error, SqliteProvider, StepOptions,
    WorkflowOptions,
};
use serde_json::Value;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

/// An engine of durare, and the way in
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    at: Addresses,
    /// Where its file is
    #[arg(long)]
    data: PathBuf,
    /// Connections to the file
    #[arg(long, default_value_t = 5)]
    connections: u32,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let args = Args::parse();
    let service = Service::at(&args.at.service)?;
    let store = open(&args.data, args.connections).await?;
    let config = EngineConfig::default()
        .app_version("1")
        .executor_id("one")
        .recover_on_launch(true);
    let mut engine = DurableEngine::with_config(Arc::new(store), config).await?;
    engine.register("orders", move |ctx, order| run(ctx, order, service.clone()));
    engine.launch().await?;
    let engine = Arc::new(engine);
    common::serve(args.at.listen, move |order: Value, waits| {
        let engine = engine.clone();
        async move {
            let options = WorkflowOptions::with_id(id_of(&order)?);
            let started = engine.start::<_, ()>("orders", order, options).await?;
            if waits {
                started.result().await?;
            }
            Ok(())
        }
    })
    .await
}

async fn run(ctx: DurableContext, order: Value, service: Service) -> durare::Result<()> {
    for step in STEPS {
        let again = StepOptions::new(step)
            .max_retries(9)
            .base_interval(Duration::from_millis(100))
            .max_interval(Duration::from_secs(5));
        let call = || async {
            let answer = service.call(step, &order).await;
            answer.map_err(|error| Error::app(format!("{error:#}")))
        };
        let _: Value = ctx.step_with(again, call).await?;
    }
    Ok(())
}

async fn open(dir: &Path, connections: u32) -> Result<SqliteProvider> {
    let options = SqliteConnectOptions::new()
        .filename(dir.join("durare.sqlite"))
        .create_if_missing(true)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(5));
    let pool = SqlitePoolOptions::new().max_connections(connections);
    let pool = pool.connect_with(options).await?;
    Ok(SqliteProvider::from_pool(pool))
}
