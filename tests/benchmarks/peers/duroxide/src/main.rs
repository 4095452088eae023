//! The three steps as a duroxide orchestration on SQLite, with an HTTP endpoint for orders in the same process.
//!
//! duroxide's SQLite provider opens its file in WAL mode, with a checkpoint every 10,000 pages, a cache of 64 MB and at
//! most five connections. It also runs `PRAGMA synchronous = WAL`. SQLite knows no such value and takes it for `NORMAL`,
//! with which a commit is not synced. So this program sets `PRAGMA synchronous = FULL` on all five connections before it
//! uses them, and reads it back. The pool closes a connection after 30 minutes and opens a new one without the setting:
//! the program ends before that.
//!
//! duroxide gets one of the five connections, the others are kept from it. With two or more, its transactions meet each
//! other's locks, and each time it waits for 200 ms or longer. In a trial with all five, one order had no answer within
//! two minutes.
//!
//! A request that waits for an order is answered by the orchestration after its last step. The answer of that step is
//! durable by then; that the order has ended is stored a moment later.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::Parser;
use common::{Addresses, Ends, STEPS, Service, id_of};
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{ObservabilityConfig, Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, BackoffStrategy, Client, OrchestrationContext, OrchestrationRegistry,
    RetryPolicy,
};
use serde_json::Value;
use sqlx::Sqlite;
use sqlx::pool::PoolConnection;

/// Connections of the provider's pool.
const CONNECTIONS: usize = 5;
/// `PRAGMA synchronous` reads so after it was set to `FULL`.
const FULL: i64 = 2;
/// How long this program may run: shorter than the pool keeps a connection.
const LONGEST: Duration = Duration::from_secs(29 * 60);

/// A runtime of duroxide, and the way in
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    at: Addresses,
    /// Where its file is
    #[arg(long)]
    data: PathBuf,
    /// Connections to the file that duroxide gets
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// Turns of orchestrations at once
    #[arg(long, default_value_t = 1)]
    orchestrations: usize,
    /// Steps at once
    #[arg(long, default_value_t = 2)]
    steps: usize,
    /// Milliseconds between two looks into an empty queue
    #[arg(long, default_value_t = 1)]
    poll: u64,
    /// Seconds after which a step is taken from a worker that gives no sign of life
    #[arg(long, default_value_t = 5)]
    lock: u64,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let args = Args::parse();
    let (store, _held) = open(&args.data, args.connections).await?;
    let store = Arc::new(store);
    let (service, ends) = (Service::at(&args.at.service)?, Ends::default());
    let options = RuntimeOptions {
        orchestration_concurrency: args.orchestrations,
        worker_concurrency: args.steps,
        dispatcher_min_poll_interval: Duration::from_millis(args.poll),
        worker_lock_timeout: Duration::from_secs(args.lock),
        observability: ObservabilityConfig {
            log_level: "error".to_owned(),
            ..ObservabilityConfig::default()
        },
        ..RuntimeOptions::default()
    };
    let _runtime = Runtime::start_with_options(
        store.clone(),
        activities(&service),
        orchestrations(&ends),
        options,
    )
    .await;
    let client = Arc::new(Client::new(store));
    let way_in = common::serve(args.at.listen, move |order: Value, waits| {
        let (client, ends) = (client.clone(), ends.clone());
        async move {
            let id = id_of(&order)?;
            let end = waits.then(|| ends.of(id));
            let input = order.to_string();
            client.start_orchestration(id, "orders", input).await?;
            if let Some(end) = end {
                end.await?;
            }
            Ok(())
        }
    });
    tokio::select! {
        ended = way_in => ended,
        () = tokio::time::sleep(LONGEST) => bail!("commits would not be synced any longer"),
    }
}

fn activities(service: &Service) -> ActivityRegistry {
    STEPS
        .into_iter()
        .fold(ActivityRegistry::builder(), |steps, step| {
            let service = service.clone();
            steps.register(step, move |_: ActivityContext, order: String| {
                let service = service.clone();
                async move {
                    let order = serde_json::from_str(&order).map_err(|error| error.to_string())?;
                    let answer = service.call(step, &order).await;
                    answer
                        .map(|answer| answer.to_string())
                        .map_err(|error| format!("{error:#}"))
                }
            })
        })
        .build()
}

fn orchestrations(ends: &Ends) -> OrchestrationRegistry {
    let ends = ends.clone();
    let run = move |ctx: OrchestrationContext, order: String| {
        let ends = ends.clone();
        async move {
            for step in STEPS {
                let again = RetryPolicy::new(10).with_backoff(BackoffStrategy::Exponential {
                    base: Duration::from_millis(100),
                    multiplier: 2.0,
                    max: Duration::from_secs(5),
                });
                ctx.schedule_activity_with_retry(step, order.as_str(), again)
                    .await?;
            }
            ends.tell(&ctx.instance_id());
            Ok(String::new())
        }
    };
    OrchestrationRegistry::builder()
        .register("orders", run)
        .build()
}

/// Opens the store, has every commit synced, and takes all connections but `used` away from it.
async fn open(dir: &Path, used: usize) -> Result<(SqliteProvider, Vec<PoolConnection<Sqlite>>)> {
    let file = dir.join("duroxide.sqlite");
    let url = format!("sqlite://{}?mode=rwc", file.display());
    let store = SqliteProvider::new(&url, None).await?;
    // All at once, so that each is another one.
    let mut connections = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        connections.push(store.get_pool().acquire().await?);
    }
    ensure!(
        store.get_pool().size() as usize == CONNECTIONS && store.get_pool().num_idle() == 0,
        "the pool has other connections"
    );
    for connection in &mut connections {
        sqlx::query("PRAGMA synchronous = FULL")
            .execute(&mut **connection)
            .await?;
        let set: i64 = sqlx::query_scalar("PRAGMA synchronous")
            .fetch_one(&mut **connection)
            .await?;
        ensure!(set == FULL, "`PRAGMA synchronous` is {set}");
    }
    Ok((store, connections.split_off(used.min(CONNECTIONS))))
}
