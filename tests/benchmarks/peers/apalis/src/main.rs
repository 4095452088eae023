//! The three steps as an apalis workflow on PostgreSQL, with an HTTP endpoint for orders in the same process.
//!
//! A request that waits for an order is answered when the last step has been called. apalis stores that step's result
//! a moment later, so the figures are slightly in its favour.

use std::time::Duration;

use anyhow::Result;
use apalis::prelude::*;
use apalis_postgres::{Config, PostgresStorage};
use apalis_workflow::{SteppedFlow, WorkflowSink as _};
use clap::Parser;
use common::{Addresses, Ends, Service, id_of};
use serde_json::Value;

/// Interval at which a worker polls for tasks; it is also notified of new ones.
const POLL_EVERY: Duration = Duration::from_millis(100);

/// A worker, and the way in
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    at: Addresses,
    /// The database
    #[arg(long)]
    database: String,
    /// The name of this worker: another one after each start
    #[arg(long)]
    name: String,
    /// Tasks at once
    #[arg(long, default_value_t = 64)]
    concurrency: usize,
    /// Connections to the database
    #[arg(long, default_value_t = 16)]
    connections: u32,
    /// Seconds between two signs of life of a worker; tasks of one without them are taken over
    #[arg(long, default_value_t = 5)]
    heartbeat: u64,
}

#[derive(Clone)]
struct Remote {
    service: Service,
    ends: Ends,
}

async fn reserve(order: Value, remote: Data<Remote>) -> Result<Value, BoxDynError> {
    remote.service.call("reserve", &order).await?;
    Ok(order)
}

async fn charge(order: Value, remote: Data<Remote>) -> Result<Value, BoxDynError> {
    remote.service.call("charge", &order).await?;
    Ok(order)
}

async fn ship(order: Value, remote: Data<Remote>) -> Result<(), BoxDynError> {
    remote.service.call("ship", &order).await?;
    remote.ends.tell(id_of(&order)?);
    Ok(())
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let args = Args::parse();
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(args.connections);
    let pool = pool.connect(&args.database).await?;
    PostgresStorage::setup(&pool).await?;
    let config = Config::default()
        .queue("orders")
        .batch_size(args.concurrency)
        .heartbeat_interval(Duration::from_secs(args.heartbeat));
    let storage = PostgresStorage::<Value>::new(&pool).with_config(config);
    let remote = Remote {
        service: Service::at(&args.at.service)?,
        ends: Ends::default(),
    };
    let (taking, ends) = (storage.clone(), remote.ends.clone());
    let way_in = tokio::spawn(common::serve(args.at.listen, move |order: Value, waits| {
        let (mut storage, ends) = (taking.clone(), ends.clone());
        async move {
            let end = ends.of(id_of(&order)?);
            let stored = storage.push_start(order).await;
            stored.map_err(|error| anyhow::anyhow!("{error}"))?;
            if waits {
                end.await?;
            }
            Ok(())
        }
    }));
    let flow = SteppedFlow::new("orders")
        .and_then(reserve)
        .and_then(charge)
        .and_then(ship);
    let worker = WorkerBuilder::new(args.name)
        .backend(storage.with_pubsub().poll_with_interval(POLL_EVERY))
        .data(remote)
        .concurrency(args.concurrency)
        .parallelize(tokio::spawn)
        .build(flow);
    tokio::select! {
        ended = worker.run() => Ok(ended?),
        ended = way_in => ended?,
    }
}
